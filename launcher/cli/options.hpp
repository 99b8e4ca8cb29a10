#pragma once
#include "accounting/read_accounts.hpp"
#include "audit/audit_command.hpp"
#include "checkpoints/checkpoint_command.hpp"
#include "doctor/doctor_options.hpp"
#include "oidc/device_flow.hpp"
#include "policy/policy_command.hpp"
#include "render/render_command.hpp"
#include "secrets/secrets.hpp"
#include "submission/sweep_command.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Options that say what a job is like, as given: torchrun's, with torchrun's meanings.
/// job_options.hpp reads them.
struct JobOptions {
    std::optional<std::string> nnodes, spare_nodes, nproc_per_node, max_restarts, node_rank,
        master_addr, master_port, rdzv_endpoint, rdzv_id, rdzv_conf, rdzv_backend, redirects, tee,
        log_dir, local_ranks_filter, role, numa_binding, mpi, preload, preload_from, stdio,
        signals_to_handle, local_addr, shutdown_timeout, log_line_prefix_template, input,
        debug_rank, gdb_rank;
    std::vector<std::string> wrap;  ///< RANKS=COMMAND each
    std::optional<bool> standalone, module, no_python, run_path, quiet, no_prefix,
        no_line_buffering, virtual_local_rank;
    // mpirun's and srun's, with their meanings.
    std::optional<std::string> ntasks, bind_to, map_by, host, wdir;
    std::vector<std::string> exported;  ///< -x NAME or -x NAME=VALUE
};

/// One program more of a job of several: mpirun's `:`.
struct ProgramLine {
    JobOptions options;
    std::vector<std::string> program;
};

/// Of `autolaunch submit`.
struct SubmitOptions {
    std::string to = "slurm";  ///< or a kind of manifest, which is printed
    std::string earlier_run;   ///< --run, of manifests
    bool hold = false, wait = false, snapshot = false;
    bool stage_first = false;  ///< a small job before it brings its data
};

enum class Command {
    run,
    plan,
    submit,
    sweep,
    validate,
    schema,
    topo,
    lint,
    doctor,
    ckpt,
    report,
    clean,
    drain,
    attach,
    top,
    policy,
    render,
    audit,
    login,
    gc,
    stage_out,
    stage_in,
    completion,
    help,
    version
};

/// What was typed behind `autolaunch gc`.
struct GcOptions {
    bool apply = false, epilog = false;
    bool shared = false;  ///< of the site's shared cache
    std::string scratch, older_than, state = "any";
    std::vector<std::string> folders = {};  ///< run directories, or folders that have such
};

/// What was typed behind `autolaunch stage-out`.
struct StageOutOptions {
    bool list = false, discard = false, even_failed = false, overwrite = false;
    std::string layout = "flat";
    std::vector<std::string> jobs = {};
};

/// What was typed behind `autolaunch stage-in`.
struct StageInOptions {
    bool shared = false;           ///< into the site's shared cache
    bool readable_by_all = false;  ///< his word for what a server gives
};

/// What the user typed, taken apart but not yet judged.
struct CommandLine {
    Command command = Command::run;
    std::string spec_file;  ///< -c
    std::vector<std::string> overrides;
    std::vector<std::string> program;        ///< PROGRAM and its arguments
    bool separated = false;                  ///< by --, from what comes before
    std::vector<ProgramLine> more_programs;  ///< after each `:`
    JobOptions options;                      ///< of the command line
    JobOptions defaults;                     ///< of PET_* variables; weaker than the spec
    std::vector<std::string>
        notes;  ///< options that were accepted without effect, one sentence each
    Secrets secrets = Secrets::mask;  ///< --show-secrets of plan and validate
    bool json = false;                ///< of every subcommand that prints for people
    std::string topology_file;        ///< plan --topology FILE, topo FILE
    DoctorOptions doctor;
    CheckpointRequest checkpoints;
    PolicyRequest policy;
    RenderRequest render;
    AuditRequest audit;
    AccountsRequest accounts;
    oidc::LoginRequest login;
    SubmitOptions submit;
    SweepRequest sweep;
    GcOptions gc;
    StageOutOptions stage_out;  ///< its --scratch is gc.scratch
    StageInOptions stage_in;
    bool svg = false;         ///< topo --svg
    bool markdown = false;    ///< schema --markdown, lint --rules --markdown
    bool rules = false;       ///< lint --rules
    std::string lint_kind;    ///< lint --kind
    std::string slurm_conf;   ///< lint --slurm-conf
    std::string help;         ///< for Command::help
    std::string shell;        ///< for Command::completion
    std::string html_file;    ///< report --html
    std::string job;          ///< clean --job, drain --job
    std::string secret_file;  ///< drain, attach, top --secret-file
    bool dry_run = false;     ///< clean, submit, sweep --dry-run
    bool drain = false;       ///< run --drain, clean --drain
    bool take_back = false;   ///< drain --take-back
    bool once = false;        ///< top --once
    bool replay = false;      ///< top --replay
};

/// By their words, `run` among them.
const std::map<std::string, Command>& subcommands();

/// `arguments` without the program's own name. Pure; throws UsageError.
CommandLine parse_command_line(const std::vector<std::string>& arguments,
                               const std::map<std::string, std::string>& environment);

}  // namespace autolaunch::launcher
