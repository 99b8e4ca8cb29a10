#include <autolaunch/store.hpp>

#include "base/abort_hooks.hpp"
#include "base/deadline.hpp"
#include "store/connection.hpp"
#include "store/protocol.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

namespace autolaunch {

namespace store {

/// A server that has answered, and how it numbers commands.
struct Connected {
    Connection connection;
    Dialect dialect;
};

}  // namespace store

using store::Command;
using store::Connected;
using store::Connection;
using store::Dialect;

namespace {

constexpr std::chrono::milliseconds kFirstRetryPause{5};
constexpr std::chrono::milliseconds kLongestRetryPause{250};
constexpr std::chrono::seconds kCancelTimeout{10};
constexpr std::size_t kProbeCounts = 4;
constexpr std::uint64_t kMaxReplyBytes = std::uint64_t{1} << 40;

/// Asks what only a server of this dialect answers with so many bytes; any other closes the
/// connection. Throws Error{closed} then.
Connection connect_asking(const StoreOptions& options, const std::string& question,
                          std::size_t reply_bytes, const Deadline& deadline) {
    Connection connection(options.host, options.port, deadline);
    connection.send(question, deadline);
    connection.receive(reply_bytes, deadline);
    return connection;
}

/// VALIDATE and four times "how many keys?". To an older server this is a SET with a key of half an
/// exabyte.
std::string current_question() {
    std::string question;
    store::append_u8(question, static_cast<std::uint8_t>(Command::validate));
    store::append_u32(question, store::kValidationMagic);
    return question.append(kProbeCounts, static_cast<char>(Command::key_count));
}

/// "The values of no keys", which is answered with nothing, and "how many keys?". PyTorch 1 does
/// not know the first.
std::string torch2_0_question() {
    std::string question(
        1, static_cast<char>(store::command_code(Dialect::torch2_0, Command::multi_get)));
    store::append_u64(question, 0);
    return question.append(
        1, static_cast<char>(store::command_code(Dialect::torch2_0, Command::key_count)));
}

std::string torch1_question() {
    return std::string(1,
                       static_cast<char>(store::command_code(Dialect::torch1, Command::key_count)));
}

/// Newest first: each dialect costs those before it one round trip.
Connected connect_any(const StoreOptions& options, const Deadline& deadline) {
    const struct {
        Dialect dialect;
        std::string question;
        std::size_t reply_bytes;
    } attempts[] = {{Dialect::current, current_question(), 8 * kProbeCounts},
                    {Dialect::torch2_0, torch2_0_question(), 8},
                    {Dialect::torch1, torch1_question(), 8}};
    for (const auto& attempt : attempts) {
        try {
            return {connect_asking(options, attempt.question, attempt.reply_bytes, deadline),
                    attempt.dialect};
        } catch (const Error& error) {
            const bool last = attempt.dialect == Dialect::torch1;
            if (error.code() != ErrorCode::closed || last)
                throw;
        }
    }
    throw Error(ErrorCode::closed, "no dialect was answered");
}

/// Until a store answers. The peer may not listen yet, or still be the forwarder of one that is not
/// up.
Connected connect_patiently(const StoreOptions& options, const Deadline& deadline) {
    auto pause = kFirstRetryPause;
    while (true) {
        try {
            return connect_any(options, deadline);
        } catch (const Error& error) {
            if (error.code() == ErrorCode::timeout ||
                Deadline::Clock::now() + pause >= deadline.at()) {
                throw TimeoutError(
                    "no store answered at " + store::join_host_port(options.host, options.port) +
                        " in time; the last attempt: " + error.what(),
                    "check MASTER_ADDR and MASTER_PORT, and that the process serving it is up");
            }
        }
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, kLongestRetryPause);
    }
}

}  // namespace

class Store::Client {
    /// Runs a request and its reply. When they were broken off in between, the stream is out of
    /// step: closed for good.
    template <typename Exchange>
    auto exchange(Exchange&& run) {
        if (broken_)
            throw Error(ErrorCode::closed, "the connection to the store broke earlier");
        broken_ = true;
        try {
            auto result = run(Deadline::after(options_.timeout));
            broken_ = false;
            return result;
        } catch (...) {
            if (ends_with_)
                ends_with_->explain();
            throw;
        }
    }

public:
    explicit Client(const StoreOptions& options)
        : options_(options),
          server_(connect_patiently(options, Deadline::after(options.timeout))) {}

