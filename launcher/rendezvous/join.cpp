#include "rendezvous/join.hpp"

#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "control/control_security.hpp"
#include "control/head_hub.hpp"
#include "control/job_identity.hpp"
#include "control/job_key.hpp"
#include "exit_codes/exit_codes.hpp"
#include "rendezvous/environment_comparison.hpp"
#include "rendezvous/head_claim.hpp"
#include "rendezvous/head_join.hpp"
#include "rendezvous/head_search.hpp"
#include "rendezvous/key_of_pods.hpp"
#include "rendezvous/member_join.hpp"
#include "rendezvous/welcome.hpp"

#include <asio/posix/stream_descriptor.hpp>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <random>
#include <utility>

namespace autolaunch::launcher {

namespace {

/// What both ends start from.
struct Situation {
    asio::io_context& io;
    const RendezvousSpec& spec;
    const Allocation& allocation;
    const EnvironmentMap& environment;
    const JoinRequest& request;
    JobIdentity identity;
    KeyPlan key_plan;
    control::EnvironmentTable environment_table;
    std::optional<Peers> peers = {};  // until somebody has joined

    bool names_are_known() const {
        return !allocation.numbered_by_arrival &&
               allocation.node_names.size() == static_cast<std::size_t>(request.node_count);
    }
};

constexpr auto kCredentialTime = std::chrono::seconds(2);
// For a head elsewhere to prove that it is of this job.
constexpr auto kMovedTime = std::chrono::seconds(3);

// Another start of the same agent has another one; 0 is nobody's.
std::uint64_t random_incarnation() {
    std::random_device device;
    const std::uint64_t high = device();
    return (high << 32 | device()) | 1;
}

std::string join_address(const std::string& address, std::uint16_t port) {
    return address + ':' + std::to_string(port);
}

std::string own_name(const Allocation& allocation, const JoinRequest& request) {
    const auto rank = static_cast<std::size_t>(allocation.node_rank);
    return rank < allocation.node_names.size() ? allocation.node_names[rank] : request.hostname;
}

Joined join_alone(asio::io_context& io, const Allocation& allocation, const JoinRequest& request) {
    Joined joined;
    joined.roster = {{{own_name(allocation, request), request.ranks_here}}, 0, request.run_name};
    auto hub = std::make_unique<HeadHub>(io, joined.roster, HeadHub::Connections(1));
    joined.member = hub->make_own_member();
    joined.head = std::move(hub);
    return joined;
}

control::Join introduce(const Situation& here) {
    control::Join join;
    join.version = here.request.version;
    join.node_name = own_name(here.allocation, here.request);
    join.hostname = here.request.hostname;
    join.ranks = here.request.ranks_here;
    if (here.allocation.keeps_node_order)
        join.node_rank = here.allocation.node_rank;
    join.topology_address = here.allocation.topology_address;
    join.program_digest = here.request.program_digest;
    join.spec_digest = here.request.spec_digest;
    join.environment_digest = digest_of(here.environment_table);
    if (here.peers) {
        join.door = here.peers->door->port();
        join.incarnation = here.peers->incarnation;
    }
    return join;
}

ControlConnectionOptions connection_options(const RendezvousSpec& spec) {
    ControlConnectionOptions options;
    options.silence_limit = spec.lost_after;
    return options;
}

std::string head_name(const Allocation& allocation) {
    if (allocation.numbered_by_arrival)
        return allocation.head_address;
    if (!allocation.node_names.empty() &&
        allocation.node_rank < static_cast<int>(allocation.node_names.size()))
        return allocation.node_names.front();
    return allocation.head_address;
}

/// The names under which the head may be found, likeliest first. srun's host is often the head's;
/// the key proves it.
std::vector<HostName> head_hosts(const Situation& here) {
    std::vector<HostName> hosts;
    if (!here.allocation.head_address.empty())
        hosts.push_back({here.allocation.head_address, "the address that was given", false});
    else if (!here.allocation.node_names.empty())
        hosts.push_back({here.allocation.node_names.front(), "the first node of the job",
                         here.allocation.source == "slurm"});
    const auto launch = here.environment.find("SLURM_LAUNCH_NODE_IPADDR");
    if (here.allocation.source == "slurm" && launch != here.environment.end() &&
        !launch->second.empty())
        hosts.push_back({launch->second, "where srun runs", false});
    return hosts;
}

/// Where the head is that has followed the first one; not this machine.
std::vector<HostName> moved_hosts(const Situation& here) {
    std::vector<HostName> hosts;
    if (!here.request.head_may_change || !here.request.moved_head)
        return hosts;
    hosts = here.request.moved_head(here.identity.name);
    const bool is_ours = std::any_of(hosts.begin(), hosts.end(), [&](const HostName& host) {
        return host.name == here.request.hostname || is_own_address(host.name);
    });
    return is_ours ? std::vector<HostName>() : hosts;
}

/// The job runs already, under another head. Its first node, where all others look for the head,
/// joins that one. Blocks: for kMovedTime, where somebody was head elsewhere.
bool has_head_elsewhere(const Situation& here) {
    const auto hosts = moved_hosts(here);
    if (hosts.empty())
        return false;
    HeadSearch::Options options;
    options.hosts = hosts;
    options.ports = here.identity.ports;
    options.connection = connection_options(here.spec);
    bool found = false;
    const auto search = std::make_shared<HeadSearch>(
        here.io, ControlSecurity::for_node(here.io, here.identity, here.key_plan),
        std::move(options));
    search->start([&](const std::shared_ptr<ControlConnection>& connection) {
        found = true;
        connection->set_handlers({});
        connection->close();
    });
    const Deadline deadline = Deadline::after(kMovedTime);
    here.io.restart();
    while (!found && !deadline.passed())
        here.io.run_one_until(deadline.at());
    search->stop();
    return found;
}

/// Tells when nobody wants the job any more.
class CancelWatch {
public:
    CancelWatch(asio::io_context& io, int cancel_fd) : watched_(io) {
        if (cancel_fd < 0)
            return;
        UniqueFd copy(::fcntl(cancel_fd, F_DUPFD_CLOEXEC, 0));
        if (!copy)
            throw SystemError(errno, "copy a descriptor");
        watched_.assign(copy.release());
        watched_.async_wait(
            asio::posix::stream_descriptor::wait_read,
            [canceled = canceled_](const asio::error_code& error) { *canceled = !error; });
    }
    bool canceled() const { return *canceled_; }

private:
    asio::posix::stream_descriptor watched_;
    std::shared_ptr<bool> canceled_ = std::make_shared<bool>(false);
};

/// Runs the event loop until HeadJoin or MemberJoin has come to an end.
template <class Join>
typename Join::Outcome complete(const Situation& here, const std::shared_ptr<Join>& join) {
    std::optional<typename Join::Outcome> outcome;
    const CancelWatch watch(here.io, here.request.cancel_fd);
    join->start([&outcome](typename Join::Outcome&& result) { outcome = std::move(result); });
    if (here.io.stopped())
        here.io.restart();
    while (!outcome && !watch.canceled())
        here.io.run_one();
    join->stop();
    if (!outcome)
        throw RendezvousError(exit_code::kNoHost,
                              "gave up waiting for the other nodes: nobody waits for this job", "");
    if (outcome->error)
        std::rethrow_exception(outcome->error);
    here.io.poll();  // the nodes are waiting for the Welcome, whatever the owner does before it
                     // runs the loop again
    return std::move(*outcome);
}

Expectation expectation_of(const Situation& here) {
    Expectation expectation;
    if (here.names_are_known())
        expectation.node_names = here.allocation.node_names;
    expectation.node_count = here.request.node_count;
    expectation.fewest_nodes = here.request.fewest_nodes;
    expectation.keeps_node_order = here.allocation.keeps_node_order;
    expectation.spec_name = here.request.spec_name;
    expectation.run_name = here.request.run_name;
    expectation.head = introduce(here);
    return expectation;
}

// Without it the job does all but take in nodes and answer to people.
void open_door(asio::io_context& io, const std::shared_ptr<ControlSecurity>& security,
               HeadDoor::Options options, Joined& joined) {
    try {
        joined.door = std::make_unique<HeadDoor>(io, security, std::move(options));
    } catch (const RendezvousError& error) {
        joined.summary.warnings.push_back(
            std::string("no node can join while the job runs, and drain and attach find nobody: ") +
            error.what());
    }
}

/// Everybody's door but our own, which others reach where they have reached us.
std::string own_door(const std::string& address, const Situation& here) {
    return join_address(address, here.peers->door->port());
}

std::function<void(Joined&)> door_opener(const Situation& here, const JobKey& key) {
    // What is referred to here lives as long as the job; what is not is copied.
    auto identity = here.identity;
    auto table = here.environment_table;
    auto introduction = introduce(here);
    auto name = here.request.spec_name;
    auto options = connection_options(here.spec);
    return [&io = here.io, identity, table, introduction, name, options, key,
            plan = here.key_plan](Joined& joined) {
        auto head_key = head_key_again(plan, identity, key, Deadline::after(kCredentialTime));
        open_door(io, ControlSecurity::for_head(identity, std::move(head_key)),
                  HeadDoor::Options{.ports = identity.ports,
                                    .connection = options,
                                    .head = introduction,
                                    .environment = table,
                                    .spec_name = name},
                  joined);
    };
}

void take_peers(Situation& here, const std::optional<JobKey>& key, Joined& joined) {
    if (!here.peers || !key)
        return;
    here.peers->identity = here.identity;
    here.peers->key = key;
    joined.peers = std::move(here.peers);
}

Joined join_as_head(Situation& here) {
    const auto timeout = here.spec.timeout;
    const auto security = ControlSecurity::for_head(
        here.identity, make_head_key(here.key_plan, here.identity, Deadline::after(timeout)));
    HeadJoin::Options options;
    options.ports = here.identity.ports;
    options.connection = connection_options(here.spec);
    options.expectation = expectation_of(here);
    options.environment = here.environment_table;
    options.timeout = timeout;
    options.last_call = here.spec.last_call;
    auto outcome =
        complete(here, std::make_shared<HeadJoin>(here.io, security, std::move(options)));
    Joined joined;
    joined.roster = std::move(outcome.roster);
    joined.head = std::move(outcome.head);
    joined.member = std::move(outcome.member);
    joined.summary.key_source = security->key_described();
    joined.summary.head_address = outcome.head_address;
    joined.summary.local_address = outcome.head_address;
    joined.summary.warnings = std::move(outcome.warnings);
    joined.identity = here.identity.name;
    open_door(here.io, security,
              HeadDoor::Options{.ports = here.identity.ports,
                                .connection = connection_options(here.spec),
                                .head = introduce(here),
                                .environment = here.environment_table,
                                .spec_name = here.request.spec_name},
              joined);
    if (here.peers) {
        here.peers->doors = std::move(outcome.doors);
        here.peers->doors[0] = own_door(outcome.head_address, here);
        here.peers->incarnations = std::move(outcome.incarnations);
        joined.open_door = door_opener(here, *security->key());
    }
    take_peers(here, security->key(), joined);
    return joined;
}

Joined join_as_member(Situation& here) {
    const auto security = ControlSecurity::for_node(here.io, here.identity, here.key_plan);
    MemberJoin::Options options;
    options.search.hosts = head_hosts(here);
    options.search.ports = here.identity.ports;
    options.search.moved = [&here] { return moved_hosts(here); };
    options.search.connection = connection_options(here.spec);
    options.search.connection.handshake_timeout =
        here.spec.timeout;  // a head with many nodes is busy
    options.head_name = head_name(here.allocation);
    options.node_count = here.request.node_count;
    options.join = introduce(here);
    options.environment = here.environment_table;
    options.timeout = here.spec.timeout;
    auto outcome =
        complete(here, std::make_shared<MemberJoin>(here.io, security, std::move(options)));
    Joined joined;
    joined.roster = read_welcome(outcome.welcome);
    joined.late = !outcome.welcome.now.empty();
    joined.identity = here.identity.name;
    const auto nodes = static_cast<int>(joined.roster.nodes.size());
    if (!joined.late && (nodes < here.request.fewest_nodes || nodes > here.request.node_count))
        throw RendezvousError(exit_code::kNoHost,
                              "the head counts " + std::to_string(joined.roster.nodes.size()) +
                                  " nodes, this node " + std::to_string(here.request.node_count),
                              "start every node with the same number of nodes");
    joined.member = std::move(outcome.member);
    joined.summary.key_source = security->key_described();
    joined.summary.head_address = outcome.head_address;
    joined.summary.local_address = outcome.local_address;
    if (here.peers) {
        control::Welcome& welcome = outcome.welcome;
        here.peers->doors = std::move(welcome.doors);
        here.peers->incarnations = std::move(welcome.incarnations);
        if (!here.peers->doors.empty()) {
            const auto port = here.peers->doors[0].rfind(':');
            here.peers->doors[0] = outcome.head_address + here.peers->doors[0].substr(port);
        }
        joined.open_door = door_opener(here, *security->key());
    }
    take_peers(here, security->key(), joined);
    return joined;
}

}  // namespace

Joined join_job(asio::io_context& io, const RendezvousSpec& spec, const Allocation& allocation,
                const EnvironmentMap& environment, const JoinRequest& request) {
    if (request.node_count == 1)
        return join_alone(io, allocation, request);
    const auto start = std::chrono::steady_clock::now();
    Situation here{io,          spec,    allocation,
                   environment, request, job_identity(allocation, spec, request.run_id),
                   {},          {}};
    here.key_plan = plan_job_key(spec, environment, here.identity, request.shared_directory);
    check_key_reaches_pods(here.key_plan, environment);
    here.environment_table = describe_environment(environment);
    if (request.head_may_change) {
        here.peers.emplace();
        here.peers->door = std::make_unique<PeerDoor>(io);
        here.peers->incarnation = random_incarnation();
    }
    HeadClaim claim{allocation.node_rank == 0, {}};
    if (allocation.numbered_by_arrival)
        claim = claim_head(allocation.head_address, spec.is_host, request.hostname, here.identity);
    // A step of Slurm takes in no more tasks: what was head before is of another start.
    const bool may_be_late = allocation.source != "slurm" || allocation.numbered_by_arrival;
    const bool leads = claim.is_head && !(may_be_late && has_head_elsewhere(here));
    Joined joined = leads ? join_as_head(here) : join_as_member(here);
    joined.summary.took = std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now() - start);
    return joined;
}

}  // namespace autolaunch::launcher
