#pragma once
#include "rendezvous/control_message.hpp"
#include "rendezvous/job_key.hpp"

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace autolaunch::launcher {

/// What both ends of a control connection know of the job.
class ControlSecurity;  // secure_channel.hpp: the job's identity and key, OpenSSL's context

struct ControlConnectionOptions {
    std::chrono::milliseconds handshake_timeout{10'000};    ///< until on_ready; whoever is slower is dropped
    std::chrono::milliseconds silence_limit{10'000};        ///< a peer that says nothing for so long is lost
    std::size_t send_limit_bytes = std::size_t{256} << 20;  ///< waiting to be written; over it the peer is dropped
};

/// Why a connection ended.
struct ConnectionEnd {
    enum class Kind {
        closed,    ///< the peer closed it, or it was reset
        silent,    ///< the peer said nothing for silence_limit
        not_ours,  ///< no autolaunch, another job, another key or another protocol version: `reason` says which
        corrupt,   ///< a frame that is no message
        too_slow,  ///< the handshake, or reading what we send
        by_us,
    };
    Kind kind = Kind::closed;
    std::string reason;
};

/// One authenticated, encrypted connection of whole messages between a node's agent and the head. Heartbeats are its
/// own business: it sends them when there is nothing else to say, and they are not handed on.
///
/// Owner: shared between its user and its pending operations; close() or the last user's release ends it. Threads: the
/// one that runs the context. Blocks: never.
class ControlConnection : public std::enable_shared_from_this<ControlConnection> {
public:
    struct Handlers {
        std::function<void()> on_ready;  ///< the peer has proved the key
        std::function<void(control::Message&&)> on_message;
        std::function<void(const ConnectionEnd&)> on_end;  ///< once, and nothing after it
    };

    /// Both take a connected socket. Handlers are called from the event loop, never from within these calls.
    static std::shared_ptr<ControlConnection> accept(asio::ip::tcp::socket socket,
                                                     std::shared_ptr<ControlSecurity> security,
                                                     const ControlConnectionOptions& options, Handlers handlers);
    static std::shared_ptr<ControlConnection> connect(asio::ip::tcp::socket socket,
                                                      std::shared_ptr<ControlSecurity> security,
                                                      const ControlConnectionOptions& options, Handlers handlers);

    virtual ~ControlConnection() = default;
    virtual void send(const control::Message& message) = 0;
    /// The same bytes for many peers: encoded once.
    virtual void send_encoded(const std::shared_ptr<const std::string>& frame) = 0;
    virtual void set_frame_limit(std::size_t bytes) = 0;  ///< of what may be received; control::kJoinLimit at first
    /// Replaces the handlers: another owner takes over.
    virtual void set_handlers(Handlers handlers) = 0;
    /// What was sent still goes out, for at most a second.
    virtual void close() = 0;
    virtual asio::ip::tcp::endpoint local_endpoint() const = 0;
    virtual asio::ip::tcp::endpoint remote_endpoint() const = 0;
};

}  // namespace autolaunch::launcher