    const StoreOptions& options() const { return options_; }
    std::mutex& mutex() { return mutex_; }

    std::string request(Command command) const;
    void add_key(std::string& request, std::string_view key) const;
    bool has(Command command) const { return store::command_code(server_.dialect, command) >= 0; }

    void send(const std::string& request) {
        exchange([&](const Deadline& deadline) {
            server_.connection.send(request, deadline);
            return 0;
        });
    }
    std::uint64_t ask_number(const std::string& request, std::size_t reply_bytes) {
        return exchange([&](const Deadline& deadline) {
            server_.connection.send(request, deadline);
            return receive_number(reply_bytes, deadline);
        });
    }
    std::vector<std::string> ask_values(const std::string& request, std::size_t count) {
        return exchange([&](const Deadline& deadline) {
            server_.connection.send(request, deadline);
            std::vector<std::string> values;
            for (std::size_t i = 0; i < count; ++i)
                values.push_back(receive_bytes(deadline));
            return values;
        });
    }
    void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout);
    void end_with(AbortHooks& hooks) {
        ends_with_ = hooks.shared_from_this();
        hook_ = hooks.add([this](const std::string&) { server_.connection.shut_down(); });
    }

private:
    std::uint64_t receive_number(std::size_t bytes, const Deadline& deadline) {
        return store::load_le(server_.connection.receive(bytes, deadline).data(), bytes);
    }
    std::string receive_bytes(const Deadline& deadline) {
        const std::uint64_t length = receive_number(8, deadline);
        if (length > kMaxReplyBytes)
            throw Error(ErrorCode::corrupt, "the store sent a length that cannot be");
        return server_.connection.receive(static_cast<std::size_t>(length), deadline);
    }
    bool cancel_wait();

    StoreOptions options_;
    Connected server_;
    std::mutex mutex_;
    bool broken_ = false;
    std::shared_ptr<AbortHooks> ends_with_;
    std::shared_ptr<void> hook_;  // last: it uses the others
};

std::string Store::Client::request(Command command) const {
    const int code = store::command_code(server_.dialect, command);
    if (code < 0) {
        throw Error(ErrorCode::unsupported,
                    "the store is served by a PyTorch that is too old for this request",
                    "use PyTorch 2, or serve the store with autolaunch");
    }
    return std::string(1, static_cast<char>(code));
}

/// PyTorch puts a '/' before every key, so that ours and those of Python ranks are the same.
void Store::Client::add_key(std::string& request, std::string_view key) const {
    const std::string& prefix = options_.prefix;
    const std::size_t separator = prefix.empty() ? 0 : 1;
    store::append_u64(request, 1 + prefix.size() + separator + key.size());
    request.push_back('/');
    request.append(prefix).append(separator, '/').append(key);
}

/// True when the keys appeared just before.
bool Store::Client::cancel_wait() {
    if (!has(Command::cancel_wait)) {  // there is no taking back; a fresh connection has nothing
                                       // pending
        server_ = connect_patiently(options_, Deadline::after(options_.timeout));
        return false;
    }
    const auto deadline = Deadline::after(kCancelTimeout);
    server_.connection.send(request(Command::cancel_wait), deadline);
    const auto canceled = static_cast<std::uint64_t>(store::WaitReply::canceled);
    if (receive_number(1, deadline) == canceled)
        return false;
    receive_number(1, deadline);  // the cancellation itself, which came second
    return true;
}

void Store::Client::wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) {
    std::string message = request(Command::wait);
    store::append_u64(message, keys.size());
    for (const std::string& key : keys)
        add_key(message, key);
    const bool appeared = exchange([&](const Deadline& send_deadline) {
        server_.connection.send(message, send_deadline);
        try {
            receive_number(1, Deadline::after(timeout));
            return true;
        } catch (const TimeoutError&) {
            return cancel_wait();
        }
    });
    if (appeared)
        return;
    throw TimeoutError(
        "waited " + std::to_string(timeout.count()) + " ms in vain for the store's key " +
            (keys.empty() ? std::string("(none)") : keys.front()) +
            (keys.size() > 1 ? " and " + std::to_string(keys.size() - 1) + " more" : ""),
        "the rank that sets it is late, stuck or gone");
}

