#include "store/store_server.hpp"

#include "base/file_io.hpp"
#include "store/accept_loop.hpp"
#include "store/key_value_table.hpp"

#include <autolaunch/error.hpp>

#include <array>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <deque>
#include <exception>
#include <unordered_map>
#include <utility>

namespace autolaunch {
namespace {

using asio::ip::tcp;
using store::Command;
using store::KeyValueTable;
using store::Request;

constexpr std::size_t kReadBytes = 64U << 10;
constexpr std::size_t kPauseReadingAboveBytes = 1U << 20;  // of unsent replies

std::string wait_reply(store::WaitReply reply) { return std::string(1, static_cast<char>(reply)); }

std::string number_reply(std::uint64_t number) {
    std::string out;
    store::append_u64(out, number);
    return out;
}

/// One client's socket, its unparsed input and its unsent output.
struct Connection {
    Connection(tcp::socket accepted, KeyValueTable::Waiter assigned, const store::Limits& limits)
        : socket(std::move(accepted)), number(assigned), parser(limits) {}

    tcp::socket socket;
    KeyValueTable::Waiter number;
    store::RequestParser parser;
    std::array<char, kReadBytes> input{};
    std::string output;  // waits for `sending` to be gone
    std::string sending;
    bool reading = false;
    bool open = true;

    bool must_read_first() const { return output.size() + sending.size() > kPauseReadingAboveBytes; }
};
using ConnectionPtr = std::shared_ptr<Connection>;

}  // namespace

class StoreServer::Impl : public std::enable_shared_from_this<StoreServer::Impl> {
public:
    Impl(asio::io_context& context, const StoreServerOptions& options)
        : limits_(options.limits), acceptor_(context), accept_pause_(context), table_(options.limits.table_bytes) {
        listen(options);
    }

    void accept();
    void close_all();
    std::uint16_t port() const { return port_; }
    std::size_t connection_count() const { return connections_.size(); }
    std::size_t key_count() const { return table_.key_count(); }

private:
    void listen(const StoreServerOptions& options);
    void start(tcp::socket socket);
    void read_more(const ConnectionPtr& connection);
    void serve_buffered(const ConnectionPtr& connection);
    std::string answer(Connection& connection, Request& request);
    std::string answer_many(Connection& connection, Request& request);
    std::string list_keys() const;
    void send(const ConnectionPtr& connection, std::string_view bytes);
    void send_next(const ConnectionPtr& connection);
    void wake(const KeyValueTable::Waiters& waiters);
    void close(const ConnectionPtr& connection);

