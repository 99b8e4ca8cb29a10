#pragma once
#include "control/member.hpp"
#include "store/store_server.hpp"

#include <asio/io_context.hpp>

#include <cstdint>
#include <memory>

namespace autolaunch::launcher {

/// The job's store as a node other than the head serves it to its own ranks: the same protocol on a
/// local socket, with what they ask merged and sent to the head over the control plane. So the head
/// has one connection per node, and what all ranks of a node wait for or read costs as much as if
/// one did.
///
/// Owner: the agent, one per generation; `member` must outlive it. Threads: the agent's one.
/// Blocks: never. Ranks lose their connection when it goes, or when the head hangs up.
class StoreRelay {
public:
    /// It listens when the constructor returns. Throws SystemError when the address cannot be
    /// bound.
    StoreRelay(asio::io_context& io, Member& member, int generation,
               const StoreServerOptions& options);
    StoreRelay(const StoreRelay&) = delete;
    StoreRelay& operator=(const StoreRelay&) = delete;
    ~StoreRelay();

    std::uint16_t port() const { return server_->port(); }
    std::size_t connection_count() const { return server_->connection_count(); }

private:
    class Forwarder;
    Member& member_;
    int generation_;
    std::shared_ptr<Forwarder> forwarder_;
    std::unique_ptr<StoreServer> server_;
};

}  // namespace autolaunch::launcher
