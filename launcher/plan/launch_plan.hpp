#pragma once
#include "allocation/allocation.hpp"
#include "allocation/roster.hpp"
#include "binding/binding.hpp"
#include "nccl_env/nccl_env.hpp"
#include "plan/container_choice.hpp"
#include "plan/memory_forecast.hpp"
#include "plan/mpi_choice.hpp"
#include "plan/output_choice.hpp"
#include "plan/preload_choice.hpp"
#include "plan/staging_choice.hpp"
#include "secrets/secrets.hpp"
#include "spec/job_spec.hpp"
#include "topology/node_topology.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The HCA that a rank is paired with (binding/hca_pairing.hpp): for people, UCX and logs.
struct RankHca {
    std::string name, bdf;
    PathClass path = PathClass::unknown;
    std::string reason;
    std::vector<std::string> further = {};  ///< names of those as near, this rank's alone
};

struct RankPlan {
    int rank = 0;
    int local_rank = 0;
    std::vector<std::string> argv;
    std::string role;                  ///< ROLE_NAME
    int role_rank = 0, role_size = 1;  ///< among the ranks of that role
    std::vector<VariableChoice>
        environment;  ///< what is set on top of the inherited environment, with reasons
    RankBinding binding;
    std::optional<Gpu> gpu;
    std::optional<RankHca> hca = {};
    std::string wrap = {};  ///< a command line that its program is started by; empty: none
    std::vector<std::string> secrets = {};  ///< names of those that it gets (spec.given_secrets)
};

/// Everything decided before anything is started: the one record that spawn, supervise and report
/// read.
struct LaunchPlan {
    std::string job_name;
    std::string run_id;
    std::string run_dir;   ///< absolute
    std::string hostname;  ///< this node
    std::string saved_machine =
        {};  ///< the file this node's topology was read from; empty: the node itself
    /// Of the nodes that take part, by group rank; empty where nobody has named the node yet.
    std::vector<std::string> node_names;
    std::vector<int> ranks_per_node;            ///< the same
    std::vector<std::string> spare_nodes = {};  ///< that have joined, and wait
    int node_rank = 0;                          ///< among all that joined, for the whole job
    int group_rank = 0;                         ///< among those that take part in this generation
    int world_size = 1;
    int tasks_here = 1;           ///< that the scheduler started on this node: agent and stand-ins
    std::string workdir;          ///< absolute
    std::vector<RankPlan> ranks;  ///< of this node, by local rank
    NcclEnvironment nccl;
    std::vector<std::string> warnings;
    std::vector<std::string> notes;  ///< GPUs and CPUs that no rank uses, and why; what a saved
                                     ///< machine's file does not tell
    JobSpec spec;                    ///< restart, logging, rendezvous settings
    int gpu_count = 0;               ///< usable here
    /// Of them, those that the scheduler gave to this job and no rank is bound to.
    std::vector<Gpu> unused_gpus = {};
    std::string gpu_mask;           ///< for gpu_mask_variable; empty: left as it is
    std::string gpu_mask_variable;  ///< "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
    bool gpu_mask_each = false;     ///< each rank is shown its own GPU alone
    int numa_node_count = 1;
    int allowed_cpu_count = 0;  ///< of this node; 0: unknown
    std::optional<double> cpu_quota =
        {};  ///< as NodeTopology::cpu_quota, where it is less than the CPUs; all ranks'
    std::uint64_t node_memory_bytes = 0;  ///< that all ranks here may use together; 0: unknown
    std::optional<MemoryForecast> memory = {};  ///< where the spec says how large the model is
    BindingMode binding_mode = BindingMode::node;
    int node_count = 1;  ///< that take part in this generation
    std::optional<std::chrono::system_clock::time_point>
        ends_at;  ///< the allocation, where the environment says it
    std::optional<std::chrono::seconds>
        kill_wait;  ///< between the scheduler's SIGTERM and its SIGKILL, where that is known
    /// slurm_config's, where the environment does not tell the job's own (Slurm before 23.02).
    std::optional<std::chrono::seconds> uncompared_time_limit;
    std::string scheduler;      ///< Allocation::source
    int restart_count = 0;      ///< how often the scheduler requeued the job
    std::string slurm_job_id;   ///< of whose end Slurm can be asked; empty outside Slurm
    std::string slurm_step_id;  ///< the step of it, where there is one
    MpiChoice mpi;          ///< decided after make_plan(): it takes a look at the program's file
    OutputChoice output;    ///< so is this
    PreloadChoice preload;  ///< and this
    ContainerChoice container;  ///< and this
    StagingChoice staging;      ///< and this
};

/// What is known only once a generation has its sockets.
struct GenerationFacts {
    int generation = 0;
    std::string master_addr;
    std::uint16_t master_port = 0;
    std::string socket_path;  ///< the agent's session socket
    std::string trainer_config_path;
    std::string run_dir;
    std::string store_address = {};  ///< "host:port" of this node's way to the store
    std::string store_token = {};    ///< a secret of this generation; keys of ours begin with it
};

/// What NCCL's settings depend on besides the machine, read at the edge.
struct NcclSite {
    NcclConf conf = {};
    std::optional<NcclProfile> profile = {};
    std::string rendezvous_interface =
        {};  ///< of this node, towards the head; empty: not known yet, or one node
    bool rendezvous_is_ipv6_only = false;
    std::vector<std::string> warnings = {};  ///< of files that the user's settings name
};

/// What NCCL will find of the user's settings: the spec over `environment`.
EnvironmentMap settings_of_user(const JobSpec& spec, const EnvironmentMap& environment);

/// Pure. Takes what the user asked for, what the scheduler gave, what the machine has and who takes
/// part (the roster, whose entry for this node says how many ranks are here); starts nothing.
/// `environment` is the launcher's own. Throws Error{invalid_argument} with what to change when it
/// cannot be done.
LaunchPlan make_plan(const JobSpec& spec, const Allocation& allocation,
                     const NodeTopology& topology, const Roster& roster,
                     const EnvironmentMap& environment, const std::string& current_dir,
                     const NcclSite& nccl = {});

/// The same for a machine that is not here (its topology was saved there): `spec.resources.nodes`
/// of it, all alike, of which this is the first. What a scheduler grants on this machine does not
/// count. Pure.
LaunchPlan plan_saved_machine(const JobSpec& spec, const NodeTopology& topology,
                              const std::string& file, const EnvironmentMap& environment,
                              const std::string& current_dir, const NcclSite& nccl = {});

/// The complete environment of one rank in one generation, "NAME=value" each: inherited, plus
/// planned, plus facts.
std::vector<std::string> rank_environment(const LaunchPlan& plan, const RankPlan& rank,
                                          const GenerationFacts& facts,
                                          const EnvironmentMap& inherited);

/// One line of the table below, of this node: "8 of 32 ranks here · mode exclusive · 2 NUMA nodes ·
/// 8 GPUs".
std::string describe_placement(const LaunchPlan& plan);

/// For people and for programs: `autolaunch plan` and `autolaunch plan --json`. Secrets are *** in
/// both unless they are to be shown.
std::string plan_table(const LaunchPlan& plan, Secrets secrets = Secrets::mask);
std::string plan_json(const LaunchPlan& plan, Secrets secrets = Secrets::mask);

}  // namespace autolaunch::launcher
