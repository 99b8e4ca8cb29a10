#pragma once
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

using EnvironmentMap = std::map<std::string, std::string>;

/// What the scheduler gave us: a pure function of the environment, so captured environments test it.
struct Allocation {
    std::string source = "local";         ///< "local", "slurm", …
    std::vector<std::string> node_names;  ///< in node-rank order
    int node_rank = 0;                    ///< this node's index in node_names
    std::string job_id;                   ///< e.g. "4711" or "4711.0"; empty locally
    int restart_count = 0;                ///< how often the scheduler requeued the job
    std::optional<int> tasks_on_node;     ///< how many of us the scheduler started on this node
    int local_task = 0;                   ///< which of them we are; 0 becomes the agent
    std::string head_address;  ///< where the user says the first node is (a name or an address); empty: node_names[0]
    std::string topology_address;   ///< the switches above this node, outermost first, and it: "s0.s3.node7"; or empty
    bool keeps_node_order = false;  ///< node ranks were chosen by a person: no reordering by topology
    std::optional<std::vector<std::string>> granted_gpus;  ///< as named to us: indices or UUIDs; nothing: not said
    std::string granted_gpus_from;                         ///< the variable that said so
    bool gpus_are_masked = false;                          ///< CUDA_ or ROCR_VISIBLE_DEVICES is set
    std::optional<std::chrono::system_clock::time_point> ends_at;
};

/// Throws Error{invalid_argument} naming the variable. `hostname` is this machine's.
Allocation read_allocation(const EnvironmentMap& environment, const std::string& hostname);

}  // namespace autolaunch::launcher
