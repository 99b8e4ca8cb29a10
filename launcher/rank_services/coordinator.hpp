#pragma once
#include "control/control_message.hpp"
#include "control/member.hpp"
#include "plan/launch_plan.hpp"
#include "rank_services/connection_vouching.hpp"
#include "rank_services/session_server.hpp"
#include "rank_services/socket_directory.hpp"
#include "rank_services/store_relay.hpp"
#include "rank_services/store_relay_head.hpp"
#include "store/store_server.hpp"

#include <asio/io_context.hpp>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

namespace autolaunch::launcher {

/// What the ranks of one generation connect to on their node, listening already. Later parts that
/// serve a node's ranks for a generation (MPI's wire-up) go here, beside the session.
struct GenerationSockets {
    std::unique_ptr<SessionServer> session;
    std::unique_ptr<StoreRelay> store_relay;     ///< nothing on the head, where the store itself is
    std::unique_ptr<ConnectionVoucher> voucher;  ///< the same
    GenerationFacts facts;
    std::string warning;  ///< to be shown; empty: none
};

/// The key-value store of one generation, on the head: what MASTER_ADDR and MASTER_PORT name on all
/// nodes, and the other nodes' relays lead to.
struct MasterStore {
    std::unique_ptr<ConnectionVouching> vouching;  ///< nothing where no other node connects
    std::unique_ptr<StoreServer> server;
    std::unique_ptr<StoreRelayHead> relays;  ///< nothing with one node
    std::string address;                     ///< as ranks are told it
    std::string token;  ///< of this generation; for ranks, through their agents
};

/// Where the nodes of a job meet: opens what each generation needs, on fresh sockets, so that
/// nothing of an earlier one can answer. Bind first, publish after: ports and paths are known only
/// once they listen.
///
/// Owner: the agent of each node. Threads: the agent's one. Blocks: open_store(), 5 s at most, on
/// looking up a host name that the user gave as the master address.
class Coordinator {
public:
    /// `sockets` outlives it. `head_address`: numeric, where the other nodes reach the head; empty
    /// with one node.
    Coordinator(const LaunchPlan& plan, SocketDirectory& sockets, std::string head_address);

    /// This node is the head now, which others reach there: an address that was given for the store
    /// is another machine's.
    void move_head_here(std::string address) {
        head_address_ = std::move(address);
        has_moved_ = true;
    }
    /// On the head, before the nodes are told to start. Throws Error with a hint: an address that
    /// is not ours, a port that is taken.
    MasterStore open_store(asio::io_context& io, Member& member, int generation) const;
    /// On every node. A socket directory that was removed (a logout does that) is made again.
    /// Throws SystemError.
    GenerationSockets open(asio::io_context& io, Member& member,
                           const control::StartGeneration& start,
                           SessionServer::Callback on_message) const;
    /// For other sockets of the agent.
    const std::filesystem::path& socket_directory() const { return sockets_.path(); }

private:
    StoreServerOptions store_options(Member& member, int ranks) const;
    SessionServer::Options session_options(Member& member) const;

    const LaunchPlan& plan_;
    SocketDirectory& sockets_;
    std::string head_address_;
    bool has_moved_ = false;
};

/// Where the store listens, and how ranks are told it.
struct MasterAddress {
    std::string told;    ///< a name or an address
    std::string listen;  ///< numeric
};

/// --master-addr, else where the other nodes reach the head, else --local-addr, else the loopback.
/// The loopback alone, whatever was given, where no other node connects: on one node, and with
/// `rendezvous.store: node`.
/// A given name that means the loopback on the head (Debian's /etc/hosts) is of no use to other
/// nodes: where there are any, the head's address stands in. Throws Error{invalid_argument} for an
/// address that cannot be resolved in 5 s.
MasterAddress master_address(const JobSpec& spec, const std::string& head_address);

}  // namespace autolaunch::launcher