Store::Store(std::unique_ptr<Client> client) : client_(std::move(client)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Store Store::connect(const StoreOptions& options) {
    return Store(std::make_unique<Client>(options));
}

void Store::set(std::string_view key, std::string_view value) {
    const std::lock_guard lock(client_->mutex());
    std::string message = client_->request(Command::set);
    client_->add_key(message, key);
    store::append_bytes(message, value);
    client_->send(message);
}

void Store::end_with(AbortHooks& hooks) { client_->end_with(hooks); }

std::string Store::get(std::string_view key) { return get(key, client_->options().timeout); }

std::string Store::get(std::string_view key, std::chrono::milliseconds timeout) {
    const std::lock_guard lock(client_->mutex());
    const std::string keys[] = {std::string(key)};
    client_->wait(keys, timeout);
    std::string message = client_->request(Command::get);
    client_->add_key(message, key);
    return std::move(client_->ask_values(message, 1).front());
}

std::int64_t Store::add(std::string_view key, std::int64_t amount) {
    const std::lock_guard lock(client_->mutex());
    std::string message = client_->request(Command::add);
    client_->add_key(message, key);
    store::append_u64(message, static_cast<std::uint64_t>(amount));
    return static_cast<std::int64_t>(client_->ask_number(message, 8));
}

void Store::append(std::string_view key, std::string_view value) {
    const std::lock_guard lock(client_->mutex());
    std::string message = client_->request(Command::append);
    client_->add_key(message, key);
    store::append_bytes(message, value);
    client_->send(message);
}

std::string Store::compare_set(std::string_view key, std::string_view expected,
                               std::string_view desired) {
    const std::lock_guard lock(client_->mutex());
    std::string message = client_->request(Command::compare_set);
    client_->add_key(message, key);
    store::append_bytes(message, expected);
    store::append_bytes(message, desired);
    return std::move(client_->ask_values(message, 1).front());
}

bool Store::check(std::span<const std::string> keys) {
    const std::lock_guard lock(client_->mutex());
    std::string message = client_->request(Command::check);
    store::append_u64(message, keys.size());
    for (const std::string& key : keys)
        client_->add_key(message, key);
    return client_->ask_number(message, 1) == static_cast<std::uint64_t>(store::CheckReply::ready);
}

void Store::wait(std::span<const std::string> keys) { wait(keys, client_->options().timeout); }

void Store::wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) {
    const std::lock_guard lock(client_->mutex());
    client_->wait(keys, timeout);
}

bool Store::delete_key(std::string_view key) {
    const std::lock_guard lock(client_->mutex());
    std::string message = client_->request(Command::delete_key);
    client_->add_key(message, key);
    return client_->ask_number(message, 8) == 1;
}

std::int64_t Store::key_count() {
    const std::lock_guard lock(client_->mutex());
    return static_cast<std::int64_t>(client_->ask_number(client_->request(Command::key_count), 8));
}

void Store::multi_set(std::span<const std::string> keys, std::span<const std::string> values) {
    if (keys.size() != values.size()) {
        throw Error(ErrorCode::invalid_argument, "multi_set: as many values as keys are needed");
    }
    const std::lock_guard lock(client_->mutex());
    std::string message = client_->request(Command::multi_set);
    store::append_u64(message, keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
        client_->add_key(message, keys[i]);
        store::append_bytes(message, values[i]);
    }
    client_->send(message);
}

std::vector<std::string> Store::multi_get(std::span<const std::string> keys) {
    const std::lock_guard lock(client_->mutex());
    client_->wait(keys, client_->options().timeout);
    std::string message = client_->request(Command::multi_get);
    store::append_u64(message, keys.size());
    for (const std::string& key : keys)
        client_->add_key(message, key);
    return client_->ask_values(message, keys.size());
}

}  // namespace autolaunch
