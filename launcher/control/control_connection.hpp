#pragma once
#include "control/control_message.hpp"

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace autolaunch::launcher {

class ControlSecurity;  // control_security.hpp: the job's identity and key; one for all connections
                        // of an agent

struct ControlConnectionOptions {
    std::chrono::milliseconds handshake_timeout{
        10'000};  ///< until on_ready; whoever is slower is dropped
    std::chrono::milliseconds silence_limit{
        10'000};  ///< a peer that says nothing for so long is lost
    std::size_t send_limit_bytes = std::size_t{256}
                                   << 20;  ///< waiting to be written; over it the peer is dropped
};

/// Why a connection ended.
struct ConnectionEnd {
    enum class Kind {
        closed,    ///< the peer closed it, or it was reset
        silent,    ///< the peer said nothing for silence_limit
        not_ours,  ///< no autolaunch, another job or another protocol version: `reason` says which
        key_refused,  ///< of our job by its name, but its key is another or ours cannot be had
        corrupt,      ///< a frame that is no message
        too_slow,     ///< the handshake, or reading what we send
        by_us,
    };
    Kind kind = Kind::closed;
    std::string reason;
};

/// One authenticated, encrypted connection of whole messages between a node's agent and the head.
/// Heartbeats are its own business: it sends them when there is nothing else to say, and they are
/// not handed on. Until on_ready a stranger costs a socket, a timer and at most 8 KiB received, for
/// at most handshake_timeout; how many there may be at once is the acceptor's to limit.
///
/// Owner: its user; when the last one lets go of it, it is closed as by close(), and no handler is
/// called any more. Threads: the one that runs the socket's context. Blocks: never. Memory: about
/// 15 KiB while idle.
class ControlConnection {
public:
    struct Handlers {
        std::function<void()> on_ready;  ///< the peer has proved the key
        std::function<void(control::Message&&)> on_message;
        std::function<void(const ConnectionEnd&)> on_end;  ///< once, and nothing after it
    };

    /// Both take a connected socket: the head accepts, a node connects. Handlers are called from
    /// the event loop, never from within a call of this class.
    static std::shared_ptr<ControlConnection> accept(asio::ip::tcp::socket socket,
                                                     std::shared_ptr<ControlSecurity> security,
                                                     const ControlConnectionOptions& options,
                                                     Handlers handlers);
    static std::shared_ptr<ControlConnection> connect(asio::ip::tcp::socket socket,
                                                      std::shared_ptr<ControlSecurity> security,
                                                      const ControlConnectionOptions& options,
                                                      Handlers handlers);
    ControlConnection(const ControlConnection&) = delete;
    ControlConnection& operator=(const ControlConnection&) = delete;
    ~ControlConnection();

    /// Before on_ready, too: it goes out then. After the end nothing happens.
    void send(const control::Message& message);
    /// The same bytes for many peers: encoded once.
    void send_encoded(std::shared_ptr<const std::string> frame);
    void set_frame_limit(
        std::size_t bytes);  ///< of what may be received; control::kJoinLimit at first
    /// Replaces the handlers: another owner takes over.
    void set_handlers(Handlers handlers);
    /// What was sent still goes out, for at most a second; then on_end comes, by_us.
    void close();
    /// Since anything came, from on_ready on.
    std::chrono::milliseconds silent_for() const;
    asio::ip::tcp::endpoint local_endpoint() const;
    asio::ip::tcp::endpoint remote_endpoint() const;

private:
    class Channel;
    explicit ControlConnection(std::shared_ptr<Channel> channel);

    std::shared_ptr<Channel> channel_;
};

}  // namespace autolaunch::launcher
