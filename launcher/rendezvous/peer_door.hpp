#pragma once
#include "control/control_connection.hpp"
#include "control/control_security.hpp"
#include "rendezvous/head_listener.hpp"
#include "rendezvous/reception.hpp"

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Where an agent hears the others of a job whose head can be followed by another one: a port of
/// the kernel's choice, for as long as the agent lives. So a refused connection to it says that the
/// agent is gone, and the machine is not.
///
/// Owner: Joined. Threads: the one that runs the context. Blocks: never. Before open() a bounded
/// number of callers waits.
class PeerDoor {
public:
    using Visitor = std::shared_ptr<ControlConnection>;
    using Handler = std::function<void(const Visitor& visitor)>;

    /// Listens when it returns. Throws RendezvousError.
    explicit PeerDoor(asio::io_context& io);
    PeerDoor(const PeerDoor&) = delete;
    PeerDoor& operator=(const PeerDoor&) = delete;

    std::uint16_t port() const { return listener_.port(); }
    /// Once this agent has the job's key. The handlers of a visitor's connection, who has proved
    /// it, are the receiver's to set.
    void open(const JobIdentity& identity, const JobKey& key,
              const ControlConnectionOptions& connection, Handler handler);

private:
    static constexpr std::size_t kMostWaiting = 1024;

    asio::io_context& io_;
    std::vector<asio::ip::tcp::socket> waiting_;
    std::optional<Reception> reception_;
    HeadListener listener_;
};

}  // namespace autolaunch::launcher
