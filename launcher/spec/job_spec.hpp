#pragma once
#include "spec/rendezvous_spec.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

// What the user asked for: train.yaml, after includes, ${VAR} and command-line overrides. Plain
// data; a field that was not given keeps the default shown here. One struct a section, named as the
// section.

struct TrainerSpec {
    std::vector<std::string> command;  ///< argv; a shell line becomes {"/bin/sh", "-c", line}
    std::string module;                ///< `python -m module`, with `command` as its arguments
    std::string workdir;               ///< empty: where autolaunch was started
    std::map<std::string, std::string> env;  ///< wins over everything autolaunch would set
    std::string mpi = "auto";                ///< auto, none, pmix, pmi1
};

struct DistributedSpec {
    /// full_shard, shard_grad_op, shard_optimizer, no_shard, hybrid_shard; empty: the trainer's own
    std::string sharding_strategy;
    std::string mixed_precision;  ///< the trainer's to read: no, bf16, fp16, fp8
    std::string backend;          ///< nccl, gloo, mpi, shm, …; empty: the trainer's own
};

/// For the prediction of memory.
struct ModelSizeSpec {
    std::optional<std::int64_t> parameters;  ///< always there where anything else is
    std::optional<std::int64_t> layers, hidden, vocabulary;
    std::string optimizer;  ///< adamw, lion, sgd, none; empty: not said
    bool offload_optimizer = false;
    bool deterministic = false;
    std::optional<std::int64_t> micro_batches = {};
};

/// `unset`: one a GPU, or one where there are none. The others are torchrun's auto (one a GPU, or
/// one a CPU where there are none), cpu, gpu and N.
enum class RanksPerNode { unset, automatic, cpu, gpu, fixed };

struct ResourceSpec {
    int nodes = 1;
    bool nodes_given = false;  ///< by --nnodes or PET_NNODES, also where it is 1
    std::optional<int> gpus_per_node;
    RanksPerNode ranks_mode = RanksPerNode::unset;
    int ranks_per_node = 0;  ///< with RanksPerNode::fixed
    bool ranks_of_each_launcher =
        false;  ///< the number came from --nproc-per-node: torchrun's, each launcher's own
    std::optional<std::int64_t> memory_per_gpu_bytes;
    std::optional<int> cpu_cores_per_gpu;
    std::string binding = "node";  ///< node, exclusive, socket, core-complex, none
    std::vector<std::string>
        binding_list;  ///< instead of a word: what each local rank gets; empty: not given
};

struct NcclSpec {
    bool manage = true;  ///< false: set no NCCL variable at all
    std::string profile = "auto";
    std::map<std::string, std::string> env;  ///< NCCL_* as the user wants them
};

struct SlurmSpec {  // what a submission would ask for; a job that runs inside an allocation only
                    // checks it
    std::string job_name, partition, time_limit, account, qos, constraint, gres, reservation,
        nodelist, exclude;
    std::string mail_user, mail_type, output, error, signal;
    std::optional<int> nodes, ntasks_per_node, cpus_per_task, gpus_per_node;
    std::string mem;
    std::optional<bool> exclusive, requeue;
    std::vector<std::string> extra_args;
};

struct CheckpointSpec {
    bool enabled = false;
    std::string checkpoint_dir;
    std::optional<std::int64_t> every_steps;
    std::optional<int> keep;
    bool pass_over_unusable = false;  ///< the trainer's, as the rest of it
    std::optional<std::int64_t>
        memory_limit_bytes;  ///< of copies in memory, a node; nothing: half of its memory
    std::string restore_from, model_save_format;
    std::optional<bool> save_consolidated;
};

struct MonitoringSpec {
    std::string log_path;  ///< parent of the run directory; empty: ./runs
    bool slurm_integration = false;
    bool resource_tracking = false;
    std::optional<double> interval_seconds;
};

struct RestartSpec {
    int max_restarts = 0;
    std::chrono::milliseconds grace_period{15'000};  ///< between SIGTERM and SIGKILL
    std::chrono::milliseconds backoff{0};            ///< before the next generation
};

/// A choice of streams, with the numbers of torchrun's -t and -r: 1 stdout, 2 stderr, 3 both.
enum class StdStreams : std::uint8_t { none = 0, out = 1, err = 2, all = 3 };

struct LoggingSpec {
    StdStreams console_default = StdStreams::all;  ///< streams shown on the console
    std::map<int, StdStreams>
        console_by_local_rank;            ///< from -t/--tee and -r/--redirects in map form
    std::vector<int> local_ranks_filter;  ///< console shows only these; empty: all
    bool fold = true;                     ///< "ranks 0-7 ×8" for lines that all ranks print alike
    bool prefix = true;                   ///< [node rank] before each line
    bool progress = true;                 ///< the bar, when the trainer reports steps to a terminal
    bool quiet = false;                   ///< no banner
};

/// The whole spec.
struct JobSpec {
    TrainerSpec trainer;
    DistributedSpec distributed;
    ModelSizeSpec model_size;
    ResourceSpec resources;
    NcclSpec nccl;
    RendezvousSpec rendezvous;
    SlurmSpec slurm;
    CheckpointSpec checkpoint;
    MonitoringSpec monitoring;
    RestartSpec restart;
    LoggingSpec logging;

    // From the command line alone.
    std::string name;     ///< shown in the banner: slurm_config.job_name, else the program's name
    std::string run_id;   ///< --rdzv-id; empty: the scheduler's job id, else random
    std::string run_dir;  ///< --log-dir: the run directory itself
    std::string role = "default";
    std::vector<int>
        stop_signals;  ///< --signals-to-handle; empty: SIGTERM, SIGINT, SIGHUP, SIGQUIT
    std::string local_addr;
    std::optional<int> node_rank;
    bool standalone = false;  ///< this node alone, whatever the scheduler gave
    std::string spec_file;    ///< path of train.yaml, empty without one
    /// Of what must be equal on all nodes of a job: the bytes of the spec's files (as written: a
    /// ${VAR} may differ), overrides, and options that concern the whole job.
    std::uint64_t source_digest = 0;

    /// What variables with secret names hold: masked in all that is shown or recorded.
    std::vector<std::string> secrets;

    /// JSON text of what the trainer reads untouched: model, dataloader, step_scheduler, optimizer,
    /// trainer.config, every other section with a _target_, and `distributed` and `checkpoint` as
    /// given.
    std::string trainer_config = "{}";
};

}  // namespace autolaunch::launcher
