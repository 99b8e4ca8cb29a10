#include "rank_services/session_server.hpp"

#include "base/unique_fd.hpp"
#include "session/descriptor_message.hpp"
#include "session/unix_address.hpp"
#include "store/accept_loop.hpp"
#include "store/budget.hpp"

#include <autolaunch/error.hpp>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace autolaunch::launcher {
namespace {

using Protocol = asio::local::stream_protocol;
constexpr std::size_t kMaxPendingBytes = 256U << 10;
constexpr std::size_t kPassingPart = 3;  // of a budget is more than a third for what is under way

void check_directory(const std::filesystem::path& directory) {
    struct stat found {};
    if (::lstat(directory.c_str(), &found) != 0)
        throw SystemError(errno, "look at " + directory.string());
    if (S_ISDIR(found.st_mode) && found.st_uid == ::geteuid() && (found.st_mode & 0777) == 0700)
        return;
    throw Error(ErrorCode::invalid_argument,
                directory.string() + " must be a directory of ours with mode 0700",
                "others could otherwise reach the session socket in it");
}

/// Listening, with mode 0600 from the start: nobody else can connect in between.
UniqueFd listen_at(const std::filesystem::path& path) {
    const UnixAddress address(path);
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    if (address.path().size() >= sizeof name.sun_path) {
        throw Error(ErrorCode::invalid_argument,
                    path.string() + ": the file name is too long for a socket");
    }
    std::copy(address.path().begin(), address.path().end(), name.sun_path);
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const std::string doing = "listen at " + path.string();
    if (!socket)
        throw SystemError(errno, doing);
    ::unlink(path.c_str());
    if (::fchmod(socket.get(), 0600) != 0)
        throw SystemError(errno, doing);  // bind(2) takes the mode from here
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 ||
        ::chmod(path.c_str(), 0600) != 0 || ::listen(socket.get(), SOMAXCONN) != 0) {
        throw SystemError(errno, doing);
    }
    return socket;
}

}  // namespace

class SessionServer::Impl : public std::enable_shared_from_this<SessionServer::Impl> {
public:
    Impl(asio::io_context& context, std::filesystem::path path, Callback callback,
         const Options& options)
        : path_(std::move(path)),
          callback_(std::move(callback)),
          options_(options),
          budget_(std::make_shared<store::Budget>(kPassingPart * options.bytes)),
          acceptor_(context),
          accept_pause_(context) {
        check_directory(path_.parent_path());
        acceptor_.assign(Protocol(), listen_at(path_).release());
    }

    void accept();
    void close_all();
    bool send_to_rank(int rank, const session::AgentMessage& message);
    std::size_t connection_count() const { return connections_.size(); }

private:
    struct Connection {
        Connection(Protocol::socket accepted, std::uint64_t arrival,
                   const std::shared_ptr<store::Budget>& budget)
            : socket(std::move(accepted)), number(arrival), held(budget) {}

        Protocol::socket socket;
        std::uint64_t number;  // in order of arrival
        store::Share held;     // for the lines in both directions
        std::string input;
        std::string output;  // waits for `sending` to be gone
        std::string sending;
        std::optional<SessionPeer> peer;  // once it said hello
        UniqueFd file;                    // came with the bytes of a line that is still to be taken
        int kernel_pid = 0;
        bool open = true;
    };
    using ConnectionPtr = std::shared_ptr<Connection>;

    void start(Protocol::socket socket);
    void read_more(const ConnectionPtr& connection);
    void take_lines(const ConnectionPtr& connection);
    void deliver(Connection& connection, const session::RankMessage& message);
    void send(const ConnectionPtr& connection, const std::string& line);
    void send_next(const ConnectionPtr& connection);
    void send_whole(const ConnectionPtr& connection, const std::string& line, int file);
    void hold(const ConnectionPtr& connection);
    bool make_room();
    void refuse(const std::string& what);
    void close(const ConnectionPtr& connection);

