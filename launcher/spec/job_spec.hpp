#pragma once
#include "base/workspace.hpp"
#include "causes/cause.hpp"
#include "spec/alert_spec.hpp"
#include "spec/container_spec.hpp"
#include "spec/kubernetes_spec.hpp"
#include "spec/rendezvous_spec.hpp"
#include "spec/secret_spec.hpp"
#include "spec/storage_spec.hpp"
#include "spec/tier_spec.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

struct SiteRecord;

// What the user asked for: train.yaml, after includes, ${VAR} and command-line overrides. Plain
// data; a field that was not given keeps the default shown here. One struct a section, named as the
// section.

/// Who gets what comes in on autolaunch's stdin.
struct InputSpec {
    enum class To { none, rank, all };
    To to = To::rank;
    int rank = 0;         ///< with To::rank
    bool chosen = false;  ///< by the user; only then a terminal is meant, too
    bool operator==(const InputSpec&) const = default;
};

/// What Python ranks have imported before they are forked from one interpreter.
struct PreloadSpec {
    enum class How { unset, off, automatic, listed };
    How how = How::unset;              ///< as automatic, where a run with it has gone well
    std::vector<std::string> modules;  ///< with How::listed
    bool operator==(const PreloadSpec&) const = default;
};

struct TrainerSpec {
    std::vector<std::string> command;  ///< argv; a shell line becomes {"/bin/sh", "-c", line}
    std::string module;                ///< `python -m module`, with `command` as its arguments
    std::string workdir;               ///< empty: where autolaunch was started
    std::map<std::string, std::string> env;  ///< wins over everything autolaunch would set
    std::string mpi = "auto";                ///< auto, none, pmix, pmi1
    InputSpec input;
    /// Commands around the program, by ranks: "0,3-5" or "all".
    std::map<std::string, std::string> wrap;
    PreloadSpec preload;
    /// Where what they import is read from: shared, its own file system; or node, copies on the
    /// node that were read once for all nodes.
    std::string preload_from = "shared";
    std::string preload_cache;  ///< the folder of these copies; empty: below /var/tmp
};

/// One program of several in one job, mpirun's `:`.
struct ProgramSpec {
    std::vector<std::string> command;
    int ranks = 1;
    std::string role;
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
    int most_nodes = 1;         ///< of --nnodes MIN:MAX; else as many
    int spare_nodes = 0;        ///< join, and take part once another node is lost
    int node_group = 1;         ///< nodes that take part together or not at all
    std::string grow = "next";  ///< now: nodes that come take part at once; next: when a generation
                                ///< ends anyway
    bool nodes_given = false;   ///< by --nnodes or PET_NNODES, also where it is 1
    std::optional<int> gpus_per_node;
    std::optional<int>
        total_ranks;  ///< -np, --ntasks; spread evenly where no number a node is given
    bool virtual_local_rank = false;  ///< LOCAL_RANK is 0, and its own GPU is all that a rank sees
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

struct SlurmSpec {  // what `autolaunch submit` asks for; a job that runs inside an allocation only
                    // checks it
    std::string job_name, partition, time_limit, account, qos, constraint, gres, reservation,
        nodelist, exclude;
    std::string mail_user, mail_type, output, error, signal;
    std::optional<int> nodes, ntasks_per_node, cpus_per_task, gpus_per_node;
    std::string mem;
    std::optional<bool> exclusive, requeue;
    std::string array, dependency, licenses, switches;
    std::optional<int> array_throttle;
    std::vector<std::string> extra_args;
    // What the batch script does before it starts autolaunch.
    std::vector<std::string> modules, setup;
    std::string venv, conda;
};

/// What a stage of a pipeline waits for: the end of another one.
struct StageAfter {
    std::string stage;
    std::string how;  ///< ok, any, notok, corr: Slurm's afterok and so on

    bool operator==(const StageAfter&) const = default;
};
/// One job of several that `autolaunch submit` hands over together.
struct StageSpec {
    std::string name;
    std::string spec;  ///< its file, as written
    std::vector<StageAfter> after;

