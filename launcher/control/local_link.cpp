#include "control/local_link.hpp"

#include "base/file_io.hpp"

#include <autolaunch/error.hpp>

#include <asio/buffer.hpp>
#include <asio/write.hpp>

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostQueued = std::size_t{16} << 20, kMostVisits = 64;
constexpr std::chrono::milliseconds kAcceptPause{100};  // when descriptors have run out

bool is_ours(int fd) {
    ucred peer{};
    socklen_t bytes = sizeof peer;
    return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
           (peer.uid == ::geteuid() || peer.uid == 0);
}

}  // namespace

void LocalLink::start(OnMessage on_message, std::function<void()> on_end) {
    on_message_ = std::move(on_message);
    on_end_ = std::move(on_end);
    read();
}

void LocalLink::read() {
    socket_.async_read_some(
        asio::buffer(buffer_),
        [self = shared_from_this()](const asio::error_code& error, std::size_t bytes) {
            if (error)
                return self->end();
            try {
                self->reader_.feed({self->buffer_.data(), bytes});
                while (auto message = self->reader_.next())
                    if (self->on_message_)
                        self->on_message_(std::move(*message));
            } catch (const Error&) {
                return self->end();
            }
            if (!self->ended_)
                self->read();
        });
}

void LocalLink::send(const control::Message& message) {
    if (ended_ || closing_)
        return;
    queue_.push_back(control::encode(message));
    queued_ += queue_.back().size();
    if (queued_ > kMostQueued)
        return end();
    if (!std::exchange(writing_, true))
        write();
}

void LocalLink::write() {
    asio::async_write(socket_, asio::buffer(queue_.front()),
                      [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                          if (error || self->ended_)
                              return self->end();
                          self->queued_ -= self->queue_.front().size();
                          self->queue_.pop_front();
                          if (!self->queue_.empty())
                              return self->write();
                          self->writing_ = false;
                          if (self->closing_)
                              self->end();
                      });
}

std::string LocalLink::describe_peer() {
    ucred peer{};
    socklen_t bytes = sizeof peer;
    if (::getsockopt(socket_.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
        return "a process on this node";
    return "process " + std::to_string(peer.pid) + " of user " + std::to_string(peer.uid) +
           " on this node";
}

void LocalLink::close() {
    closing_ = true;
    if (!writing_)
        end();
}

void LocalLink::end() {
    if (std::exchange(ended_, true))
        return;
    asio::error_code ignored;
    socket_.close(ignored);
    on_message_ = {};
    if (const auto on_end = std::exchange(on_end_, {}))
        on_end();
}

std::shared_ptr<Caller> caller_of(const std::shared_ptr<LocalLink>& link) {
    return std::make_shared<Caller>(Caller{
        .send = [link](const control::Message& message) { link->send(message); },
        .close = [link] { link->close(); },
        .when_gone = [link](std::function<void()> gone) { link->when_gone(std::move(gone)); },
        .who = link->describe_peer()});
}

LocalDoor::LocalDoor(asio::io_context& io, std::string path, OnAsk on_ask)
    : path_(std::move(path)), on_ask_(std::move(on_ask)), acceptor_(io), pause_(io) {
    asio::error_code error;
    acceptor_.open(asio::local::stream_protocol(), error);
    if (!error)
        close_on_exec(acceptor_.native_handle());
    const mode_t mask = ::umask(0177);
    if (!error)
        acceptor_.bind(asio::local::stream_protocol::endpoint(path_), error);
    ::umask(mask);
    if (!error)
        acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error)
        throw SystemError(error.value(), "listen at " + path_);
    accept();
}

LocalDoor::~LocalDoor() { ::unlink(path_.c_str()); }

void LocalDoor::accept() {
    acceptor_.async_accept([this, alive = std::weak_ptr(alive_)](const asio::error_code& error,
                                                                 LocalLink::Socket socket) {
        if (alive.expired() || error == asio::error::operation_aborted)
            return;
        if (!error) {
            close_on_exec(socket.native_handle());
            if (is_ours(socket.native_handle()) && make_room())
                take(std::move(socket));
            return accept();
        }
        pause_.expires_after(kAcceptPause);  // trying again at once would spin
        pause_.async_wait([this, alive](const asio::error_code& canceled) {
            if (!canceled && !alive.expired())
                accept();
        });
    });
}

void LocalDoor::take(LocalLink::Socket socket) {
    const auto link = std::make_shared<LocalLink>(std::move(socket));
    const auto visit = std::make_shared<Visit>(Visit{link});
    visits_.push_back(visit);
    link->start(
        [this, alive = std::weak_ptr(alive_), visit](control::Message&& message) {
            const auto* ask = std::get_if<control::Ask>(&message);
            const auto caller = visit->link.lock();
            if (ask == nullptr || !caller || alive.expired())
                return;
            const auto who_asks = caller_of(caller);
            who_asks->asked_before = std::exchange(visit->has_asked, true);
            on_ask_(*ask, who_asks);
        },
        {});
}

bool LocalDoor::make_room() {
    std::erase_if(visits_, [](const auto& visit) { return visit->link.expired(); });
    if (visits_.size() < kMostVisits)
        return true;
    const auto silent = std::find_if(visits_.begin(), visits_.end(),
                                     [](const auto& visit) { return !visit->has_asked; });
    if (silent == visits_.end())
        return false;
    if (const auto link = (*silent)->link.lock())
        link->close();
    visits_.erase(silent);
    return true;
}

LocalLink::Socket connect_locally(asio::io_context& io, const std::string& path) {
    LocalLink::Socket socket(io);
    asio::error_code error;
    socket.connect(asio::local::stream_protocol::endpoint(path), error);
    if (error)
        throw SystemError(error.value(), "connect to " + path);
    if (!is_ours(socket.native_handle()) && ::geteuid() != 0)  // root may ask any job
        throw Error(ErrorCode::invalid_argument, path + " is another user's");
    return socket;
}

}  // namespace autolaunch::launcher
