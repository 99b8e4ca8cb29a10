#include "run/join_inputs.hpp"

#include "base/file_system.hpp"
#include "base/hostname.hpp"
#include "rendezvous/program_digest.hpp"
#include "restart_policy/node_limits.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>

namespace autolaunch::launcher {

namespace {

// The folder that holds run directories: before the nodes have met, nobody knows the run's own
// name.
std::string directory_of_key(const JobSpec& spec) {
    if (!spec.run_dir.empty())
        return absolute_path(spec.run_dir).parent_path();
    return absolute_path(spec.monitoring.log_path.empty() ? "runs" : spec.monitoring.log_path);
}

}  // namespace

std::string shared_directory_of(const JobSpec& spec) { return directory_of_key(spec); }

std::string now_text() {
    const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::tm local{};
    ::localtime_r(&now, &local);
    char text[32];
    std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
    return text + ("-" + std::to_string(::getpid()));
}

NodeOptions node_options(const JobSpec& spec) {
    return {.nodes = spec.resources.nodes,
            .most_nodes = spec.resources.most_nodes,
            .spare_nodes = spec.resources.spare_nodes,
            .nodes_given = spec.resources.nodes_given,
            .node_rank = spec.node_rank,
            .head_address = spec.rendezvous.address,
            .is_meeting_place = spec.rendezvous.address_is_meeting_place,
            .standalone = spec.standalone};
}

JoinRequest join_request(const JobSpec& spec, const JobShape& shape, const std::string& version,
                         int cancel_fd) {
    JoinRequest request;
    request.version = version;
    request.hostname = hostname();
    request.node_count = shape.nodes;
    const ResourceSpec& resources = spec.resources;
    const bool may_be_fewer =
        spec.rendezvous.address_is_meeting_place && resources.most_nodes > resources.nodes;
    request.fewest_nodes =
        fewest_nodes(spec).value_or(may_be_fewer ? resources.nodes : shape.nodes);
    request.head_may_change = fewest_nodes(spec) && spec.trainer.preload_from != "node";
    request.ranks_here = shape.ranks_here;
    request.run_id = spec.run_id;
    request.spec_name = std::filesystem::path(spec.spec_file).filename();
    request.run_name = now_text();
    request.shared_directory = directory_of_key(spec);
    if (shape.nodes > 1)
        request.program_digest = program_digest();
    request.spec_digest = spec.source_digest;
    request.cancel_fd = cancel_fd;
    return request;
}

}  // namespace autolaunch::launcher