    bool operator==(const StageSpec&) const = default;
};

struct CheckpointSpec {
    bool enabled = false;
    std::string checkpoint_dir;
    std::optional<std::int64_t> every_steps;
    std::optional<int> keep;
    bool pass_over_unusable = false;  ///< the trainer's, as the rest of it
    std::optional<std::int64_t>
        memory_limit_bytes;  ///< of copies in memory, a node; nothing: half of its memory
    std::string every;       ///< save_interval_from()
    std::optional<std::int64_t> keep_every;
    std::optional<int> keep_best;
    std::string better;  ///< lower or higher, of the metric; empty: the trainer's word
    std::optional<bool> node_local;
    std::string drain;  ///< the second place, a directory or s3://…
    std::optional<int> drain_keep;
    std::vector<TierSpec> tiers;  ///< in place of `drain`, several
    StripeSpec stripe;
    std::chrono::milliseconds drain_wait{-1};  ///< below 0: the trainer's word
    std::string restore_from, model_save_format;
    std::string signing_key;  ///< a file
    std::optional<bool> save_consolidated;
    std::vector<std::string> recipients;  ///< public keys of age that files are encrypted for
    std::string recipients_file;          ///< more of them, one a line
    std::string identity_file, authentication_key_file;  ///< secret keys, by the files' names alone
    std::string identity_secret;     ///< or the name of the job's secret that has the first
    bool must_be_encrypted = false;  ///< the administrator's file says so; no key of a spec
};

struct MonitoringSpec {
    std::string log_path;  ///< parent of the run directory; empty: ./runs
    bool slurm_integration = false;
    std::optional<bool> resource_tracking;  ///< nothing: of jobs that run for a moment
    std::optional<double> interval_seconds;
    std::string textfile_directory;         ///< node_exporter's; empty: none
    std::string metrics_listen;             ///< "control", or an address; empty: nobody is served
    std::optional<int> metrics_port;        ///< 0: one that is free
    std::string metrics_targets_directory;  ///< for Prometheus' file_sd; empty: none
};

/// What follows from how a generation ended.
enum class RestartAction {
    restart,  ///< on the same nodes
    requeue,  ///< exit code 75: the scheduler starts the job again
    stop,
};
/// "3 per 6h"
struct WindowLimit {
    int times = 0;
    std::chrono::milliseconds within{0};
    bool operator==(const WindowLimit&) const = default;
};
/// What the spec says of one cause; the rest is restart_policy's default.
struct CauseRules {
    std::optional<int> budget;
    std::optional<WindowLimit> window;
    std::optional<std::chrono::milliseconds> delay;
    std::optional<double> backoff;
    std::optional<RestartAction> action;
    bool elsewhere = false;  ///< a restart leaves out the node where it ended
    bool operator==(const CauseRules&) const = default;
};
using RestartRules = std::map<Cause, CauseRules>;

/// When a job that stands still is ended; `restart_policy/hang_limit.hpp` says what follows.
struct HangAfter {
    bool automatic = true;
    std::optional<std::chrono::milliseconds> after;  ///< nothing, and not automatic: never
    bool operator==(const HangAfter&) const = default;
};

inline constexpr char kReplaceStragglers[] = "replace";

struct RestartSpec {
    int max_restarts = 0;
    bool as_torchrun = false;                        ///< --max-restarts said so
    std::chrono::milliseconds grace_period{15'000};  ///< between SIGTERM and SIGKILL
    std::chrono::milliseconds backoff{0};            ///< before the next generation
    /// Between the SIGTERM and the SIGKILL of whoever runs the job; 0: as the scheduler says.
    std::chrono::milliseconds kill_wait{0};
    std::string stop_signal = "term";  ///< that the program saves and stops on: usr1, …
    HangAfter hang_after;
    /// warn, replace or off: of ranks for which the others wait
    std::string straggler = "warn";
    bool check_nodes = true;      ///< those that stay, after a failure that may be a machine's
    bool warm_processes = false;  ///< beside each rank one that can take its place
    RestartRules on;
};

/// A choice of streams, with the numbers of torchrun's -t and -r: 1 stdout, 2 stderr, 3 both.
enum class StdStreams : std::uint8_t { none = 0, out = 1, err = 2, all = 3 };

struct LoggingSpec {
    StdStreams console_default = StdStreams::all;  ///< streams shown on the console
    std::map<int, StdStreams>
        console_by_local_rank;            ///< from -t/--tee and -r/--redirects in map form
    std::vector<int> local_ranks_filter;  ///< console shows only these; empty: all
    std::string stdio = "file";           ///< what ranks write to: file or pty
    bool line_buffered = true;            ///< programs are made to write whole lines to files
    bool fold = true;                     ///< "ranks 0-7 ×8" for lines that all ranks print alike
    bool prefix = true;                   ///< [node rank] before each line
    std::string prefix_template;          ///< in its place, with torchrun's ${rank} and so on
    bool progress = true;                 ///< the bar, when the trainer reports steps to a terminal
    bool quiet = false;                   ///< no banner
};

/// How the run directory and checkpoints are made (base/workspace.hpp).
struct WorkspaceSpec {
    std::optional<std::uint32_t> mode;  ///< of folders; nothing: 0750 less the umask
    std::string group;                  ///< by name or number; empty: the process's
    bool open_parents = false;
    std::optional<std::uint32_t> group_number;  ///< of `group`, as this node knows it
    /// The administrator's data_isolation: no folder is more open than that; and where he says so.
    std::optional<std::uint32_t> most;
    std::string most_by;
};

/// As the launcher and its ranks make them: the spec's word, as far as the administrator lets it.
Workspace workspace_of(const WorkspaceSpec& spec);

/// The whole spec.
struct JobSpec {
    TrainerSpec trainer;
    ContainerSpec container;
    DistributedSpec distributed;
    ModelSizeSpec model_size;
    ResourceSpec resources;
    NcclSpec nccl;
    RendezvousSpec rendezvous;
    SlurmSpec slurm;
    KubernetesSpec kubernetes;
    CheckpointSpec checkpoint;
    WorkspaceSpec workspace;
    StorageSpec storage;
    MonitoringSpec monitoring;
    RestartSpec restart;
    LoggingSpec logging;
    std::vector<StageSpec> pipeline;  ///< each behind those that it comes after; else no job of it
    std::vector<SecretSpec> given_secrets;  ///< section `secrets`: where they come from, no values