    store::Limits limits_;
    tcp::acceptor acceptor_;
    asio::steady_timer accept_pause_;
    KeyValueTable table_;
    std::unordered_map<KeyValueTable::Waiter, ConnectionPtr> connections_;
    KeyValueTable::Waiter next_number_ = 1;
    std::uint16_t port_ = 0;
};

void StoreServer::Impl::listen(const StoreServerOptions& options) {
    const std::string doing = "serve the store on " + options.address + " port " + std::to_string(options.port);
    asio::error_code error;
    const auto address = asio::ip::make_address(options.address, error);
    if (error) {
        throw Error(ErrorCode::invalid_argument, "store: " + options.address + " is not a numeric address",
                    "use 127.0.0.1, 0.0.0.0, ::1 or ::");
    }
    const tcp::endpoint endpoint(address, options.port);
    const auto check = [&] {
        if (error) throw SystemError(error.value(), doing, "port 0 takes any free port");
    };
    acceptor_.open(endpoint.protocol(), error), check();
    close_on_exec(acceptor_.native_handle());
    acceptor_.set_option(tcp::acceptor::reuse_address(true), error), check();
    if (address.is_v6()) acceptor_.set_option(asio::ip::v6_only(false), error), check();
    acceptor_.bind(endpoint, error), check();
    acceptor_.listen(asio::socket_base::max_listen_connections, error), check();
    port_ = acceptor_.local_endpoint(error).port(), check();
}

void StoreServer::Impl::accept() {
    accept_connections(acceptor_, accept_pause_,
                       [self = shared_from_this()](tcp::socket socket) { self->start(std::move(socket)); });
}

void StoreServer::Impl::start(tcp::socket socket) {
    asio::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    const auto connection = std::make_shared<Connection>(std::move(socket), next_number_++, limits_);
    connections_.emplace(connection->number, connection);
    read_more(connection);
}

void StoreServer::Impl::read_more(const ConnectionPtr& connection) {
    if (!connection->open || connection->reading) return;
    connection->reading = true;
    connection->socket.async_read_some(
        asio::buffer(connection->input),
        [self = shared_from_this(), connection](const asio::error_code& error, std::size_t bytes) {
            connection->reading = false;
            if (!connection->open) return;
            if (error) return self->close(connection);
            connection->parser.feed({connection->input.data(), bytes});
            self->serve_buffered(connection);
        });
}

/// Answers what has arrived, until the client owes us reading.
void StoreServer::Impl::serve_buffered(const ConnectionPtr& connection) {
    try {
        Request request;
        while (connection->open && !connection->must_read_first() && connection->parser.next(request)) {
            send(connection, answer(*connection, request));
        }
    } catch (const std::exception&) {  // the protocol has no reply for a bad request
        close(connection);
    }
    if (!connection->must_read_first()) read_more(connection);
}

std::string StoreServer::Impl::answer(Connection& connection, Request& request) {
    std::int64_t sum = 0;
    std::string out;
    KeyValueTable::Waiters woken;
    switch (request.command) {
        case Command::validate:
            return {};
        case Command::set:
            wake(table_.set(request.keys[0], std::move(request.values[0])));
            return {};
        case Command::append:
            wake(table_.append(request.keys[0], request.values[0]));
            return {};
        case Command::queue_push:
            wake(table_.queue_push(request.keys[0], std::move(request.values[0])));
            return {};
        case Command::compare_set: {
            std::string held;
            wake(table_.compare_set(request.keys[0], request.values[0], request.values[1], held));
            store::append_bytes(out, held);
            return out;
        }
        case Command::add:
            wake(table_.add(request.keys[0], request.number, sum));
            return number_reply(static_cast<std::uint64_t>(sum));
        case Command::key_count:
            return number_reply(table_.key_count());
        case Command::delete_key:
            return number_reply(table_.erase(request.keys[0]) ? 1 : 0);
        case Command::queue_length:
            return number_reply(table_.queue_length(request.keys[0]));
        case Command::cancel_wait:
            table_.cancel_wait(connection.number);
            return wait_reply(store::WaitReply::canceled);
        case Command::ping:
            store::append_u32(out, static_cast<std::uint32_t>(request.number));
            return out;
        case Command::barrier:
            if (!table_.barrier(connection.number, request.keys[0], request.number, woken)) return {};
            wake(woken);
            return wait_reply(store::WaitReply::stop_waiting);
        case Command::list_keys:
            return list_keys();
        default:
            return answer_many(connection, request);
    }
}

/// The commands whose reply is made of several parts, or comes later.
std::string StoreServer::Impl::answer_many(Connection& connection, Request& request) {
    std::string out;
    if (request.command == Command::wait) {
        if (table_.wait(connection.number, request.keys)) out = wait_reply(store::WaitReply::stop_waiting);
    } else if (request.command == Command::check) {
        const auto reply = table_.has_all(request.keys) ? store::CheckReply::ready : store::CheckReply::not_ready;
        store::append_u8(out, static_cast<std::uint8_t>(reply));
    } else if (request.command == Command::queue_pop) {
        const auto length = table_.queue_length(request.keys[0]);
        store::append_u64(out, length);
        if (length > 0) store::append_bytes(out, *table_.queue_pop(request.keys[0]));
    } else if (request.command == Command::multi_set) {
        for (std::size_t i = 0; i < request.keys.size(); ++i) {
            wake(table_.set(request.keys[i], std::move(request.values[i])));
        }
    } else {  // get, multi_get
        for (const std::string& key : request.keys) {
            const std::string* value = table_.find(key);
            store::append_bytes(out, value != nullptr ? std::string_view(*value) : std::string_view());
            if (out.size() > limits_.reply_bytes) throw Error(ErrorCode::corrupt, "the reply is too large");
        }
    }
    return out;
}

std::string StoreServer::Impl::list_keys() const {
    std::string out = number_reply(table_.key_count());
    for (const auto& entry : table_.values()) {
        store::append_bytes(out, entry.first);
        if (out.size() > limits_.reply_bytes) throw Error(ErrorCode::corrupt, "the reply is too large");
    }
    return out;
}

void StoreServer::Impl::send(const ConnectionPtr& connection, std::string_view bytes) {
    if (!connection->open || bytes.empty()) return;
    connection->output.append(bytes);
    if (connection->sending.empty()) send_next(connection);
}

void StoreServer::Impl::send_next(const ConnectionPtr& connection) {
    connection->sending.swap(connection->output);
    asio::async_write(connection->socket, asio::buffer(connection->sending),
                      [self = shared_from_this(), connection](const asio::error_code& error, std::size_t) {
                          connection->sending = std::string();
                          if (!connection->open) return;
                          if (error) return self->close(connection);
                          if (!connection->output.empty()) self->send_next(connection);
                          if (!connection->reading) self->serve_buffered(connection);
                      });
}

void StoreServer::Impl::wake(const KeyValueTable::Waiters& waiters) {
    for (const auto waiter : waiters) {
        const auto found = connections_.find(waiter);
        if (found != connections_.end()) send(found->second, wait_reply(store::WaitReply::stop_waiting));
    }
}

void StoreServer::Impl::close(const ConnectionPtr& connection) {
    if (!std::exchange(connection->open, false)) return;
    asio::error_code ignored;
    connection->socket.close(ignored);
    table_.cancel_wait(connection->number);
    connections_.erase(connection->number);
}

void StoreServer::Impl::close_all() {
    asio::error_code ignored;
    acceptor_.close(ignored);
    accept_pause_.cancel();
    while (!connections_.empty()) close(ConnectionPtr(connections_.begin()->second));
}

StoreServer::StoreServer(asio::io_context& context, const StoreServerOptions& options)
    : impl_(std::make_shared<Impl>(context, options)) {
    impl_->accept();
}

StoreServer::~StoreServer() { impl_->close_all(); }
std::uint16_t StoreServer::port() const { return impl_->port(); }
std::size_t StoreServer::connection_count() const { return impl_->connection_count(); }
std::size_t StoreServer::key_count() const { return impl_->key_count(); }

}  // namespace autolaunch
