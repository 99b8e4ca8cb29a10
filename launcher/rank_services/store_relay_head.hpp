#pragma once
#include "control/member.hpp"
#include "store/table_service.hpp"

#include <asio/io_context.hpp>

#include <memory>

namespace autolaunch::launcher {

/// The head's end of all StoreRelays of a generation: answers them from the table that the head's
/// StoreServer has, too. A node that sends nonsense is hung up on; the others notice nothing.
///
/// Owner: the agent of node 0, one per generation; `member` must outlive it. Threads: the agent's
/// one. Blocks: never.
class StoreRelayHead {
public:
    StoreRelayHead(asio::io_context& io, Member& member, int generation,
                   std::shared_ptr<store::TableService> table);
    StoreRelayHead(const StoreRelayHead&) = delete;
    StoreRelayHead& operator=(const StoreRelayHead&) = delete;
    ~StoreRelayHead();

    /// The node is lost: nobody waits there any more.
    void forget(int node);

private:
    class Desk;
    Member& member_;
    int generation_;
    std::shared_ptr<Desk> desk_;
};

}  // namespace autolaunch::launcher