    // From the command line alone.
    std::string name;     ///< shown in the banner: slurm_config.job_name, else the program's name
    std::string run_id;   ///< --rdzv-id; empty: the scheduler's job id, else random
    std::string run_dir;  ///< --log-dir: the run directory itself
    std::string role = "default";
    std::vector<ProgramSpec> programs;  ///< where there are several; trainer.command is the first's
    std::vector<int>
        stop_signals;  ///< --signals-to-handle; empty: SIGTERM, SIGINT, SIGHUP, SIGQUIT
    std::string local_addr;
    std::optional<int> node_rank;
    bool standalone = false;        ///< this node alone, whatever the scheduler gave
    std::optional<int> debug_rank;  ///< it gets the terminal
    std::string spec_file;          ///< path of train.yaml, empty without one
    /// Of what must be equal on all nodes of a job: the bytes of the spec's files (as written: a
    /// ${VAR} may differ), overrides, and options that concern the whole job.
    std::uint64_t source_digest = 0;

    /// What variables with secret names hold: masked in all that is shown or recorded.
    std::vector<std::string> secrets;

    /// Where Vault is, by the administrator's file or by the job's own section of that name.
    VaultSpec vault;
    AlertSpec alerts;  ///< of the site's settings and of the spec's own
    /// authentication.method is kerberos, of the administrator's file or of the job's sections: a
    /// ticket is looked for, and renewed.
    bool uses_kerberos = false;

    /// What the administrator's file says for this job (spec/site_record.hpp); may be null.
    std::shared_ptr<const SiteRecord> site;

    /// JSON text of what the trainer reads untouched: model, dataloader, step_scheduler, optimizer,
    /// trainer.config, every other section with a _target_, and `distributed` and `checkpoint` as
    /// given.
    std::string trainer_config = "{}";
};

}  // namespace autolaunch::launcher
