#pragma once
#include "session/session_protocol.hpp"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <asio/io_context.hpp>

namespace autolaunch::launcher {

/// Who sent a message: what it said in its hello, and the pid that the kernel vouches for.
struct SessionPeer {
    int rank = 0;
    int local_rank = 0;
    int generation = 0;
    int pid = 0;         ///< by its hello
    int kernel_pid = 0;  ///< in our own pid namespace; 0 when it is not visible there
};

/// The agent's end of the session sockets: hears the ranks of this node and asks them to stop or to
/// checkpoint (docs/session-protocol.md).
///
/// Owner: the launcher's agent. Threads: only the one that runs `context`, which also calls back.
/// Blocks: never; a rank that does not read is disconnected once 256 KiB wait for it. Peers of
/// another user, with garbage or with a line over 64 KiB lose their connection; the others notice
/// nothing. Who has said no hello makes way for others when there are too many.
class SessionServer {
public:
    struct Options {
        std::size_t connections = 1024;
        std::size_t bytes = std::size_t{64} << 20;  ///< of unfinished lines and of unread ones
        /// Hears once that a connection was turned away for one of these.
        std::function<void(const std::string& what)> on_refusal = {};
    };

    using Callback = std::function<void(const SessionPeer&, const session::RankMessage&)>;

    /// Listens when it returns, mode 0600. The directory must exist and belong to us with mode
    /// 0700; a socket that an earlier server left there is replaced. Throws Error{invalid_argument}
    /// or SystemError. `callback` gets every message, Hello included; it may call the server, but
    /// not destroy it.
    SessionServer(asio::io_context& context, std::filesystem::path path, Callback callback,
                  const Options& options);
    SessionServer(asio::io_context& context, std::filesystem::path path, Callback callback)
        : SessionServer(context, std::move(path), std::move(callback), Options{}) {}
    SessionServer(const SessionServer&) = delete;
    SessionServer& operator=(const SessionServer&) = delete;
    /// Closes every connection and removes the socket.
    ~SessionServer();

    /// Asks the rank, in whichever generation it said hello. False when it has no connection (yet).
    bool send_stop(int rank, const session::Stop& stop);
    bool send_checkpoint(int rank);
    bool send_leave(int rank, const session::LeaveGeneration& leave);
    std::size_t connection_count() const;

private:
    class Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace autolaunch::launcher
