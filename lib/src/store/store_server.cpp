#include "store/store_server.hpp"

#include "base/file_io.hpp"
#include "base/socket_owner.hpp"
#include "base/unique_fd.hpp"
#include "store/accept_loop.hpp"

#include <autolaunch/error.hpp>

#include <malloc.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/error.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace autolaunch {
namespace {

using asio::ip::tcp;
using store::Backend;
using store::Request;

constexpr std::size_t kReadBytes = 64U << 10;              // at once, and of all clients together
constexpr std::size_t kPauseReadingAboveBytes = 1U << 20;  // of unsent replies

constexpr char kMoreConnections[] =
    "close those that are not needed, or set rendezvous.store_connections and the limit of open "
    "files (ulimit -Hn) higher";

// Of what the kernel says of no socket here: closed already, and no stranger from elsewhere.
bool is_of_this_machine(const TcpEnds& ends) {
    return ends.far.is_loopback() || ends.far.address == ends.near.address;
}

}  // namespace

class StoreServer::Impl final : public std::enable_shared_from_this<StoreServer::Impl>,
                                public Backend::Server {
public:
    Impl(asio::io_context& context, const StoreServerOptions& options,
         std::shared_ptr<Backend> backend, std::shared_ptr<store::Budget> budget)
        : context_(context),
          options_(options),
          acceptor_(context),
          accept_pause_(context),
          backend_(std::move(backend)),
          budget_(std::move(budget)),
          input_(kReadBytes) {
        listen();
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
    /// One client's socket, its unparsed input and its unsent output. There may be very many that
    /// say nothing: what is large is made when it is needed.
    struct Connection {
        Connection(tcp::socket accepted, const TcpEnds& from, bool from_elsewhere,
                   const store::Limits& limits, const std::shared_ptr<store::Budget>& budget)
            : socket(std::move(accepted)),
              ends(from),
              is_from_elsewhere(from_elsewhere),
              parser(limits),
              held(budget) {}

        tcp::socket socket;
        TcpEnds ends;
        bool is_from_elsewhere;
        std::uint64_t arrival = 0;
        Backend::Client number = 0;  // once it is admitted
        store::RequestParser parser;
        store::Share held;
        std::string output;  // waits for `sending` to be gone
        std::string sending;
        bool reading = false;
        bool serving = false;
        bool admitted = false;
        bool open = true;

        bool must_read_first() const {
            return output.size() + sending.size() > kPauseReadingAboveBytes;
        }
        std::size_t held_bytes() const {
            return store::beyond_free(parser.held_bytes() + output.capacity() + sending.capacity());
        }
    };
    using ConnectionPtr = std::shared_ptr<Connection>;

    void listen();
    void start(tcp::socket socket);
    bool judge(const TcpEnds& ends, bool& is_from_elsewhere);
    bool has_room_for(const TcpEnds& ends, bool is_from_elsewhere);
    void refuse(const std::string& what, const std::string& hint);
    void admit(const ConnectionPtr& connection);
    void wait_at_the_door(const ConnectionPtr& connection);
    void hold(const ConnectionPtr& connection);
    void disconnect(const ConnectionPtr& connection, const std::exception& why);
    void trim();
    void read_more(const ConnectionPtr& connection);
    void serve_buffered(const ConnectionPtr& connection);
    void serve_later(const ConnectionPtr& connection);
    void send_next(const ConnectionPtr& connection);
    void close(const ConnectionPtr& connection);

    asio::io_context& context_;
    StoreServerOptions options_;
    tcp::acceptor acceptor_;
    asio::steady_timer accept_pause_;
    std::shared_ptr<Backend> backend_;
    std::shared_ptr<store::Budget> budget_;
    std::vector<char> input_;  // what one read brings, until it is parsed
    std::unordered_map<Backend::Client, ConnectionPtr> connections_;
    std::map<std::uint64_t, ConnectionPtr> at_the_door_;  // not decided yet, in order of arrival
    std::uint64_t arrivals_ = 0;
    std::map<std::array<std::uint8_t, 16>, std::size_t> connections_of_;  // other machines' only
    std::set<std::string> refusals_told_;
    std::uint16_t port_ = 0;
};

void StoreServer::Impl::listen() {
    const StoreServerOptions& options = options_;
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
    socket.non_blocking(true, ignored);
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    const auto ends = tcp_ends(socket.native_handle());
    bool is_from_elsewhere = false;
    if (!ends || !judge(*ends, is_from_elsewhere))
        return;
    const auto connection = std::make_shared<Connection>(
        std::move(socket), *ends, is_from_elsewhere, options_.limits, budget_);
    if (!is_from_elsewhere)
        return admit(connection);
    wait_at_the_door(connection);
    options_.admit_from_elsewhere(*ends, [weak = weak_from_this(), connection](bool admitted) {
        const auto self = weak.lock();
        if (!self || !connection->open || connection->admitted)
            return;
        if (admitted)
            return self->admit(connection);
        self->refuse("a connection from another machine, " + text_of(connection->ends.far) +
                         ", to the job's store was refused: no agent of this job vouches for it",
                     "if it is of a rank of this job, set rendezvous.store: node, with which ranks "
                     "connect to their own node only");
        self->close(connection);
    });
}

/// Who is vouched for is there for a moment; strangers, who may be many, wait in vain and make way.
void StoreServer::Impl::wait_at_the_door(const ConnectionPtr& connection) {
    if (at_the_door_.size() >= options_.most_connections)
        close(ConnectionPtr(at_the_door_.begin()->second));
    connection->arrival = ++arrivals_;
    at_the_door_.emplace(connection->arrival, connection);
}

/// False for who may not connect at all.
bool StoreServer::Impl::judge(const TcpEnds& ends, bool& is_from_elsewhere) {
    std::optional<uid_t> owner;
    try {
        owner = tcp_owner(ends.seen_from_far());
    } catch (const Error& error) {
        refuse("connections to the job's store are refused: " + std::string(error.what()),
               error.hint());
        return false;
    }
    if (owner == ::geteuid())
        return true;
    if (owner) {
        refuse("a process of user " + std::to_string(*owner) +
                   " tried to use the job's store, and was refused",
               "ranks must run as the user who started autolaunch");
        return false;
    }
    is_from_elsewhere = true;
    if (is_of_this_machine(ends))
        return false;
    if (options_.admit_from_elsewhere)
        return true;
    refuse("a connection from " + text_of(ends.far) +
               " to the store was refused: it serves this "
               "machine only",
           "processes in a network namespace of their own count as another machine");
    return false;
}

bool StoreServer::Impl::has_room_for(const TcpEnds& ends, bool is_from_elsewhere) {
    if (connections_.size() >= options_.most_connections) {
        refuse("the job's store has " + std::to_string(options_.most_connections) +
                   " connections and takes no more",
               kMoreConnections);
        return false;
    }
    const auto found = connections_of_.find(ends.far.address);
    if (!is_from_elsewhere || found == connections_of_.end() ||
        found->second < options_.most_connections_of_address)
        return true;
    refuse("the job's store has " + std::to_string(found->second) + " connections from one node, " +
               text_of(ends.far) + ", and takes no more from there",
           kMoreConnections);
    return false;
}

/// Tells it once: who tries again and again is not to fill the log.
void StoreServer::Impl::refuse(const std::string& what, const std::string& hint) {
    constexpr std::size_t kMostTold = 8;
    if (options_.on_refusal && refusals_told_.size() < kMostTold &&
        refusals_told_.insert(hint).second)
        options_.on_refusal(what, hint);
}

void StoreServer::Impl::admit(const ConnectionPtr& connection) {
    if (!has_room_for(connection->ends, connection->is_from_elsewhere))
        return close(connection);
    at_the_door_.erase(connection->arrival);
    connection->admitted = true;
    connection->number = backend_->join();
    connections_.emplace(connection->number, connection);
    if (connection->is_from_elsewhere)
        ++connections_of_[connection->ends.far.address];
    read_more(connection);
}

/// Charges it with what it holds now; it is disconnected when there is no room for that.
void StoreServer::Impl::hold(const ConnectionPtr& connection) {
    try {
        connection->held.resize(connection->held_bytes());
    } catch (const Error& error) {
        disconnect(connection, error);
    }
}

/// The protocol has no reply for a bad request. Where it is not the client's fault alone, somebody
/// is told.
void StoreServer::Impl::disconnect(const ConnectionPtr& connection, const std::exception& why) {
    const auto* const error = dynamic_cast<const Error*>(&why);
    if (error != nullptr && error->code() == ErrorCode::system)
        refuse(why.what() + std::string("; a client at ") + text_of(connection->ends.far) +
                   " was disconnected",
               error->hint());
    close(connection);
}

/// Soon: who frees it may still be at it.
void StoreServer::Impl::trim() {
    if (options_.trims_memory && budget_->has_emptied())
        asio::post(context_, [] { ::malloc_trim(0); });
}

void StoreServer::Impl::read_more(const ConnectionPtr& connection) {
    if (!connection->open || connection->reading)
        return;
    connection->reading = true;
    connection->socket.async_wait(tcp::socket::wait_read, [self = shared_from_this(), connection](
                                                              const asio::error_code& failed) {
        connection->reading = false;
        if (!connection->open)
            return;
        asio::error_code error = failed;
        const std::size_t bytes =
            error ? 0 : connection->socket.read_some(asio::buffer(self->input_), error);
        if (error == asio::error::would_block || error == asio::error::interrupted)
            return self->read_more(connection);
        if (error)
            return self->close(connection);
        connection->parser.feed({self->input_.data(), bytes});
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
            connection->held.shrink(connection->held_bytes());  // it is the backend's to charge
            backend_->request(connection->number, std::move(request));
            request = Request{};
        }
        if (connection->open)
            hold(connection);
    } catch (const std::exception& error) {
        disconnect(connection, error);
    }
    connection->serving = false;
    trim();
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
    hold(connection);
    if (!connection->open)
        return;
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
            std::string().swap(connection->sending);  // an assignment would keep its memory
            if (!connection->open)
                return;
            if (error)
                return self->close(connection);
            connection->held.shrink(connection->held_bytes());
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
    at_the_door_.erase(connection->arrival);
    if (connection->admitted) {
        if (connection->is_from_elsewhere && --connections_of_[connection->ends.far.address] == 0)
            connections_of_.erase(connection->ends.far.address);
        connections_.erase(connection->number);
        backend_->leave(connection->number);
    }
    connection->parser = store::RequestParser(options_.limits);
    std::string().swap(connection->output);  // an assignment would keep its memory
    if (connection->sending.empty())
        connection->held.resize(0);
    trim();
}

void StoreServer::Impl::drop_all() {
    while (!at_the_door_.empty())
        close(ConnectionPtr(at_the_door_.begin()->second));
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
    : table_(std::make_shared<store::TableService>(options.limits, options.token)),
      impl_(std::make_shared<Impl>(context, options, std::make_shared<store::TableBackend>(table_),
                                   table_->budget())) {
    impl_->accept();
}

StoreServer::StoreServer(asio::io_context& context, const StoreServerOptions& options,
                         std::shared_ptr<store::Backend> backend,
                         std::shared_ptr<store::Budget> budget)
    : impl_(std::make_shared<Impl>(context, options, std::move(backend), std::move(budget))) {
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
