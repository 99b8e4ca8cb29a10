#include "store/store_server.hpp"

#include "base/file_io.hpp"
#include "base/unique_fd.hpp"
#include "store/accept_loop.hpp"

#include <autolaunch/error.hpp>

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <exception>
#include <unordered_map>
#include <utility>
#include <vector>

namespace autolaunch {
namespace {

using asio::ip::tcp;
using store::Backend;
using store::Request;

constexpr std::size_t kReadBytes = 64U << 10;
constexpr std::size_t kPauseReadingAboveBytes = 1U << 20;  // of unsent replies

}  // namespace

class StoreServer::Impl final : public std::enable_shared_from_this<StoreServer::Impl>,
                                public Backend::Server {
public:
    Impl(asio::io_context& context, const StoreServerOptions& options,
         std::shared_ptr<Backend> backend)
        : context_(context),
          limits_(options.limits),
          acceptor_(context),
          accept_pause_(context),
          backend_(std::move(backend)) {
        listen(options);
        backend_->attach(this);
    }

    void accept();
    void close_all();
    std::uint16_t port() const { return port_; }
    std::size_t connection_count() const { return connections_.size(); }

    void reply(Backend::Client client, std::string_view bytes) override;
    void drop(Backend::Client client) override;
    void drop_all() override;
    void go_on() override;

private:
    /// One client's socket, its unparsed input and its unsent output.
    struct Connection {
        Connection(tcp::socket accepted, Backend::Client assigned, const store::Limits& limits)
            : socket(std::move(accepted)), number(assigned), parser(limits) {}

        tcp::socket socket;
        Backend::Client number;
        store::RequestParser parser;
        std::array<char, kReadBytes> input{};
        std::string output;  // waits for `sending` to be gone
        std::string sending;
        bool reading = false;
        bool serving = false;
        bool open = true;

        bool must_read_first() const {
            return output.size() + sending.size() > kPauseReadingAboveBytes;
        }
    };
    using ConnectionPtr = std::shared_ptr<Connection>;

    void listen(const StoreServerOptions& options);
    void start(tcp::socket socket);
    void read_more(const ConnectionPtr& connection);
    void serve_buffered(const ConnectionPtr& connection);
    void serve_later(const ConnectionPtr& connection);
    void send_next(const ConnectionPtr& connection);
    void close(const ConnectionPtr& connection);

    asio::io_context& context_;
    store::Limits limits_;
    tcp::acceptor acceptor_;
    asio::steady_timer accept_pause_;
    std::shared_ptr<Backend> backend_;
    std::unordered_map<Backend::Client, ConnectionPtr> connections_;
    std::uint16_t port_ = 0;
};

void StoreServer::Impl::listen(const StoreServerOptions& options) {
    const std::string doing =
        "serve the store on " + options.address + " port " + std::to_string(options.port);
    asio::error_code error;
    const auto address = asio::ip::make_address(options.address, error);
    if (error) {
        throw Error(ErrorCode::invalid_argument,
                    "store: " + options.address + " is not a numeric address",
                    "use 127.0.0.1, 0.0.0.0, ::1 or ::");
    }
    const tcp::endpoint endpoint(address, options.port);
    const auto check = [&] {
        if (error)
            throw SystemError(error.value(), doing, "port 0 takes any free port");
    };
    acceptor_.open(endpoint.protocol(), error), check();
    close_on_exec(acceptor_.native_handle());
    acceptor_.set_option(tcp::acceptor::reuse_address(true), error), check();
    if (address.is_v6())
        acceptor_.set_option(asio::ip::v6_only(false), error), check();
    acceptor_.bind(endpoint, error), check();
    acceptor_.listen(asio::socket_base::max_listen_connections, error), check();
    port_ = acceptor_.local_endpoint(error).port(), check();
}

void StoreServer::Impl::accept() {
    accept_connections(acceptor_, accept_pause_, [self = shared_from_this()](tcp::socket socket) {
        self->start(std::move(socket));
    });
}

void StoreServer::Impl::start(tcp::socket socket) {
    asio::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    const auto connection =
        std::make_shared<Connection>(std::move(socket), backend_->join(), limits_);
    connections_.emplace(connection->number, connection);
    read_more(connection);
}

void StoreServer::Impl::read_more(const ConnectionPtr& connection) {
    if (!connection->open || connection->reading)
        return;
    connection->reading = true;
    connection->socket.async_read_some(
        asio::buffer(connection->input),
        [self = shared_from_this(), connection](const asio::error_code& error, std::size_t bytes) {
            connection->reading = false;
            if (!connection->open)
                return;
            if (error)
                return self->close(connection);
            connection->parser.feed({connection->input.data(), bytes});
            self->serve_buffered(connection);
        });
}

/// Serves what has arrived, until the client owes us reading or the backend a reply.
void StoreServer::Impl::serve_buffered(const ConnectionPtr& connection) {
    if (!connection->open)
        return;
    connection->serving = true;
    try {
        Request request;
        while (connection->open && !connection->must_read_first() &&
               backend_->takes_request_of(connection->number) && connection->parser.next(request)) {
            backend_->request(connection->number, std::move(request));
        }
    } catch (const std::exception&) {  // the protocol has no reply for a bad request
        close(connection);
    }
    connection->serving = false;
    if (!connection->open || connection->must_read_first())
        return;
    // A client that has to wait is read from once, to notice when it goes.
    if (connection->parser.buffered_bytes() == 0 || backend_->takes_request_of(connection->number))
        read_more(connection);
}

/// Not at once: the backend may be in the middle of something.
void StoreServer::Impl::serve_later(const ConnectionPtr& connection) {
    asio::post(context_,
               [self = shared_from_this(), connection] { self->serve_buffered(connection); });
}

void StoreServer::Impl::reply(Backend::Client client, std::string_view bytes) {
    const auto found = connections_.find(client);
    if (found == connections_.end())
        return;
    const ConnectionPtr connection = found->second;
    connection->output.append(bytes);
    if (connection->sending.empty() && !connection->output.empty())
        send_next(connection);
    const bool idle = connection->reading && connection->parser.buffered_bytes() == 0;
    if (!connection->serving && !idle)
        serve_later(connection);
}

void StoreServer::Impl::drop(Backend::Client client) {
    const auto found = connections_.find(client);
    if (found != connections_.end())
        close(ConnectionPtr(found->second));
}

void StoreServer::Impl::go_on() {
    for (const auto& [number, connection] : connections_)
        serve_later(connection);
}

void StoreServer::Impl::send_next(const ConnectionPtr& connection) {
    connection->sending.swap(connection->output);
    asio::async_write(
        connection->socket, asio::buffer(connection->sending),
        [self = shared_from_this(), connection](const asio::error_code& error, std::size_t) {
            connection->sending = std::string();
            if (!connection->open)
                return;
            if (error)
                return self->close(connection);
            if (!connection->output.empty())
                self->send_next(connection);
            if (!connection->reading)
                self->serve_buffered(connection);
        });
}

void StoreServer::Impl::close(const ConnectionPtr& connection) {
    if (!std::exchange(connection->open, false))
        return;
    asio::error_code ignored;
    connection->socket.close(ignored);
    connections_.erase(connection->number);
    backend_->leave(connection->number);
}

void StoreServer::Impl::drop_all() {
    while (!connections_.empty())
        close(ConnectionPtr(connections_.begin()->second));
}

void StoreServer::Impl::close_all() {
    asio::error_code ignored;
    acceptor_.close(ignored);
    accept_pause_.cancel();
    drop_all();
    backend_->attach(nullptr);
}

StoreServer::StoreServer(asio::io_context& context, const StoreServerOptions& options)
    : table_(std::make_shared<store::TableService>(options.limits)),
      impl_(
          std::make_shared<Impl>(context, options, std::make_shared<store::TableBackend>(table_))) {
    impl_->accept();
}

StoreServer::StoreServer(asio::io_context& context, const StoreServerOptions& options,
                         std::shared_ptr<store::Backend> backend)
    : impl_(std::make_shared<Impl>(context, options, std::move(backend))) {
    impl_->accept();
}

StoreServer::~StoreServer() { impl_->close_all(); }
std::uint16_t StoreServer::port() const { return impl_->port(); }
std::size_t StoreServer::connection_count() const { return impl_->connection_count(); }

std::string every_address() {
    const UniqueFd probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    const bool usable =
        probe && ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
    return usable ? "::" : "0.0.0.0";
}

}  // namespace autolaunch
