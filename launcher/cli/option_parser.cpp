#include "cli/option_parser.hpp"

#include "base/text.hpp"
#include "cli/other_launchers.hpp"
#include "exit_codes/exit_error.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <utility>

namespace autolaunch::launcher {

namespace {

/// Options of torchrun that are accepted, so that scripts keep working, and why they change
/// nothing.
struct IdleOption {
    const char* name;
    const char* why;
};
constexpr std::array<IdleOption, 6> kIdleOptions = {{
    {"--monitor-interval", "a rank's end is noticed at once, without polling"},
    {"--start-method", "ranks are always started by fork and exec"},
    {"--event-log-handler", "events are always in the run directory's events.jsonl"},
    {"--logs-specs", "each rank's output is always in the run directory"},
    {"--duplicate-stdout-filters", "each rank's output is in a file of its own"},
    {"--duplicate-stderr-filters", "each rank's output is in a file of its own"},
}};
/// The same, of mpirun and srun, without a value.
constexpr std::array<IdleOption, 5> kIdleFlags = {{
    {"--oversubscribe", "there are as many ranks as asked for, however few CPUs there are"},
    {"--use-hwthread-cpus", "there are as many ranks as asked for, however few CPUs there are"},
    {"--allow-run-as-root", "autolaunch runs as whoever starts it"},
    {"--tag-output", "each line has its rank in front"},
    {"--label", "each line has its rank in front"},
}};

constexpr const char* kRunUsage =
    "autolaunch -c FILE [KEY=VALUE ...] [OPTIONS] [-- PROGRAM ARGS]\n"
    "       autolaunch [OPTIONS] PROGRAM [ARGS]\n"
    "       autolaunch "
    "{run|plan|submit|sweep|topo|validate|schema|lint|doctor|ckpt|report|clean|gc|stage-in|stage-"
    "out|drain|attach|"
    "top|policy|render|audit|login} --help";
constexpr const char* kRunExamples =
    "Examples:\n"
    "  autolaunch -c train.yaml                             what the spec says\n"
    "  autolaunch -c train.yaml restart.max_restarts=3      the same, with one key changed\n"
    "  autolaunch -c train.yaml -- python3 other.py         the same, with another program\n"
    "  autolaunch --nproc-per-node 4 train.py --lr 3e-4     as torchrun\n"
    "  autolaunch plan -c train.yaml                        where each rank would run, and why\n"
    "\n"
    "Dashes or underscores; PET_NNODES and so on give defaults. What follows PROGRAM is PROGRAM's.";

struct Words {
    const char* description;
    const char* usage;
    const char* footer;
};
Words words_of(Command command) {
    switch (command) {
        case Command::plan:
            return {"Shows what would be started, where and why, and starts nothing.",
                    "autolaunch plan -c FILE [KEY=VALUE ...] [OPTIONS] [-- PROGRAM ARGS]\n"
                    "       autolaunch plan [OPTIONS] PROGRAM [ARGS]",
                    "Examples:\n"
                    "  autolaunch plan -c train.yaml                    here and now\n"
                    "  autolaunch plan --topology dgx.xml --nodes 4     on four machines like the "
                    "saved one"};
        case Command::submit:
            return {
                "Submits a job to Slurm: slurm_config of the spec becomes a batch script, and "
                "the spec is stored as it\nis now, so that the job goes by it whenever it "
                "starts. docs/guides/submit.md. Or prints what runs it on\nKubernetes. "
                "docs/guides/kubernetes.md.",
                "autolaunch submit -c FILE [KEY=VALUE ...] [OPTIONS] [-- PROGRAM ARGS]",
                "Prints the job's number on stdout, all else on stderr. Exits with 0; 65 where "
                "the spec is wrong; 69\nwhere Slurm refuses the job, in its own words, or does "
                "not answer; 77 where the administrator's file\nforbids it; with --wait with "
                "the job's own code.\n\n"
                "Examples:\n"
                "  autolaunch submit -c train.yaml --dry-run            the script, for "
                "reading\n"
                "  autolaunch submit -c train.yaml slurm_config.nodes=8\n"
                "  job=$(autolaunch submit -c train.yaml)\n"
                "  autolaunch submit -c train.yaml --to jobset | kubectl apply -f -"};
        case Command::sweep:
            return {
                "How the elements of a sweep do, the best first, and those that failed again. "
                "docs/guides/submit.md.",
                "autolaunch sweep status SWEEP [--json]\n"
                "       autolaunch sweep resubmit SWEEP [ELEMENT...] [--dry-run] [--json]",
                "SWEEP is the folder that autolaunch submit told of, or the array's number in the "
                "folder where it was\nsubmitted. resubmit prints the number of the new array on "
                "stdout. Exits with 0; 66 where there is no\nsweep; 69 where Slurm refuses the "
                "array, in its own words, or does not answer.\n\n"
                "Examples:\n"
                "  autolaunch sweep status 4711\n"
                "  autolaunch sweep resubmit runs/.submitted/gpt-20261129-120000-a247"};
        case Command::validate:
            return {
                "Checks a spec. Lists every error with file:line:column; exits with 0 when there "
                "is none.",
                "autolaunch validate FILE [KEY=VALUE ...]",
                "Examples:\n  autolaunch validate train.yaml\n  autolaunch validate train.yaml "
                "model.layers=4"};
        case Command::topo:
            return {"Draws a machine: packages, NUMA nodes, GPUs, HCAs and the paths between them.",
                    "autolaunch topo [--json|--svg] [FILE]",
                    "FILE is a machine saved elsewhere: by lstopo FILE.xml, NCCL_TOPO_DUMP_FILE, "
                    "`nvidia-smi topo -m`, "
                    "or a\n"
                    "folder with its sys and proc (docs/captures.md).\n\n"
                    "Examples:\n  autolaunch topo\n  autolaunch topo --svg dgx.xml > dgx.svg"};
        case Command::schema:
            return {"Prints the JSON Schema of a spec, so that editors complete and check it.",
                    "autolaunch schema [--markdown]",
                    "Examples:\n  autolaunch schema > train.schema.json"};
        case Command::lint:
            return {
                "Names the mistakes in batch scripts, specs, gres.conf, slurm.conf, documents and "
                "metrics. Runs "
                "nothing.",
                "autolaunch lint [OPTIONS] FILE...\n       autolaunch lint --rules [--markdown]",
                "Exits with 0 when there is nothing, or only info, and with 1 otherwise.\n"
                "A comment `autolaunch-lint: ignore=RULE` silences a rule on its line and on the "
                "next.\n\n"
                "Examples:\n  autolaunch lint job.sh train.yaml\n"
                "  autolaunch lint --slurm-conf /etc/slurm/slurm.conf job.sh"};
        case Command::doctor:
            return {
                "Checks whether this node, or under srun all nodes of the job, are fit for a job. "
                "docs/doctor.md has\n"
                "the checks. Exits with 0 when they are, 78 when not, and with --fail-on warn 1 on "
                "warnings.",
                "autolaunch doctor [-c FILE [KEY=VALUE ...]] [OPTIONS]",
                "Examples:\n  autolaunch doctor\n  srun autolaunch doctor -c train.yaml\n"
                "  autolaunch doctor --health-check --drain"};
        case Command::ckpt:
            return {"Looks at checkpoints, and makes others of them. docs/ckpt.md has all of it.",
                    "autolaunch ckpt ls DIR | -c FILE [--json]\n"
                    "       autolaunch ckpt show PATH | -c FILE [--tensors] [--only NAMES] "
                    "[--json]\n"
                    "       autolaunch ckpt verify PATH... | -c FILE [--json]\n"
                    "       autolaunch ckpt diff PATH PATH [--only NAMES] [--json]\n"
                    "       autolaunch ckpt export PATH OUT [--dtype TYPE] [--all] [--only NAMES] "
                    "[--max-file-size SIZE]\n"
                    "       autolaunch ckpt reshard PATH DIR --ranks N [--dtype TYPE] [--recipient "
                    "KEYS]\n"
                    "       autolaunch ckpt prune DIR --keep K [--every N] [--dry-run]\n"
                    "       autolaunch ckpt convert SOURCE DIR [--step N] [--ranks N] [--python "
                    "PROGRAM]\n"
                    "       autolaunch ckpt keygen FILE [--signing | --vault-transit MOUNT/KEY]",
                    "PATH is a checkpoint, or a directory of checkpoints, whose newest complete "
                    "one is meant; it may be "
                    "in\n"
                    "a bucket, s3://bucket/prefix. DIR may for ls and prune.\n"
                    "Exits with 0; 1 when verify finds damage or diff a difference; 65 when a file "
                    "is not what it\n"
                    "should be; 66 when there is none.\n\n"
                    "Examples:\n"
                    "  autolaunch ckpt verify runs/a/checkpoints\n"
                    "  autolaunch ckpt export runs/a/checkpoints model.safetensors --dtype bf16"};
        case Command::report:
            return {
                "Shows what happened in runs: timeline, where the time went, failures, "
                "throughput and placement.",
                "autolaunch report RUN_DIR... [--json] [--html FILE]\n       autolaunch report "
                "--since TIME [--by user|account] [--rate PRICES] [--csv|--json] [FOLDER...]",
                "Of a job that goes on: what happened so far. docs/report.md has the keys of "
                "--json.\n\n"
                "Examples:\n  autolaunch report runs/latest\n"
                "  autolaunch report runs/* --html week.html"};
        case Command::drain:
            return {
                "Takes a node out of a running job that may do without it: its ranks save, and a "
                "spare takes over\nor the job goes on with fewer nodes. docs/recovery.md.",
                "autolaunch drain NODE [--job JOB] [--take-back] [--secret-file FILE]",
                "NODE is named as in the job's messages. JOB is a run directory, or the name or id "
                "of one in runs/\n(default runs/latest). Exits with 0 when the node is left; 68 "
                "when "
                "nobody answers or the job has no\nsuch node; 69 when it cannot be left; 77 with "
                "another key than the job's.\n\n"
                "Examples:\n  autolaunch drain node7\n  autolaunch drain node7 --job runs/4711\n  "
                "autolaunch drain node7 --take-back"};
        case Command::attach:
            return {"Shows the console of a running job, which it leaves as it is. Ctrl-C ends it.",
                    "autolaunch attach [JOB] [--secret-file FILE]",
                    "JOB is a run directory, or the name or id of one in runs/ (default "
                    "runs/latest). On any node that has\nthe job's key: AUTOLAUNCH_JOB_KEY, "
                    "--secret-file, MUNGE, or the key file in the run directory. Exits\nwith the "
                    "job's code where it ends meanwhile, with 0 after Ctrl-C; 68 when nobody "
                    "answers; 77 with\nanother key than the job's.\n\n"
                    "Examples:\n  autolaunch attach\n  autolaunch attach runs/4711\n"
                    "autolaunch top runs/4711 shows all its ranks, on the whole screen."};
        case Command::top:
            return {
                "Shows a running job on the whole screen, once a second anew: its ranks by node, "
                "with steps, waits,\nGPUs and memory, and the log of one. The job does not notice. "
                "docs/guides/top.md.",
                "autolaunch top [RUN|JOB] [--secret-file FILE]\n"
                "       autolaunch top [RUN|JOB] --replay\n"
                "       autolaunch top [RUN|JOB] --once [--json]",
                "RUN is a run directory, JOB the name or id of one in runs/ (default runs/latest). "
                "What this machine does\nnot see of a running job is asked of its head, as attach "
                "does: with the job's key. Exits with 0; 66 where\nthere is no such run; 65 where "
                "it has no events; 68 when nobody answers; 77 with another key than\nthe job's.\n\n"
                "Examples:\n  autolaunch top\n  autolaunch top runs/4711 --replay\n"
                "  autolaunch top --once --json | jq '.ranks[] | select(.straggler)'"};
        case Command::policy:
            return {
                "Shows what the administrator's file (/etc/autolaunch/site.yaml) says and whether "
                "it holds, writes\nits roles as limits of Slurm and a firewall for the jobs' "
                "ports, and compares them with the cluster. docs/site.md.",
                "autolaunch policy show [--site FILE] [--json]\n"
                "       autolaunch policy render slurm DIR [--site FILE]\n"
                "       autolaunch policy render nftables DIR --interface IF --network "
                "nodes=CIDR [--site FILE]\n"
                "       autolaunch policy diff [--site FILE] [--json]",
                "FILE is a draft: no job goes by it. diff exits with 0 when the cluster has what "
                "the file says, 1 when\nnot, 69 when Slurm does not answer; 66 where there is no "
                "file, 78 where it does not count.\n\n"
                "Examples:\n  autolaunch policy show\n  autolaunch policy render slurm limits\n"
                "  autolaunch policy diff"};
        case Command::render:
            return {
                "Writes what other programs need to watch jobs, GPUs, nodes and Slurm: rules with "
                "their tests for\nPrometheus, Alertmanager's configuration, dashboards for "
                "Grafana, Prolog and Epilog for Slurm.\ndocs/guides/monitoring.md.",
                "autolaunch render {prometheus|alertmanager|grafana|slurm} [FILE...] [--output "
                "DIR] [OPTIONS]",
                "Without --output the texts are printed: all, or the FILEs of the target. With it "
                "they are written, and a\nfile there that has another content stays, unless "
                "--force. Exits with 0; 73 where they cannot be written,\nor would replace "
                "another content; 65 where alerting.channels is wrong; 66 where there is none.\n\n"
                "Examples:\n  autolaunch render prometheus --output /etc/prometheus\n"
                "  autolaunch render grafana autolaunch-job.json\n"
                "  autolaunch render alertmanager --site draft.yaml"};
        case Command::audit:
            return {
                "Checks audit trails, and shows what they say: that every line follows the one "
                "before, that none is missing,\nand that they are the lines whose heads journald "
                "or a bucket keep. docs/audit.md.",
                "autolaunch audit verify [FILE|RUN|FOLDER ...] [--anchor URL] [--json]\n"
                "       autolaunch audit show [FILE|RUN|FOLDER ...] [--job ID] [--user NAME] "
                "[--kind "
                "WORD] [--since TIME] [--json]",
                "Without a path: your own trail of this node; for root, all users' in the folder "
                "of "
                "audit.directory.\nverify exits with 0 when all are whole, 1 when one is not, 69 "
                "when the "
                "named anchor has nothing of one, 66 "
                "where there is none. That a trail is whole\nproves nothing against its owner "
                "where "
                "nobody else keeps its heads; verify says so.\n\n"
                "Examples:\n  autolaunch audit verify\n  autolaunch audit verify runs/4711\n"
                "  autolaunch audit show --job 4711\n  autolaunch audit show --kind "
                "checkpoint_exported --since 7d"};
        case Command::login:
            return {
                "Proves at an OpenID Connect issuer who you are, by a browser on any machine, "
                "and writes its token\nfor you into a file that nobody else may read: for "
                "Vault's JWT login. docs/identity.md.",
                "autolaunch login --issuer URL --client-id ID [--scope SCOPE] [--ca FILE] FILE",
                "The token is verified before it is written. Exits with 65 where the issuer or "
                "its token is refused, and 69\nwhen the issuer does not answer, or nobody "
                "confirmed the code in time.\n\n"
                "Examples:\n  autolaunch login --issuer https://login.example.org/realms/hpc "
                "--client-id autolaunch token.jwt"};
        case Command::clean:
            return {
                "Ends and removes what jobs of yours that were killed have left on this node: "
                "processes, sockets,\nshared memory; by root those of all users. What a live job "
                "has is left alone. "
                "docs/exit-certificate.md.",
                "autolaunch clean [--job ID] [--dry-run] [--drain] [--json]",
                "Exits with 0 when nothing is left, and 78 where something does not go.\n\n"
                "Examples:\n  autolaunch clean --dry-run\n  srun autolaunch clean --job 4711"};
        case Command::gc:
            return {
                "Says what jobs have left that may go, and with --apply removes it: data that was "
                "staged on this node\n(storage.stage_in), run directories that are named, and with "
                "a "
                "spec those of its log_path and the\ncheckpoints that its rules do not keep. Only "
                "your own, and nothing that a job uses. docs/guides/data.md.",
                "autolaunch gc [RUNS...] [-c SPEC] [--apply] [--older-than TIME] [--state STATE]\n"
                "                     [--scratch FOLDER] [--json]",
                "Exits with 73 where the folder cannot be used.\n\n"
                "Examples:\n  autolaunch gc\n  autolaunch gc runs --older-than 30d --state "
                "succeeded\n  autolaunch gc -c train.yaml --apply\n  srun --ntasks-per-node=1 "
                "autolaunch gc --apply --older-than 14d"};
        case Command::stage_in:
            return {
                "Brings the data that a spec names (storage.stage_in) to this node's own disk, as "
                "a start of the job does,\nand starts nothing of the job: under srun on each node "
                "of the allocation, read once for all. It stays there\nfor the job. With --shared "
                "into the site's shared cache, for all users. docs/guides/data.md.",
                "autolaunch stage-in -c FILE [KEY=VALUE ...] [--shared [--readable-by-all]] "
                "[--log-dir FOLDER] [--quiet]",
                "Exits with 0 when all is there; else as a job does that cannot stage "
                "(docs/exit-codes.md): 65, 66, 69, 73, 77.\n\n"
                "Examples:\n  srun -N4 autolaunch stage-in -c train.yaml\n  autolaunch stage-in -c "
                "train.yaml storage.keep=14d\n  srun -N100 autolaunch stage-in -c datasets.yaml "
                "--shared"};
        case Command::stage_out:
            return {
                "Copies what jobs of yours have written on this node (storage.stage_out) and that "
                "did not come to where it\nis to be: their agent was killed, the target was full. "
                "Nothing is written twice, and nothing goes here before\nit is there. "
                "docs/guides/data.md.",
                "autolaunch stage-out [JOBS...] [--list] [--even-failed] [--overwrite] [--layout "
                "LAYOUT]\n                            [--discard] [--scratch FOLDER] [-c SPEC] "
                "[--json]",
                "Exits with 0 when nothing is left that was asked for; else as a job does that "
                "cannot copy\n(docs/exit-codes.md): 73, 77 or 69.\n\n"
                "Examples:\n  autolaunch stage-out --list\n  autolaunch stage-out 4711\n  srun -w "
                "node7 autolaunch stage-out 4711@node7 --overwrite"};
        default:
            return {"Starts the ranks of a distributed training job, places and watches them.",
                    kRunUsage, kRunExamples};
    }
}

/// --flag=1 and so on, as PET_* variables have it, in the form that CLI11 counts.
std::string normalised_flag(const std::string& option) {
    const std::size_t equals = option.find('=');
    if (equals == std::string::npos)
        return option;
    const std::string name = option.substr(0, equals);
    const std::string value = option.substr(equals + 1);
    if (value == "1" || value == "true" || value == "True")
        return name;
    if (value == "0" || value == "false" || value == "False")
        return name + "=false";
    throw UsageError(option + ": expected true or false");
}

void note_idle(const auto& options, const std::set<std::string>& given,
               std::vector<std::string>& notes) {
    for (const auto& option : options)
        if (given.contains(option.name))
            notes.push_back(std::string(option.name) + " has no effect: " + option.why);
}

/// CLI11's help, with a usage line that knows where PROGRAM stands.
class HelpFormatter : public CLI::Formatter {
public:
    explicit HelpFormatter(const char* usage) : usage_(usage) { column_width(34); }

