#include "rendezvous/join.hpp"

#include "rendezvous/head_hub.hpp"
#include "rendezvous/node_member.hpp"
#include "report/exit_codes.hpp"

#include <utility>

namespace autolaunch::launcher {

namespace {

Joined join_alone(asio::io_context& io, const Allocation& allocation, const JoinRequest& request) {
    Joined joined;
    const std::string name = allocation.node_names.empty() ? request.hostname : allocation.node_names.front();
    joined.roster = {{{name, request.ranks_here}}, 0, request.run_name};
    auto hub = std::make_unique<HeadHub>(io, joined.roster, HeadHub::Connections(1));
    joined.member = hub->make_own_member();
    joined.head = std::move(hub);
    return joined;
}

}  // namespace

Joined join_job(asio::io_context& io, const JobSpec& spec, const Allocation& allocation,
                const EnvironmentMap& environment, const JoinRequest& request) {
    (void)spec;
    (void)environment;
    if (request.node_count != 1)
        throw RendezvousError(exit_code::kUnavailable, "jobs of several nodes are not in this build", "use one node");
    return join_alone(io, allocation, request);
}

}  // namespace autolaunch::launcher
