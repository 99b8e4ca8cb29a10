#pragma once
#include "allocation/allocation.hpp"
#include "allocation/roster.hpp"
#include "control/head.hpp"
#include "control/node_member.hpp"
#include "control/rendezvous_error.hpp"
#include "rendezvous/head_door.hpp"
#include "rendezvous/host_lookup.hpp"
#include "rendezvous/peer_door.hpp"
#include "spec/rendezvous_spec.hpp"

#include <asio/io_context.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What this node brings to the rendezvous.
struct JoinRequest {
    std::string version;  ///< of the program
    std::string hostname;
    int node_count = 1;
    int fewest_nodes = 1;  ///< start without the others, where these are all that come
    int ranks_here = 1;
    std::string run_id;                ///< the user's own, part of the job's identity; empty: none
    std::string spec_name;             ///< of train.yaml, for messages; empty: there is none
    std::string run_name;              ///< counts where this node is the head
    std::string shared_directory;      ///< for the key file, the last resort
    std::uint64_t program_digest = 0;  ///< equal on all nodes, or the job is refused
    std::uint64_t spec_digest = 0;     ///< the same
    bool head_may_change = false;      ///< its loss does not end the job: agents hear each other
    /// Where the job of that identity has its head now, for one that came to have another head;
    /// empty: nobody says so. Of a job that is over it may be what was true then.
    std::function<std::vector<HostName>(const std::string& identity)> moved_head = {};
    int cancel_fd = -1;  ///< readable: give up (the keeper is gone); -1: never
};

/// For the banner: "joined 4/4 nodes in 12 ms · head node1 · key from munge · TLS 1.3".
struct JoinSummary {
    std::chrono::microseconds took{0};
    std::string key_source;    ///< empty with one node
    std::string head_address;  ///< numeric, as the other nodes reach the head; empty with one node
    std::vector<std::string> warnings;  ///< environments that differ, by node and variable
    std::string
        local_address;  ///< numeric: this node's end of a control connection; empty with one node
};

/// The agents of a job whose head can be followed by another one.
struct Peers {
    std::unique_ptr<PeerDoor> door;  ///< ours
    JobIdentity identity;
    std::optional<JobKey> key;
    std::uint64_t incarnation = 0;  ///< ours
    std::vector<std::string>
        doors;  ///< by node rank: "address:port"; none where the job runs already
    std::vector<std::uint64_t> incarnations;
};

struct Joined {
    Roster roster;
    std::unique_ptr<Head> head;  ///< on node 0 only
    std::unique_ptr<NodeMember> member;
    JoinSummary summary;
    bool late = false;               ///< the job runs already; this node waits as a spare
    std::unique_ptr<HeadDoor> door;  ///< on node 0 of a job of several, where it could be opened
    std::string identity;            ///< the job's, by which others find it; empty with one node
    std::optional<Peers> peers;      ///< nothing: the head's end is the job's
    /// Opens `door` where it is not open: of a node that was not the head before.
    std::function<void(Joined&)> open_door = {};
};

/// Brings the nodes of the job together, each calling this. Runs `io` until all are there; the
/// connections then live on in it. One node joins without a socket, a key or a wait. Throws
/// RendezvousError by the deadline (spec.timeout).
Joined join_job(asio::io_context& io, const RendezvousSpec& spec, const Allocation& allocation,
                const EnvironmentMap& environment, const JoinRequest& request);

}  // namespace autolaunch::launcher
