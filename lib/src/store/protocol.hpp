#pragma once
#include <autolaunch/export.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// The bytes of c10d's TCPStore protocol: docs/store-protocol.md describes them. Pure: no sockets,
/// no table.
namespace autolaunch::store {

/// Sent after Command::validate, little-endian, as the first thing on a connection.
inline constexpr std::uint32_t kValidationMagic = 0x3C85F7CE;

/// What a client asks for. The values are those of the current dialect.
enum class Command : std::uint8_t {
    validate = 0,
    set,
    compare_set,
    get,
    add,
    check,
    wait,
    key_count,
    delete_key,
    append,
    multi_get,
    multi_set,
    cancel_wait,
    ping,
    queue_push,
    queue_pop,
    queue_length,
    list_keys,
    barrier,
};
inline constexpr std::size_t kCommandCount = 19;

/// False for those that are never answered.
AUTOLAUNCH_API bool has_reply(Command command);

enum class CheckReply : std::uint8_t { ready, not_ready };
enum class WaitReply : std::uint8_t { stop_waiting, canceled };

/// How commands are numbered. PyTorch before 2.2 knows no VALIDATE: SET is 0 there, and so on up to
/// GETNUMKEYS = 6. Then torch1 has WATCH_KEY (nobody used it) and DELETE_KEY, and torch2_0, of
/// PyTorch 2.0 and 2.1, goes on from DELETE_KEY to CANCEL_WAIT. `older` is one of these two, not
/// yet known which.
enum class Dialect { unknown, current, older, torch1, torch2_0 };

/// The command's number in the dialect; -1 when the dialect lacks it.
int command_code(Dialect dialect, Command command);

struct Limits {
    std::size_t key_bytes = 64U << 10;
    std::size_t value_bytes = 256U << 20;
    std::size_t keys_per_request = 128U << 10;
    std::size_t request_bytes = 512U << 20;  ///< keys and values of one request together
    /// Everything together: the table, who waits, requests that are not whole, unread replies.
    std::size_t table_bytes = std::size_t{1} << 30;
    std::size_t reply_bytes = 512U << 20;  ///< one reply; who asks for more is disconnected
};

struct Request {
    Command command = Command::validate;
    std::vector<std::string> keys;
    std::vector<std::string> values;
    std::int64_t number = 0;  ///< ADD's amount, BARRIER's world size, PING's nonce
};

/// Appends the request's bytes in the current dialect.
AUTOLAUNCH_API void append_request(std::string& out, const Request& request);
/// The one request of the current dialect that `bytes` is. Throws Error{corrupt} for anything else.
AUTOLAUNCH_API Request parse_request(std::string_view bytes, const Limits& limits);

/// Cuts a byte stream into requests, telling the dialect by the first bytes. Consumes every field
/// as it comes, so the cost is linear in the bytes, and never allocates more than what has arrived.
/// Owner: one per connection.
class RequestParser {
public:
    /// A dialect that is known needs no VALIDATE.
    explicit RequestParser(const Limits& limits, Dialect dialect = Dialect::unknown)
        : limits_(limits), dialect_(dialect) {}

    void feed(std::string_view bytes) { input_.append(bytes); }
    /// Fills `request` with the next whole request and returns true; false when more bytes are
    /// needed. Throws Error{corrupt} for what is no request or exceeds a limit: the connection is
    /// then unusable.
    bool next(Request& request);
    Dialect dialect() const { return dialect_; }
    std::size_t buffered_bytes() const { return input_.size() - offset_; }
    /// Of memory, for what has come of a request that is not whole yet.
    std::size_t held_bytes() const;

private:
    bool detect_dialect();
    bool begin_request();
    void settle_older(unsigned char code);
    void settle_request_eight();
    bool read_field(char kind);
    bool read_bytes(std::size_t limit, std::vector<std::string>& to);
    bool read_integer(std::size_t bytes, std::uint64_t& value);
    void discard_consumed();

    Limits limits_;
    Dialect dialect_;
    std::string input_;
    std::size_t offset_ = 0;
    Request current_;
    bool in_request_ = false;
    bool count_known_ = false;
    std::string_view fields_;        // of one repetition
    std::size_t field_ = 0;          // the next of fields_
    std::uint64_t repetitions_ = 0;  // left, this one included
    std::size_t request_bytes_ = 0;
    std::size_t request_bytes_held_ = 0;  // of its keys and values that are whole
    std::int64_t pending_length_ = -1;    // of the byte string whose length was read
};

/// Appends little-endian integers and length-prefixed byte strings: both requests and replies are
/// made of them.
AUTOLAUNCH_API void append_u8(std::string& out, std::uint8_t value);
AUTOLAUNCH_API void append_u32(std::string& out, std::uint32_t value);
AUTOLAUNCH_API void append_u64(std::string& out, std::uint64_t value);
AUTOLAUNCH_API void append_bytes(std::string& out, std::string_view bytes);
AUTOLAUNCH_API std::uint64_t load_le(const char* bytes, std::size_t count);

}  // namespace autolaunch::store