    std::filesystem::path path_;
    Callback callback_;
    Options options_;
    std::shared_ptr<store::Budget> budget_;
    bool refusal_told_ = false;
    std::uint64_t next_number_ = 0;
    std::map<std::uint64_t, ConnectionPtr> strangers_;  // said no hello yet; the oldest first
    std::array<char, 8192> bytes_{};                    // what one read brings
    Protocol::acceptor acceptor_;
    asio::steady_timer accept_pause_;
    std::set<ConnectionPtr> connections_;
};

void SessionServer::Impl::accept() {
    accept_connections(
        acceptor_, accept_pause_,
        [self = shared_from_this()](Protocol::socket socket) { self->start(std::move(socket)); });
}

void SessionServer::Impl::start(Protocol::socket socket) {
    ucred credentials{};
    socklen_t length = sizeof credentials;
    const int handle = socket.native_handle();
    if (::getsockopt(handle, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0)
        return;
    if (credentials.uid != ::geteuid())
        return;
    if (!make_room())
        return;
    const auto connection =
        std::make_shared<Connection>(std::move(socket), next_number_++, budget_);
    connection->kernel_pid = credentials.pid;
    connections_.insert(connection);
    strangers_.emplace(connection->number, connection);
    read_more(connection);
}

bool SessionServer::Impl::make_room() {
    if (connections_.size() < options_.connections)
        return true;
    if (strangers_.empty()) {
        refuse("a rank was not heard: the session socket has " +
               std::to_string(options_.connections) + " connections");
        return false;
    }
    close(ConnectionPtr(strangers_.begin()->second));
    return true;
}

/// Charges it with what it holds now; it is disconnected when there is no room for that.
void SessionServer::Impl::hold(const ConnectionPtr& connection) {
    try {
        connection->held.resize(store::beyond_free(connection->input.capacity() +
                                                   connection->output.capacity() +
                                                   connection->sending.capacity()));
    } catch (const Error&) {
        refuse("a rank's session was closed: all unfinished lines together may have " +
               std::to_string(options_.bytes >> 20) + " MiB");
        close(connection);
    }
}

void SessionServer::Impl::refuse(const std::string& what) {
    if (options_.on_refusal && !std::exchange(refusal_told_, true))
        options_.on_refusal(what);
}

void SessionServer::Impl::read_more(const ConnectionPtr& connection) {
    connection->socket.async_wait(
        Protocol::socket::wait_read,
        [self = shared_from_this(), connection](const asio::error_code& error) {
            if (!connection->open)
                return;
            const ssize_t count = error
                                      ? 0
                                      : receive_with_descriptor(connection->socket.native_handle(),
                                                                self->bytes_, connection->file);
            if (count < 0 && (errno == EAGAIN || errno == EINTR))
                return self->read_more(connection);
            if (count <= 0)
                return self->close(connection);
            connection->input.append(self->bytes_.data(), static_cast<std::size_t>(count));
            self->take_lines(connection);
            if (connection->input.empty())
                std::string().swap(connection->input);  // an assignment would keep its memory
            if (connection->open)
                self->hold(connection);
            if (connection->open)
                self->read_more(connection);
        });
}

void SessionServer::Impl::take_lines(const ConnectionPtr& connection) {
    std::string line;
    while (connection->open) {
        std::optional<session::RankMessage> message;
        try {
            if (!session::take_line(connection->input, line))
                return;
            message = session::parse_rank_line(line);
            const bool is_hello = message && std::holds_alternative<session::Hello>(*message);
            if (!connection->peer && !is_hello)
                throw Error(ErrorCode::corrupt, "session line: no hello came first");
        } catch (const Error&) {
            return close(connection);
        }
        if (!message)
            continue;
        if (auto* const recorder = std::get_if<session::Recorder>(&*message)) {
            if (connection->file)
                recorder->file = std::make_shared<UniqueFd>(std::move(connection->file));
        }
        if (auto* const stacks = std::get_if<session::PythonStacks>(&*message)) {
            if (connection->file)
                stacks->file = std::make_shared<UniqueFd>(std::move(connection->file));
        }
        if (auto* const left = std::get_if<session::HasLeft>(&*message)) {
            if (connection->file)
                left->file = std::make_shared<UniqueFd>(std::move(connection->file));
        }
        if (auto* const asked = std::get_if<session::MemoryAsked>(&*message))
            asked->answer = [this, connection](const session::MemoryAnswer& answer, int file) {
                send_whole(connection, session::format(answer), file);
            };
        deliver(*connection, *message);
    }
}

void SessionServer::Impl::deliver(Connection& connection, const session::RankMessage& message) {
    if (const auto* hello = std::get_if<session::Hello>(&message)) {
        strangers_.erase(connection.number);
        connection.peer = SessionPeer{hello->rank, hello->local_rank, hello->generation, hello->pid,
                                      connection.kernel_pid};
    }
    const SessionPeer peer = *connection.peer;
    callback_(peer, message);
}

bool SessionServer::Impl::send_to_rank(int rank, const session::AgentMessage& message) {
    bool reached = false;
    for (const ConnectionPtr& connection : std::set<ConnectionPtr>(connections_)) {
        if (!connection->peer || connection->peer->rank != rank)
            continue;
        send(connection, session::format(message));
        reached = reached || connection->open;
    }
    return reached;
}

void SessionServer::Impl::send(const ConnectionPtr& connection, const std::string& line) {
    if (connection->output.size() + line.size() > kMaxPendingBytes)
        return close(connection);
    connection->output += line;
    hold(connection);
    if (connection->open && connection->sending.empty())
        send_next(connection);
}

void SessionServer::Impl::send_next(const ConnectionPtr& connection) {
    connection->sending.swap(connection->output);
    asio::async_write(
        connection->socket, asio::buffer(connection->sending),
        [self = shared_from_this(), connection](const asio::error_code& error, std::size_t) {
            std::string().swap(connection->sending);  // an assignment would keep its memory
            if (!connection->open)
                return;
            if (error)
                return self->close(connection);
            if (!connection->output.empty())
                self->send_next(connection);
        });
}

// Now or not at all: who asks does so on a connection of its own, on which nothing waits.
void SessionServer::Impl::send_whole(const ConnectionPtr& connection, const std::string& line,
                                     int file) {
    const bool idle = connection->sending.empty() && connection->output.empty();
    if (!connection->open)
        return;
    const long sent =
        idle ? send_with_descriptor(connection->socket.native_handle(), line, file) : -1;
    if (sent != static_cast<long>(line.size()))
        close(connection);
}

void SessionServer::Impl::close(const ConnectionPtr& connection) {
    if (!std::exchange(connection->open, false))
        return;
    asio::error_code ignored;
    connection->socket.close(ignored);
    connections_.erase(connection);
    strangers_.erase(connection->number);
}

void SessionServer::Impl::close_all() {
    asio::error_code ignored;
    acceptor_.close(ignored);
    accept_pause_.cancel();
    while (!connections_.empty())
        close(ConnectionPtr(*connections_.begin()));
    ::unlink(path_.c_str());
}

SessionServer::SessionServer(asio::io_context& context, std::filesystem::path path,
                             Callback callback, const Options& options)
    : impl_(std::make_shared<Impl>(context, std::move(path), std::move(callback), options)) {
    impl_->accept();
}

SessionServer::~SessionServer() { impl_->close_all(); }

bool SessionServer::send_stop(int rank, const session::Stop& stop) {
    return impl_->send_to_rank(rank, stop);
}
bool SessionServer::send_leave(int rank, const session::LeaveGeneration& leave) {
    return impl_->send_to_rank(rank, leave);
}
bool SessionServer::send_checkpoint(int rank) {
    return impl_->send_to_rank(rank, session::CheckpointRequest{});
}
std::size_t SessionServer::connection_count() const { return impl_->connection_count(); }

}  // namespace autolaunch::launcher
