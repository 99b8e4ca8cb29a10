#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/export.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch {

class AbortHooks;  // private: lib/src/base/abort_hooks.hpp

struct StoreOptions {
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;
    std::string prefix = {};  ///< put before every key, with a '/' between
    std::chrono::milliseconds timeout{
        300'000};  ///< for connecting and for every wait that names none
};

/// A client of a key-value store that speaks c10d's TCPStore wire protocol
/// (docs/store-protocol.md), the one PyTorch ranks use: values are byte strings, and waiting for a
/// key blocks at the server, not by polling.
///
/// Owner: one per process is enough. Threads: any; operations are serialised, so a long wait holds
/// up the others. Blocks: every call, until the server answered or the deadline passed
/// (TimeoutError). A connection that broke throws Error{closed}.
class AUTOLAUNCH_API Store {
public:
    /// Connects, retrying until the server listens or options.timeout passed.
    static Store connect(const StoreOptions& options);

    Store(Store&&) noexcept;
    Store& operator=(Store&&) noexcept;
    ~Store();

    void set(std::string_view key, std::string_view value);
    /// Waits until the key exists.
    std::string get(std::string_view key);
    std::string get(std::string_view key, std::chrono::milliseconds timeout);
    /// Adds to the decimal number kept at the key (0 when it is new); returns the sum.
    std::int64_t add(std::string_view key, std::int64_t amount);
    void append(std::string_view key, std::string_view value);
    /// Sets the key to `desired` if it holds `expected`, or is new and `expected` is empty. Returns
    /// what it then holds; for a new key and a non-empty `expected`, `expected` itself (c10d's
    /// rule).
    std::string compare_set(std::string_view key, std::string_view expected,
                            std::string_view desired);
    /// True when all keys exist.
    bool check(std::span<const std::string> keys);
    /// Waits until all keys exist.
    void wait(std::span<const std::string> keys);
    void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout);
    /// True when the key was there.
    bool delete_key(std::string_view key);
    std::int64_t key_count();
    void multi_set(std::span<const std::string> keys, std::span<const std::string> values);
    std::vector<std::string> multi_get(std::span<const std::string> keys);

private:
    friend class Session;
    class Client;
    /// When these are called, every call that waits here, or comes later, throws Error{closed}.
    void end_with(AbortHooks& hooks);
    explicit Store(std::unique_ptr<Client> client);
    std::unique_ptr<Client> client_;
};

}  // namespace autolaunch
