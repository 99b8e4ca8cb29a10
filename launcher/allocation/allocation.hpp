#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

using EnvironmentMap = std::map<std::string, std::string>;

/// What a person says about the nodes, on the command line or in the spec; it wins over the
/// scheduler.
struct NodeOptions {
    int nodes = 1;             ///< --nnodes
    int most_nodes = 1;        ///< its MAX, where it is a range
    int spare_nodes = 0;       ///< more than these
    bool nodes_given = false;  ///< by --nnodes or PET_NNODES: a person says it, also where it is 1
    std::optional<int> node_rank = {};  ///< --node-rank
    std::string head_address = {};      ///< --master-addr, or the host of --rdzv-endpoint
    bool is_meeting_place = false;      ///< that address is --rdzv-endpoint's: nodes need no number
    bool standalone = false;            ///< --standalone: this node alone, whatever surrounds it
};

/// All that may come: the most of a range, and spares.
int all_nodes(const NodeOptions& options);

/// A file's text; throws Error when it cannot be read.
using FileReader = std::function<std::string(const std::string& path)>;

/// The GPUs that we may use, as the environment names them to one vendor's runtime.
struct GpuGrant {
    std::optional<std::vector<std::string>> names = {};  ///< indices or UUIDs; nothing: not said
    std::string from = {};                               ///< the variable that said so
    bool masked = false;                     ///< the vendor's runtime obeys it by itself
    std::vector<std::string> warnings = {};  ///< variables that contradict each other
};

/// What the scheduler gave us: a pure function of the environment, so captured environments test
/// it.
struct Allocation {
    std::string source = "local";  ///< "local", "slurm", "static", "mpirun", "kubernetes",
                                   ///< "volcano", "pbs", "lsf"
    std::vector<std::string>
        node_names;         ///< in node-rank order; a name that nobody told is "node-rank-N"
    int node_rank = 0;      ///< this node's index in node_names
    std::string job_id;     ///< e.g. "4711" or "4711.0"; empty locally
    int restart_count = 0;  ///< how often the scheduler requeued the job
    std::optional<int> tasks_on_node;  ///< how many of us the scheduler started on this node
    int local_task = 0;                ///< which of them we are; 0 becomes the agent
    std::vector<std::vector<int>> task_cpus =
        {};  ///< that each of them may use, where they differ (merge_tasks)
    bool numbered_by_arrival =
        false;  ///< nobody says which of the nodes this is: head_address' own one is the first
    bool inside_a_rank = false;  ///< of another autolaunch: what surrounds that one is not ours
    bool on_every_node =
        true;  ///< false: a batch script or a shell, of several nodes; only this node runs us
    std::string head_address;      ///< where the first node can be reached (a name or an address);
                                   ///< empty: node_names[0]
    std::string topology_address;  ///< the switches above this node, outermost first, and it:
                                   ///< "s0.s3.node7"; or empty
    bool keeps_node_order =
        false;      ///< node ranks are chosen by a person, or known where names are not: they count
    GpuGrant gpus;  ///< as CUDA reads the environment
    GpuGrant rocm_gpus;  ///< as ROCm does: of AMD's GPUs
    std::optional<std::chrono::system_clock::time_point> ends_at;
    std::optional<std::chrono::seconds>
        kill_wait;  ///< between the scheduler's SIGTERM and its SIGKILL, where that is known
    std::vector<std::string> notes = {};  ///< what could not be read, a line each
};

/// Asks the environments in the order of docs/allocation.md. Throws Error{invalid_argument} naming
/// the variable, with the flag that helps in its hint; so where the variables tell that this is one
/// of several, and not of how many. `hostname` is this machine's; `read_text` reads host files,
/// from the disk if empty.
Allocation read_allocation(const EnvironmentMap& environment, const std::string& hostname,
                           const NodeOptions& options = {}, const FileReader& read_text = {});

/// Throws Error{invalid_argument}, "start with srun", when only this one of several nodes runs us.
void check_runs_on_every_node(const Allocation& allocation);

}  // namespace autolaunch::launcher
