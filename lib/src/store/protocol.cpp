#include "store/protocol.hpp"

#include <autolaunch/error.hpp>

#include <array>
#include <optional>
#include <utility>

namespace autolaunch::store {
namespace {

/// What follows the command's number: k = key, v = value, n = 64-bit number, u = 32-bit number.
/// `counted` requests start with a 64-bit count and repeat the fields so often.
struct Shape {
    bool counted;
    std::string_view fields;
};
constexpr std::array<Shape, kCommandCount> kShapes = {{
    {false, "u"},    // validate
    {false, "kv"},   // set
    {false, "kvv"},  // compare_set
    {false, "k"},    // get
    {false, "kn"},   // add
    {true, "k"},     // check
    {true, "k"},     // wait
    {false, ""},     // key_count
    {false, "k"},    // delete_key
    {false, "kv"},   // append
    {true, "k"},     // multi_get
    {true, "kv"},    // multi_set
    {false, ""},     // cancel_wait
    {false, "u"},    // ping
    {false, "kv"},   // queue_push
    {false, "k"},    // queue_pop
    {false, "k"},    // queue_length
    {false, ""},     // list_keys
    {false, "kn"},   // barrier
}};

// What 0, 1, 2 … mean in the older dialects.
using enum Command;
constexpr std::array kTorch1 = {set,   compare_set, get,      add,
                                check, wait,        key_count};  // and DELETE_KEY
constexpr std::array kTorch2_0 = {set,    compare_set, get,       add,
                                  check,  wait,        key_count, delete_key,
                                  append, multi_get,   multi_set, cancel_wait};
constexpr unsigned char kTorch1DeleteKey = 8;

/// The command that the number stands for; nothing when the dialect has none.
std::optional<Command> command_of(Dialect dialect, unsigned char code) {
    if (dialect == Dialect::current && code < kCommandCount)
        return static_cast<Command>(code);
    if (dialect == Dialect::torch2_0 && code < kTorch2_0.size())
        return kTorch2_0[code];
    if (dialect == Dialect::older || dialect == Dialect::torch1) {
        if (code < kTorch1.size())
            return kTorch1[code];
        if (code == kTorch1DeleteKey)
            return delete_key;
    }
    return std::nullopt;
}

constexpr std::size_t kKeptBytes = 4096;  // of an idle client's buffer

[[noreturn]] void fail(const std::string& what) {
    throw Error(ErrorCode::corrupt, "store request: " + what);
}

}  // namespace

int command_code(Dialect dialect, Command command) {
    for (unsigned char code = 0; code < kCommandCount; ++code) {
        if (command_of(dialect, code) == command)
            return code;
    }
    return -1;
}

bool has_reply(Command command) {
    return command != validate && command != set && command != append && command != multi_set &&
           command != queue_push;
}

void append_u8(std::string& out, std::uint8_t value) { out.push_back(static_cast<char>(value)); }

void append_u32(std::string& out, std::uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8)
        out.push_back(static_cast<char>(value >> shift & 0xFF));
}

void append_u64(std::string& out, std::uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8)
        out.push_back(static_cast<char>(value >> shift & 0xFF));
}

void append_bytes(std::string& out, std::string_view bytes) {
    append_u64(out, bytes.size());
    out.append(bytes);
}

std::uint64_t load_le(const char* bytes, std::size_t count) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
        value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    return value;
}

void append_request(std::string& out, const Request& request) {
    const Shape& shape = kShapes[static_cast<std::size_t>(request.command)];
    append_u8(out, static_cast<std::uint8_t>(request.command));
    if (shape.counted)
        append_u64(out, request.keys.size());
    std::size_t key = 0;
    std::size_t value = 0;
    for (std::size_t left = shape.counted ? request.keys.size() : 1; left > 0; --left) {
        for (const char field : shape.fields) {
            if (field == 'k')
                append_bytes(out, request.keys.at(key++));
            if (field == 'v')
                append_bytes(out, request.values.at(value++));
            if (field == 'n')
                append_u64(out, static_cast<std::uint64_t>(request.number));
            if (field == 'u')
                append_u32(out, static_cast<std::uint32_t>(request.number));
        }
    }
}

Request parse_request(std::string_view bytes, const Limits& limits) {
    RequestParser parser(limits, Dialect::current);
    parser.feed(bytes);
    Request request;
    if (!parser.next(request))
        fail("it is cut short");
    if (parser.buffered_bytes() > 0)
        fail("something follows it");
    return request;
}

bool RequestParser::detect_dialect() {
    if (buffered_bytes() < 1)
        return false;
    if (input_[offset_] != 0) {  // the current dialect must start with VALIDATE = 0
        dialect_ = Dialect::older;
        return true;
    }
    if (buffered_bytes() < 5)
        return false;
    // Were these four bytes the length of an older SET's key, the key would be a gigabyte long.
    const bool magic = load_le(input_.data() + offset_ + 1, 4) == kValidationMagic;
    dialect_ = magic ? Dialect::current : Dialect::older;
    return true;
}

