#pragma once
#include "control/control_message.hpp"

#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/steady_timer.hpp>

#include <array>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>

namespace autolaunch::launcher {

/// Who asks something of a running job, however it came to us. All may be called at any time.
struct Caller {
    std::function<void(const control::Message&)> send;
    std::function<void()> close;                           ///< what was sent still goes out
    std::function<void(std::function<void()>)> when_gone;  ///< once, from the event loop
    std::string who = {};                                  ///< for people, as far as it is known
    bool asked_before = false;                             ///< on the same connection
};

/// The control protocol's messages on a Unix socket of this machine: without TLS and heartbeats,
/// for the kernel says whose the other end is.
///
/// Owner: shared with its pending operations; close() or the peer's end is its end. Threads: the
/// one that runs the context. Blocks: never. A peer that lets 16 MiB pile up is dropped.
class LocalLink : public std::enable_shared_from_this<LocalLink> {
public:
    using Socket = asio::local::stream_protocol::socket;
    using OnMessage = std::function<void(control::Message&&)>;

    explicit LocalLink(Socket socket) : socket_(std::move(socket)), reader_(control::kJoinLimit) {}
    void start(OnMessage on_message, std::function<void()> on_end);
    void send(const control::Message& message);
    void close();
    /// The process at the other end, as the kernel knows it.
    std::string describe_peer();
    void when_gone(std::function<void()> on_end) { on_end_ = std::move(on_end); }

private:
    void read();
    void write();
    void end();

    Socket socket_;
    control::MessageReader reader_;
    OnMessage on_message_;
    std::function<void()> on_end_;
    std::array<char, 4096> buffer_{};
    std::deque<std::string> queue_;
    std::size_t queued_ = 0;
    bool writing_ = false, closing_ = false, ended_ = false;
};

std::shared_ptr<Caller> caller_of(const std::shared_ptr<LocalLink>& link);

/// Waits for this user's programs on a Unix socket. A rank is one of those, and may be hostile: 64
/// connections at a time; when there are more, the oldest that has asked nothing makes way.
///
/// Owner: the head's agent. Threads: one. Blocks: never.
class LocalDoor {
public:
    using OnAsk = std::function<void(const control::Ask&, std::shared_ptr<Caller>)>;

    /// Listens at `path`, mode 0600, and removes it in the end. Throws SystemError.
    LocalDoor(asio::io_context& io, std::string path, OnAsk on_ask);
    LocalDoor(const LocalDoor&) = delete;
    LocalDoor& operator=(const LocalDoor&) = delete;
    ~LocalDoor();

private:
    struct Visit {
        std::weak_ptr<LocalLink> link;
        bool has_asked = false;
    };
    void accept();
    void take(LocalLink::Socket socket);
    bool make_room();

    std::string path_;
    OnAsk on_ask_;
    asio::local::stream_protocol::acceptor acceptor_;
    asio::steady_timer pause_;
    std::list<std::shared_ptr<Visit>> visits_;  // the oldest first
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

/// A connected socket to `path`, whose other end is of this user or root. Throws SystemError where
/// nobody listens, Error{invalid_argument} where another user does.
LocalLink::Socket connect_locally(asio::io_context& io, const std::string& path);

}  // namespace autolaunch::launcher