    std::string make_usage(const CLI::App*, std::string) const override {
        return std::string("Usage: ") + usage_ + '\n';
    }
    /// Without the defaults and limits that CLI11 adds: the descriptions say them.
    std::string make_option_opts(const CLI::Option* option) const override {
        return option->get_items_expected_max() > 0 ? ' ' + option->get_type_name() : std::string();
    }

private:
    const char* usage_;
};

}  // namespace

OptionParser::OptionParser(Command command) : command_(command) {
    declare_all();
    shapes_ = shapes_of_all();
}

void OptionParser::declare_all() {
    flag("-h,--help", help_, "This text").group("General");
    flag("-V,--version", version_, "Version, commit, compiler and build options").group("General");
    if (command_ == Command::run)
        flag("--json", json_, "With --version: as JSON").group("General");
    if (command_ == Command::run)
        option("--print-completion", shell_, "For a shell: bash, zsh or tcsh")
            .type_name("SHELL")
            .rule([](CLI::Option& given) {
                given.check(CLI::IsMember({"bash", "zsh", "tcsh"}));
            })
            .group("General");
    if (command_ != Command::schema && command_ != Command::topo && command_ != Command::lint &&
        command_ != Command::report && command_ != Command::clean && command_ != Command::drain &&
        command_ != Command::attach && command_ != Command::top && command_ != Command::policy &&
        command_ != Command::audit && command_ != Command::login && command_ != Command::sweep &&
        command_ != Command::render)
        option("-c,--config", config_, "The spec: a YAML file").type_name("FILE").group("General");
    if (command_ == Command::schema)
        flag("--markdown", markdown_, "The keys as Markdown tables").group("General");
    if (command_ == Command::plan || command_ == Command::validate)
        flag("--show-secrets", show_secrets_,
             "Show tokens, keys and passwords, which are *** otherwise")
            .group("General");
    if (command_ == Command::doctor)
        add_doctor_options();
    if (command_ == Command::ckpt)
        add_checkpoint_options();
    if (command_ == Command::report)
        add_report_options();
    if (command_ == Command::clean)
        add_clean_options();
    if (command_ == Command::gc)
        add_gc_options();
    if (command_ == Command::stage_out)
        add_stage_out_options();
    if (command_ == Command::stage_in)
        add_stage_in_options();
    if (command_ == Command::drain || command_ == Command::attach || command_ == Command::top)
        add_call_options();
    if (command_ == Command::policy)
        add_policy_options();
    if (command_ == Command::render)
        add_render_options();
    if (command_ == Command::audit)
        add_audit_options();
    if (command_ == Command::login)
        add_login_options();
    if (command_ == Command::submit)
        add_submit_options();
    if (command_ == Command::sweep)
        add_sweep_options();
    if (command_ == Command::validate)
        flag("--json", json_, "The errors as JSON (docs/json-output.md)").group("General");
    if (command_ == Command::schema)
        flag("--json", json_, "JSON, which the schema is anyway").group("General");
    if (command_ == Command::plan) {
        flag("--json", json_, "The plan as JSON").group("General");
        option("--topology", topology_,
               "Plan for the machine saved there (by lstopo FILE.xml), not for this one")
            .type_name("FILE")
            .group("General");
    }
    if (command_ == Command::topo) {
        flag("--json", json_, "All facts as JSON (docs/topology-json.md)").group("General");
        flag("--svg", svg_, "A picture for a browser").group("General");
    }
    if (command_ == Command::lint)
        add_lint_options();
    if (command_ != Command::run && command_ != Command::plan)
        return;
    if (command_ == Command::run)
        flag("--drain", drain_,
             "Where something of the job does not go, drain that node (scontrol)")
            .group("General");
    add_job_options();
    add_output_options();
    add_rendezvous_options();
    add_foreign_options();
    add_idle_options();
}

OptionDeclaration& OptionParser::flag(const char* names, std::optional<bool>& value,
                                      const char* description) {
    return declare(
        names, false, description, [&value](CLI::App& app, const OptionDeclaration& declared) {
            // CLI11 gives --flag=false as -1.
            const std::function<void(std::int64_t)> store = [&value](std::int64_t count) {
                value = count > 0;
            };
            return app.add_flag_function(declared.names(), store, declared.description());
        });
}

void OptionParser::add_lint_options() {
    option(
        "--kind", kind_,
        "What the files are: script, spec, gres.conf, slurm.conf, document (Markdown) or metrics "
        "(Prometheus, Grafana). Without it: by content")
        .type_name("KIND")
        .group("General");
    option("--slurm-conf", slurm_conf_, "The cluster's slurm.conf, to check against its nodes")
        .type_name("FILE")
        .group("General");
    flag("--json", json_, "The findings as JSON").group("General");
    flag("--rules", rules_, "Lists the rules").group("General");
    flag("--markdown", markdown_, "The rules as a Markdown table").group("General");
}

void OptionParser::add_job_options() {
    const char* group = "Ranks";
    option("-n,--nproc-per-node", job_.nproc_per_node,
           "Ranks on each node: auto, cpu, gpu or a number")
        .type_name("N")
        .group(group);
    option(command_ == Command::plan ? "--nnodes,--nodes" : "--nnodes", job_.nnodes,
           "Nodes, or the range MIN:MAX")
        .type_name("N")
        .group(group);
    option("--spare-nodes", job_.spare_nodes, "Nodes that join and wait to take a lost one's place")
        .type_name("N")
        .group(group);
    flag("--standalone", job_.standalone, "One node, whatever surrounds it").group(group);
    option("--node-rank", job_.node_rank, "This node's place among the nodes")
        .type_name("N")
        .group(group);
    option("--max-restarts", job_.max_restarts, "Restarts of all ranks after a failure")
        .type_name("N")
        .group(group);
    option("--numa-binding", job_.numa_binding,
           "node, socket, exclusive, core-complex, none, or an entry a local rank: '0-7;8-15'")
        .type_name("HOW")
        .group(group);
    option("--mpi", job_.mpi,
           "How MPI ranks find each other: auto, none, pmix (Open MPI) or pmi1 (MPICH)")
        .type_name("HOW")
        .group(group);
    option("--preload", job_.preload,
           "What Python ranks import once a node, before they are forked: auto, off or "
           "torch,transformers")
        .type_name("MODULES")
        .group(group);
    option("--preload-from", job_.preload_from,
           "Where that is read, if it is on a shared file system: shared, or node (copies that one "
           "node hands on)")
        .type_name("WHERE")
        .group(group);
    option("--role", job_.role, "ROLE_NAME of the ranks").type_name("NAME").group(group);
    option("--signals-to-handle", job_.signals_to_handle,
           "Signals that stop the job, such as SIGTERM,SIGINT")
        .type_name("LIST")
        .group(group);
    option("--stdin", job_.input, "Who gets what comes in on stdin: a rank (0), all or none")
        .type_name("WHO")
        .group(group);
    option("--shutdown-timeout", job_.shutdown_timeout,
           "Between the signal that stops ranks and SIGKILL; restart.grace_period")
        .type_name("SECONDS")
        .group(group);
    flag("--virtual-local-rank", job_.virtual_local_rank,
         "LOCAL_RANK is 0 for each rank, which sees its own GPU alone")
        .group(group);
    flag("-m,--module", job_.module, "PROGRAM is a Python module, as for python -m").group(group);
    flag("--no-python", job_.no_python, "Execute PROGRAM itself, even when it ends in .py")
        .group(group);
    flag("--run-path", job_.run_path, "PROGRAM is a Python script, whatever its name ends in")
        .group(group);
    add_debug_options();
}

void OptionParser::add_debug_options() {
    const char* group = "Looking into ranks (docs/debugging.md)";
    option("--debug-rank", job_.debug_rank, "This rank gets the terminal, for pdb and breakpoint()")
        .type_name("RANK")
        .group(group);
    option("--gdb", job_.gdb_rank, "The same, with gdb around its program")
        .type_name("RANK")
        .group(group);
    option("--wrap", job_.wrap,
           "A command around the program of these ranks, such as 0,3-5='perf record'; "
           "may be repeated")
        .type_name("RANKS=COMMAND")
        .rule([](CLI::Option& given) {
            given.multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args(false);
        })
        .group(group);
}

void OptionParser::add_foreign_options() {
    const char* group = "As mpirun and srun have it";
    option("--ntasks", job_.ntasks, "Ranks in all, spread evenly over the nodes; also -np")
        .type_name("N")
        .group(group);
    option("-x,--x", job_.exported, "A variable for the ranks of all nodes")
        .type_name("NAME[=VALUE]")
        .rule([](CLI::Option& given) {
            given.multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->expected(1);
        })
        .group(group);
    option("--bind-to", job_.bind_to, "none, core, l3cache, numa or socket; see --numa-binding")
        .type_name("WHAT")
        .group(group);
    option("--map-by", job_.map_by, "ppr:N:node: ranks on each node").type_name("HOW").group(group);
    option("-H,--host", job_.host, "This machine alone: others need srun, or --rdzv-endpoint")
        .type_name("HOST[:N]")
        .group(group);
    option("--wdir", job_.wdir, "Where ranks run").type_name("DIR").group(group);
}

void OptionParser::add_output_options() {
    const char* group = "Output (the run directory always has all of it)";
    option("-r,--redirects", job_.redirects,
           "Streams kept off the console: 1 stdout, 2 stderr, 3 both, or 0:1,1:2 by rank")
        .type_name("WHAT")
        .group(group);
    option("-t,--tee", job_.tee, "Streams shown on the console in spite of -r")
        .type_name("WHAT")
        .group(group);
    option("--local-ranks-filter", job_.local_ranks_filter,
           "Show only these local ranks, such as 0,1")
        .type_name("LIST")
        .group(group);
    option("--log-dir", job_.log_dir, "The run directory").type_name("DIR").group(group);
    option("--log-line-prefix-template", job_.log_line_prefix_template,
           "What stands before each line: ${role_name}, ${local_rank}, ${rank}, ${hostname}")
        .type_name("TEXT")
        .group(group);
    flag("-q,--quiet", job_.quiet, "Leave out the lines at the start").group(group);
    flag("--no-prefix", job_.no_prefix,
         "Pass the ranks' bytes on as they are, for programs that read them")
        .group(group);
    option("--stdio", job_.stdio, "What ranks write to: file (their logs) or pty (terminals)")
        .type_name("WHAT")
        .group(group);
    flag("--no-line-buffering", job_.no_line_buffering,
         "Preload nothing that makes C programs write whole lines, and tell Fortran and Python "
         "nothing")
        .group(group);
}

void OptionParser::add_rendezvous_options() {
    const char* group = "Rendezvous";
    option("--rdzv-endpoint", job_.rdzv_endpoint, "Where ranks meet")
        .type_name("HOST[:PORT]")
        .group(group);
    option("--rdzv-backend", job_.rdzv_backend, "c10d or static: nodes meet at --rdzv-endpoint")
        .type_name("NAME")
        .group(group);
    option("--rdzv-id", job_.rdzv_id, "The run's id").type_name("ID").group(group);
    option("--rdzv-conf", job_.rdzv_conf,
           "timeout=SECONDS, last_call_timeout=SECONDS, is_host=BOOL")
        .type_name("K=V,...")
        .group(group);
    option("--master-addr", job_.master_addr, "MASTER_ADDR of the ranks")
        .type_name("ADDRESS")
        .group(group);
    option("--master-port", job_.master_port, "MASTER_PORT of the ranks; 0: a free one")
        .type_name("PORT")
        .group(group);
    option("--local-addr", job_.local_addr, "This node's address, as others reach it")
        .type_name("ADDRESS")
        .group(group);
}

void OptionParser::add_idle_options() {
    const auto describe = [](const OptionDeclaration& declared) {
        return std::string("No effect: ") + declared.description();
    };
    for (const auto& option : kIdleOptions)
        declare(option.name, true, option.why,
                [this, describe](CLI::App& app, const OptionDeclaration& declared) {
                    return app.add_option(declared.names(), idle_value_, describe(declared));
                })
            .type_name("...")
            .group("Accepted without effect");
    for (const auto& option : kIdleFlags)
        declare(option.name, false, option.why,
                [this, describe](CLI::App& app, const OptionDeclaration& declared) {
                    return app.add_flag(declared.names(), idle_flag_, describe(declared));
                })
            .group("Accepted without effect");
}

void OptionParser::add_doctor_options() {
    const char* group = "What to check";
    option("--only", doctor_.only, "Run these checks alone").type_name("LIST").group(group);
    option("--skip", doctor_.skip, "Leave these checks out").type_name("LIST").group(group);
    option("--folder", doctor_.folders, "Folders that the job writes to, besides those of the spec")
        .type_name("LIST")
        .group(group);
    option("--container", doctor_.container,
           "In place of the node: does this image fit it? spec: the image of -c FILE")
        .type_name("IMAGE")
        .group(group);
    flag("--standalone", doctor_.standalone, "This node alone, whatever surrounds it").group(group);
    flag("--json", json_, "All results as JSON").group("Results");
    option("--fail-on", doctor_.fail_on, "What counts as not fit: fail or warn")
        .type_name("WHAT")
        .group("Results");
    flag("--health-check", doctor_.health_check,
         "Print nothing, or one line that Slurm takes as a reason")
        .group("For Slurm");
    flag("--drain", doctor_.drain, "With --health-check: drain this node with that line (scontrol)")
        .group("For Slurm");
}

void OptionParser::add_checkpoint_options() {
    const char* group = "What to do";
    flag("--json", json_, "What is found or made as JSON").group(group);
    flag("--tensors", checkpoints_.tensors, "show: every tensor").group(group);
    option("--only", only_, "Tensors whose names begin so, such as h.0.,wte")
        .type_name("NAMES")
        .group(group);
    flag("--all", checkpoints_.all, "export: optimizer and opaque state too").group(group);
    option("--dtype", checkpoints_.dtype,
           "export, reshard: f32, bf16 or f16 for floating-point tensors")
        .type_name("TYPE")
        .rule([](CLI::Option& given) {
            given.check(CLI::IsMember({"f32", "bf16", "f16"}));
        })
        .group(group);
    option("--max-file-size", checkpoints_.max_file_bytes,
           "export to a directory: cut larger files (default 5GB)")
        .type_name("SIZE")
        .rule([](CLI::Option& given) { given.transform(CLI::AsSizeValue(true)); })
        .group(group);
    option("--ranks", checkpoints_.ranks, "reshard, convert: as so many ranks would save it")
        .type_name("N")
        .rule([](CLI::Option& given) { given.check(CLI::Range(1, 1'000'000)); })
        .group(group);
    option("--keep", checkpoints_.keep, "prune: so many of the newest complete checkpoints")
        .type_name("K")
        .rule([](CLI::Option& given) { given.check(CLI::Range(1, 1'000'000'000)); })
        .group(group);
    option("--every", checkpoints_.every, "prune: and those of every N-th step")
        .type_name("N")
        .rule([](CLI::Option& given) { given.check(CLI::Range(std::int64_t{1}, INT64_MAX)); })
        .group(group);
    flag("--dry-run", checkpoints_.dry_run, "prune: only say what would be deleted").group(group);
    option("--step", checkpoints_.step, "convert: the step of what is made (default 0)")
        .type_name("N")
        .rule([](CLI::Option& given) { given.check(CLI::Range(std::int64_t{0}, INT64_MAX)); })
        .group(group);
    option("--python", checkpoints_.python,
           "convert: for PyTorch's own checkpoints (default python3)")
        .type_name("PROGRAM")
        .group(group);
    add_key_options();
}

void OptionParser::add_report_options() {
    flag("--json", json_, "All of it as JSON").group("General");
    option("--html", html_file_, "A page for a browser, which needs nothing else")
        .type_name("FILE")
        .group("General");
    constexpr const char* kAccounts = "Of all jobs, by sacct";
    option("--since", accounts_.since,
           "Sums over jobs of Slurm's: 30d, 12h, 2w, or a day as 2026-11-01 (UTC)")
        .type_name("TIME")
        .group(kAccounts);
    option("--by", accounts_.by, "With --since: a row a user (default), or an account")
        .type_name("user|account")
        .group(kAccounts);
    option("--rate", accounts_.rates,
           "With --since: what an hour costs, such as gpu=2.10 or gpu=2.10,cpu=0.02; also node=")
        .type_name("PRICES")
        .group(kAccounts);
    flag("--csv", accounts_.csv, "With --since: as CSV").group(kAccounts);
}

void OptionParser::add_call_options() {
    if (command_ == Command::drain) {
        option("--job", job_id_, "Run directory, or name or id of one in runs/ (runs/latest)")
            .type_name("JOB")
            .group("General");
        flag("--take-back", take_back_, "The node was left out as unfit: it may take part again")
            .group("General");
    }
    if (command_ == Command::top) {
        flag("--replay", replay_, "Of a run that is over: any moment of it, with the arrow keys")
            .group("General");
        flag("--once", once_, "A table, once, for whoever has no terminal").group("General");
        flag("--json", json_, "With --once: as JSON (docs/guides/top.md)").group("General");
    }
    option("--secret-file", secret_file_, "The job's rendezvous.secret_file, where it had one")
        .type_name("FILE")
        .group("General");
}

void OptionParser::add_audit_options() {
    flag("--json", json_, "verify: as JSON; show: the lines as they are (docs/audit.md)")
        .group("General");
    option("--anchor", audit_.anchor,
           "verify: compare with the heads there, s3://bucket/prefix; without it as the "
           "administrator's file says")
        .type_name("URL")
        .group("General");
    option("--job", audit_.job, "Lines of this job").type_name("ID").group("General");
    option("--user", audit_.user, "Lines of this user, by name or number")
        .type_name("NAME")
        .group("General");
    option("--kind", audit_.kind, "Lines of this kind, such as key_use")
        .type_name("WORD")
        .group("General");
    option("--since", audit_.since, "Lines from then on: 2026-01-31, 2026-01-31T12:00:00Z, 90m, 2d")
        .type_name("TIME")
        .group("General");
}

void OptionParser::add_policy_options() {
    flag("--json", json_, "show, diff: as JSON (docs/site.md)").group("General");
    option("--site", policy_.site_file, "A draft, in place of /etc/autolaunch/site.yaml")
        .type_name("FILE")
        .group("General");
    option("--interface", policy_.interface, "render nftables: over which ranks reach each other")
        .type_name("IF")
        .group("General");
    option(
        "--network", policy_.networks,
        "render nftables: what a source of firewall_rules is, and nodes, where ranks run; may be "
        "repeated")
        .type_name("NAME=CIDR,...")
        .rule([](CLI::Option& given) {
            given.multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->expected(1);
        })
        .group("General");
}

void OptionParser::add_render_options() {
    flag("--json", json_, "The files as JSON (docs/json-output.md)").group("General");
    option("-o,--output", render_.folder, "A folder to write them to; made where it is not there")
        .type_name("DIR")
        .group("General");
    flag("--force", render_.overwrite, "Replace files there that have another content")
        .group("General");
    option("--site", render_.site_file,
           "alertmanager: a draft, in place of /etc/autolaunch/site.yaml")
        .type_name("FILE")
        .group("General");
    option("--textfile-dir", render_.textfile_dir,
           "slurm: node_exporter's (default /var/lib/prometheus/node-exporter)")
        .type_name("DIR")
        .group("General");
    option("--job-mapping-dir", render_.job_mapping_dir,
           "slurm: dcgm-exporter's DCGM_HPC_JOB_MAPPING_DIR (default /run/autolaunch/gpu-jobs)")
        .type_name("DIR")
        .group("General");
}

void OptionParser::add_login_options() {
    option("--issuer", login_.issuer, "The issuer's address, exactly as it calls itself")
        .type_name("URL")
        .group("General");
    option("--client-id", login_.client_id, "As autolaunch is known there")
        .type_name("ID")
        .group("General");
    option("--scope", login_.scope, "What to ask for, openid among it (default openid)")
        .type_name("SCOPE")
        .group("General");
    option("--ca", login_.ca_file, "Certificates to trust in place of the system's")
        .type_name("FILE")
        .group("General");
}

void OptionParser::add_sweep_options() {
    flag("--dry-run", dry_run_, "resubmit: show what sbatch would get").group("General");
    flag("--json", json_, "One object (docs/json-output.md)").group("General");
}

void OptionParser::add_submit_options() {
    option("--to", submit_.to,
           "slurm; or kubernetes, jobset or volcano: print the objects for kubectl")
        .type_name("WHERE")
        .group("General");
    option("--run", submit_.earlier_run,
           "Of pods: a run directory; how long its saves took is how long they may take to end")
        .type_name("RUN_DIR")
        .group("General");
    flag("--dry-run", dry_run_, "Print the batch script; submit nothing, ask nobody")
        .group("General");
    flag("--snapshot", submit_.snapshot,
         "Copy the code, as git lists it, beside the job: every start of it runs the copy")
        .group("General");
    flag("--stage-first", submit_.stage_first,
         "A small job before it brings storage.stage_in to the nodes where Slurm expects to start "
         "it; it waits for that one")
        .group("General");
    flag("--hold", submit_.hold, "It waits until scontrol release JOB").group("General");
    flag("--wait", submit_.wait, "Wait until the job is over, and exit with its code")
        .group("General");
    flag("--json", json_, "One object in place of the number (docs/json-output.md)")
        .group("General");
}

void OptionParser::add_clean_options() {
    flag("--json", json_, "What was found and ended as JSON").group("General");
    option("--job", job_id_, "Of this job alone: its id, as at its start")
        .type_name("ID")
        .group("General");
    flag("--dry-run", dry_run_, "Only say what would be ended and removed").group("General");
    flag("--drain", drain_, "Drain this node where something does not go (scontrol)")
        .group("General");
}

void OptionParser::add_gc_options() {
    flag("--json", json_, "As JSON (docs/json-output.md)").group("General");
    flag("--apply", gc_.apply, "Remove it; without this nothing is removed").group("General");
    option(
        "--older-than", gc_.older_than,
        "What was used, or has ended, within that time stays; of staged data, unless its job said "
        "storage.keep (7d)")
        .type_name("TIME")
        .group("General");
    option("--state", gc_.state, "Of runs those that succeeded, those that failed, or any (any)")
        .type_name("STATE")
        .rule([](CLI::Option& given) {
            given.check(CLI::IsMember({"any", "succeeded", "failed"}));
        })
        .group("General");
    option("--scratch", gc_.scratch, "As storage.scratch: the node's folder")
        .type_name("FOLDER")
        .group("General");
    flag("--shared", gc_.shared, "Of the site's shared cache, by its owner, in place of your own")
        .group("General");
    flag("--epilog", gc_.epilog,
         "For Slurm's Epilog: as the job's user, of whose staged data here alone")
        .group("General");
}

void OptionParser::add_stage_in_options() {
    flag("--shared", stage_in_.shared,
         "Into storage_management.shared_cache of the administrator's file, by its owner: what "
         "everybody can read at its source")
        .group("General");
    flag("--readable-by-all", stage_in_.readable_by_all,
         "With --shared: what a server gives here it would give to every user")
        .group("General");
    option("--log-dir", job_.log_dir, "The run directory itself")
        .type_name("FOLDER")
        .group("General");
    flag("-q,--quiet", job_.quiet, "Only what goes wrong").group("General");
    option("--nnodes", job_.nnodes, "Nodes, where no scheduler says which")
        .type_name("N")
        .group("Rendezvous");
    option("--node-rank", job_.node_rank, "This node's place among them")
        .type_name("N")
        .group("Rendezvous");
    add_rendezvous_options();
}

void OptionParser::add_stage_out_options() {
    flag("--json", json_, "As JSON (docs/json-output.md)").group("General");
    flag("--list", stage_out_.list, "Only say what there is").group("General");
    flag("--even-failed", stage_out_.even_failed,
         "Also what is to be copied on success alone (when: success) of jobs that did not succeed")
        .group("General");
    flag("--overwrite", stage_out_.overwrite,
         "Replace files that are at the target with another content")
        .group("General");
    option("--layout", stage_out_.layout,
           "As the spec's, or node: in a folder of the node's name (flat)")
        .type_name("LAYOUT")
        .rule([](CLI::Option& given) {
            given.check(CLI::IsMember({"flat", "node"}));
        })
        .group("General");
    flag("--discard", stage_out_.discard, "Remove it, without copying; the job has to be named")
        .group("General");
    option("--scratch", gc_.scratch, "As storage.scratch: the node's folder")
        .type_name("FOLDER")
        .group("General");
}

void OptionParser::add_key_options() {
    const char* group = "Keys (docs/encryption.md)";
    CheckpointKeys& keys = checkpoints_.keys;
    option("--identity", keys.identity_file,
           "The secret key that opens an encrypted checkpoint, also one that Vault has wrapped")
        .type_name("FILE")
        .group(group);
    option("--identity-command", keys.identity_command, "Or a command that prints it")
        .type_name("COMMAND")
        .group(group);
    option("--authentication-key", keys.authentication_key_file,
           "Accept only checkpoints with this key's MAC; what is made gets one")
        .type_name("FILE")
        .group(group);
    option("--authentication-key-command", keys.authentication_key_command,
           "Or a command that prints it")
        .type_name("COMMAND")
        .group(group);
    option("--recipient", recipients_, "reshard, convert: encrypt for these, age1...,age1...")
        .type_name("KEYS")
        .group(group);
    option("--signing-key", keys.signing_key_file,
           "reshard, convert: sign what is made with this key of Ed25519")
        .type_name("FILE")
        .group(group);
    option("--public-key", keys.public_key_file, "verify: it must be signed with this key")
        .type_name("FILE")
        .group(group);
    flag("--signing", checkpoints_.signing, "keygen: a key that signs, and FILE.pub that verifies")
        .group(group);
    option("--vault-transit", checkpoints_.vault_transit,
           "keygen: a secret key of age, wrapped by this key of Vault's; FILE.pub is its recipient")
        .type_name("MOUNT/KEY")
        .group(group);
    flag("--trust-source", checkpoints_.trust_source,
         "reshard: PATH needs no MAC, what is made gets one")
        .group(group);
    flag("--plain", checkpoints_.plain, "reshard: do not encrypt what was encrypted").group(group);
}

OptionShapes OptionParser::shapes_of_all() const {
    OptionShapes shapes;
    for (const OptionDeclaration& declared : declared_)
        declared.add_to(shapes);
    add_foreign_names(shapes);
    return shapes;
}

std::string OptionParser::help() const {
    const Words words = words_of(command_);
    CLI::App app(words.description);
    app.formatter(std::make_shared<HelpFormatter>(words.usage));
    app.footer(words.footer);
    app.set_help_flag();
    for (const OptionDeclaration& declared : declared_)
        declared.tell(app);
    return app.help();
}

void OptionParser::parse(const std::vector<std::string>& options, CommandLine& into) {
    std::vector<std::string> reversed;  // CLI11 takes a list's last item first
    std::set<std::string> given;
    for (auto option = options.rbegin(); option != options.rend(); ++option) {
        const OptionShape& shape = shapes_.at(option->substr(0, option->find('=')));
        reversed.push_back(shape.takes_value ? *option : normalised_flag(*option));
        given.insert(shape.long_name);
    }
    CLI::App app;
    app.set_help_flag();
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    for (const OptionDeclaration& declared : declared_)
        if (given.contains(declared.shape().long_name))
            declared.tell(app);
    try {
        app.parse(std::move(reversed));
    } catch (const CLI::ParseError& error) {
        throw UsageError(error.what(), "see autolaunch --help");
    }
    note_idle(kIdleOptions, given, into.notes);
    note_idle(kIdleFlags, given, into.notes);
    into.spec_file = config_;
    into.json = json_;
    into.secrets = show_secrets_ ? Secrets::show : Secrets::mask;
    into.topology_file = topology_;
    into.svg = svg_;
    into.markdown = markdown_;
    into.rules = rules_;
    into.lint_kind = kind_;
    into.slurm_conf = slurm_conf_;
    into.html_file = html_file_;
    into.accounts = accounts_;
    into.job = job_id_;
    into.secret_file = secret_file_;
    into.dry_run = dry_run_;
    into.gc = gc_;
    into.stage_out = stage_out_;
    into.stage_in = stage_in_;
    into.drain = drain_;
    into.take_back = take_back_;
    into.once = once_;
    into.replay = replay_;
    into.doctor = doctor_;
    into.policy = policy_;
    into.render = render_;
    into.audit = audit_;
    into.login = login_;
    into.submit = submit_;
    into.checkpoints = checkpoints_;
    into.checkpoints.json = json_;
    if (!only_.empty())
        into.checkpoints.only = split(only_, ',');
    if (!recipients_.empty())
        into.checkpoints.keys.recipients = split(recipients_, ',');
}

}  // namespace autolaunch::launcher