/// Numbers that only one of the older dialects has tell which it is. 8 is in both:
/// settle_request_eight().
void RequestParser::settle_older(unsigned char code) {
    if (dialect_ == Dialect::older && !command_of(Dialect::older, code))
        dialect_ = Dialect::torch2_0;
}

/// The key of a request 8 is read: DELETE_KEY in torch1, which then waits for the reply; APPEND in
/// torch2_0, which sends the key and the length of the value in one piece. So whether more has come
/// tells them apart.
void RequestParser::settle_request_eight() {
    if (buffered_bytes() == 0) {
        dialect_ = Dialect::torch1;
        return;
    }
    dialect_ = Dialect::torch2_0;
    current_.command = append;
    fields_ = kShapes[static_cast<std::size_t>(append)].fields;
}

bool RequestParser::begin_request() {
    if (buffered_bytes() < 1)
        return false;
    const auto code = static_cast<unsigned char>(input_[offset_]);
    settle_older(code);
    const auto command = command_of(dialect_, code);
    if (!command)
        fail("unknown command " + std::to_string(code));
    ++offset_;
    current_ = Request{};
    current_.command = *command;
    const Shape& shape = kShapes[static_cast<std::size_t>(*command)];
    fields_ = shape.fields;
    field_ = 0;
    count_known_ = !shape.counted;
    repetitions_ = 1;
    request_bytes_ = 0;
    in_request_ = true;
    return true;
}

bool RequestParser::read_integer(std::size_t bytes, std::uint64_t& value) {
    if (buffered_bytes() < bytes)
        return false;
    value = load_le(input_.data() + offset_, bytes);
    offset_ += bytes;
    return true;
}

bool RequestParser::read_bytes(std::size_t limit, std::vector<std::string>& to) {
    if (pending_length_ < 0) {
        std::uint64_t length = 0;
        if (!read_integer(8, length))
            return false;
        if (length > limit)
            fail("a key or value of " + std::to_string(length) + " bytes exceeds the limit");
        request_bytes_ += static_cast<std::size_t>(length);
        if (request_bytes_ > limits_.request_bytes)
            fail("the request is too large");
        pending_length_ = static_cast<std::int64_t>(length);
    }
    const auto length = static_cast<std::size_t>(pending_length_);
    if (buffered_bytes() < length) {
        if (buffered_bytes() >= length / 2)
            input_.reserve(offset_ + length);  // doubling would take twice as much at last
        return false;
    }
    to.emplace_back(input_, offset_, length);
    request_bytes_held_ += length;
    offset_ += length;
    pending_length_ = -1;
    return true;
}

bool RequestParser::read_field(char kind) {
    if (kind == 'k')
        return read_bytes(limits_.key_bytes, current_.keys);
    if (kind == 'v')
        return read_bytes(limits_.value_bytes, current_.values);
    std::uint64_t value = 0;
    if (!read_integer(kind == 'u' ? 4 : 8, value))
        return false;
    current_.number = static_cast<std::int64_t>(value);
    return true;
}

void RequestParser::discard_consumed() {
    if (offset_ == input_.size()) {
        if (input_.capacity() > kKeptBytes)
            std::string().swap(input_);  // an assignment would keep its memory
        input_.clear();
        offset_ = 0;
    } else if (offset_ > input_.size() / 2 && offset_ > 4096) {
        input_.erase(0, offset_);
        offset_ = 0;
        if (input_.capacity() > kKeptBytes && input_.size() < input_.capacity() / 4)
            input_.shrink_to_fit();
    }
}

std::size_t RequestParser::held_bytes() const {
    constexpr std::size_t kStringBytes = sizeof(std::string);
    return input_.capacity() + request_bytes_held_ +
           (current_.keys.capacity() + current_.values.capacity()) * kStringBytes;
}

bool RequestParser::next(Request& request) {
    discard_consumed();
    if (dialect_ == Dialect::unknown && !detect_dialect())
        return false;
    if (!in_request_ && !begin_request())
        return false;
    if (!count_known_) {
        if (!read_integer(8, repetitions_))
            return false;
        if (repetitions_ > limits_.keys_per_request)
            fail("too many keys: " + std::to_string(repetitions_));
        count_known_ = true;
    }
    while (repetitions_ > 0) {
        while (field_ < fields_.size()) {
            if (!read_field(fields_[field_]))
                return false;
            ++field_;
            if (dialect_ == Dialect::older && current_.command == delete_key)
                settle_request_eight();
        }
        field_ = 0;
        --repetitions_;
    }
    in_request_ = false;
    request_bytes_held_ = 0;
    const bool valid = current_.command != Command::validate || current_.number == kValidationMagic;
    if (!valid)
        fail("wrong validation number");
    request = std::exchange(current_, Request{});
    discard_consumed();
    return true;
}

}  // namespace autolaunch::store
