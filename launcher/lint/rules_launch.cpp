// Who starts which process where: srun, torchrun, mpirun and autolaunch together.

#include "base/text.hpp"
#include "lint/elasticity.hpp"
#include "lint/launch_edits.hpp"
#include "lint/rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace autolaunch::launcher {

namespace {

bool is_launcher(Tool tool) {
    return tool == Tool::torchrun || tool == Tool::torch_launch || tool == Tool::autolaunch;
}

bool names_task(const Word& word) {
    return word.expands("SLURM_PROCID") || word.expands("SLURM_LOCALID") ||
           word.expands("SLURM_NODEID");
}

/// Whether it runs as one process only, where a rank of 0 is right.
bool single_process(const Subject& subject) {
    if (subject.many_nodes())
        return false;
    return std::none_of(subject.launches.begin(), subject.launches.end(), [](const Launch& launch) {
        return launch.by_srun || is_launcher(launch.tool) || launch.tool == Tool::mpirun;
    });
}

long times_set(const Subject& subject, std::string_view name) {
    return std::count_if(subject.environment.begin(), subject.environment.end(),
                         [&](const EnvironmentSetting& setting) { return setting.name == name; });
}

RuleHits rank_in_batch_step(const Subject& subject) {
    static const std::set<std::string> kOfOneTask = {"RANK", "LOCAL_RANK", "GROUP_RANK",
                                                     "NODE_RANK"};
    RuleHits hits;
    if (subject.kind == FileKind::script && (!subject.script.is_batch || single_process(subject)))
        return hits;
    // With several numbers each node's launcher is started by itself.
    const bool one_node = !subject.many_nodes() || times_set(subject, "NODE_RANK") > 1;
    for (const auto& setting : subject.environment) {
        if (!kOfOneTask.contains(setting.name) || (setting.name == "NODE_RANK" && one_node))
            continue;
        hits.push_back({setting.line,
                        fmt::format("{}={} is set once, so that every task gets the same rank",
                                    setting.name, setting.value),
                        {},
                        remove_assignment(subject.source, setting.line, setting.name)});
    }
    return hits;
}

RuleHits per_task_variable(const Subject& subject) {
    RuleHits hits;
    const auto& script = subject.script;
    if (!script.is_batch)
        return hits;
    for (const auto& launch : subject.launches) {
        if (!launch.by_srun)
            continue;
        for (const auto& word : script.expanded(launch.command->words))
            if (names_task(word))
                hits.push_back(
                    {word.line,
                     fmt::format("{}: the batch shell replaces it before srun starts, with the "
                                 "batch step's own, which is 0",
                                 word.raw.substr(0, 60))});
    }
    return hits;
}

RuleHits world_size(const Subject& subject) {
    RuleHits hits;
    const auto has_launcher =
        std::any_of(subject.launches.begin(), subject.launches.end(),
                    [](const Launch& launch) { return is_launcher(launch.tool); });
    if (subject.kind != FileKind::spec && !has_launcher)
        return hits;
    for (const auto& setting : subject.environment)
        if (setting.exported &&
            (setting.name == "WORLD_SIZE" || setting.name == "LOCAL_WORLD_SIZE"))
            hits.push_back({setting.line,
                            setting.name + " is set by hand beside a launcher that sets it",
                            {},
                            remove_assignment(subject.source, setting.line, setting.name)});
    return hits;
}

RuleHits too_many_processes(const Subject& subject) {
    RuleHits hits;
    for (const auto& launch : subject.launches) {
        if (!launch.by_srun || !is_launcher(launch.tool))
            continue;
        const auto tasks = tasks_per_node_of(launch, subject.script);
        const auto ranks = ranks_per_launcher(launch, subject.script);
        if (!tasks || *tasks < 2 || *tasks > 100'000 || !ranks || *ranks > 100'000)
            continue;
        if (launch.tool == Tool::autolaunch) {
            // autolaunch makes each task a rank, and refuses another number.
            if (*ranks != *tasks)
                hits.push_back(
                    {launch.line,
                     fmt::format("srun starts {} tasks a node and autolaunch is asked for {} "
                                 "ranks: it will refuse",
                                 *tasks, *ranks),
                     {},
                     set_tasks_per_node(subject, launch, 1)});
        } else if (*ranks > 1) {
            hits.push_back(
                {launch.line,
                 fmt::format("{} tasks a node, each a {} with {} ranks: {} processes a node",
                             *tasks, name_of(launch.tool), *ranks, *tasks * *ranks),
                 {},
                 set_tasks_per_node(subject, launch, 1)});
        }
    }
    return hits;
}

RuleHits more_ranks_than_gpus(const Subject& subject) {
    RuleHits hits;
    const auto gpus = subject.script.gpus_per_node();
    if (!gpus || *gpus < 1)
        return hits;
    for (const auto& launch : subject.launches) {
        const auto ranks =
            is_launcher(launch.tool) ? ranks_per_launcher(launch, subject.script) : std::nullopt;
        if (launch.srun_option("gres") != nullptr || launch.srun_option("gpus-per-node") != nullptr)
            continue;
        if (ranks && *ranks > *gpus)
            hits.push_back(
                {launch.line,
                 fmt::format("{} ranks on a node for which {} GPU{} asked", *ranks, *gpus,
                             *gpus == 1 ? " is" : "s are"),
                 {},
                 set_tool_option(subject, launch, "--nproc-per-node", std::to_string(*gpus))});
    }
    return hits;
}

/// torchrun's static rendezvous needs the node's number, too.
Edits with_srun(const Subject& subject, const Launch& launch, const std::string& srun) {
    const auto backend = launch.option("--rdzv-backend", subject.script);
    const bool meets = launch.tool == Tool::autolaunch || (backend && *backend != "static");
    return meets ? put_before_tool(subject, launch, srun) : Edits{};
}

RuleHits srun_missing(const Subject& subject) {
    RuleHits hits;
    const auto nodes = subject.script.nodes();
    if (!subject.script.is_batch || !nodes || *nodes < 2)
        return hits;
    for (const auto& launch : subject.launches) {
        const char* srun = launch.tool == Tool::autolaunch ? "srun" : "srun --kill-on-bad-exit=1";
        if (!launch.by_srun && is_launcher(launch.tool))
            hits.push_back({launch.line,
                            fmt::format("{} without srun starts on the first of {} nodes only",
                                        name_of(launch.tool), *nodes),
                            fmt::format("put srun in front: {} {} …", srun, name_of(launch.tool)),
                            with_srun(subject, launch, srun)});
    }
    return hits;
}

RuleHits torch_launch(const Subject& subject) {
    RuleHits hits;
    for (const auto& launch : subject.launches)
        if (launch.tool == Tool::torch_launch)
            hits.push_back({launch.line, "torch.distributed.launch is deprecated"});
    return hits;
}

RuleHits mpirun_in_srun(const Subject& subject) {
    RuleHits hits;
    for (const auto& launch : subject.launches) {
        const auto tasks = tasks_per_node_of(launch, subject.script);
        const bool one = tasks && *tasks == 1 && subject.script.nodes() == std::optional(1LL);
        const bool no_number = !tasks && launch.srun_option("ntasks") == nullptr &&
                               launch.srun_option("nodes") == nullptr &&
                               subject.script.options.empty();  // then srun starts one
        if (launch.by_srun && launch.tool == Tool::mpirun && !one && !no_number)
            hits.push_back(
                {launch.line,
                 "srun starts one mpirun in every task, and each starts a job of its own",
                 {},
                 launch.srun_options.empty()
                     ? replace_text(subject.source, launch.line, "srun ", "")
                     : Edits{}});
    }
    return hits;
}

RuleHits launcher_in_launcher(const Subject& subject) {
    RuleHits hits;
    for (const auto& launch : subject.launches) {
        if (launch.tool == Tool::other || launch.tool == Tool::python)
            continue;
        for (std::size_t i = launch.tool_at + 1; i < launch.program.size(); ++i) {
            const std::string& word = launch.program[i].value;
            const std::string name = word.substr(word.rfind('/') + 1);
            if (name.ends_with(".py"))
                break;  // the trainer's own arguments follow
            const bool module = name == "torch.distributed.run" && launch.tool == Tool::torchrun;
            const bool inner = name == "torchrun" || name == "autolaunch" || name == "mpirun" ||
                               name == "srun" || (name == "torch.distributed.run" && !module);
            if (inner && name != name_of(launch.tool))
                hits.push_back({launch.line, fmt::format("{} starts {} in every rank",
                                                         name_of(launch.tool), name)});
        }
    }
    return hits;
}

RuleHits kill_on_bad_exit(const Subject& subject) {
    RuleHits hits;
    const auto& script = subject.script;
    const ConfLine* configured = subject.cluster.first_with("KillOnBadExit");
    if (configured != nullptr && configured->value("KillOnBadExit") == "1")
        return hits;
    for (const auto& setting : subject.environment)
        if (setting.name == "SLURM_KILL_BAD_EXIT" && setting.value != "0")
            return hits;
    for (const auto& launch : subject.launches) {
        const bool trains = launch.tool == Tool::python || launch.tool == Tool::torchrun ||
                            launch.tool == Tool::torch_launch;
        if (!launch.by_srun || !trains || launch.srun_option("kill-on-bad-exit") != nullptr)
            continue;
        if (launch.srun_option("wait") != nullptr)
            continue;
        const auto tasks = tasks_per_node_of(launch, script);
        const auto nodes = nodes_of(launch, script);
        const auto all = script.number("ntasks");
        const bool several = (tasks && *tasks > 1) || (nodes && *nodes > 1) || (all && *all > 1);
        if (several)
            hits.push_back({launch.line,
                            "when one task fails, the others wait for it until the time limit",
                            {},
                            add_srun_option(subject, launch, "--kill-on-bad-exit=1")});
    }
    return hits;
}

// Of a node that is gone srun hears when Slurm has noticed it.
RuleHits requeue_without_wait(const Subject& subject) {
    RuleHits hits;
    const auto is_number = [](const std::string& value) {
        return whole_number(value).value_or(0) > 0;
    };
    const ConfLine* configured = subject.cluster.first_with("WaitTime");
    if (!subject.script.has("requeue") ||
        (configured != nullptr && is_number(configured->value("WaitTime"))))
        return hits;
    for (const auto& setting : subject.environment)
        if (setting.name == "SLURM_WAIT" && is_number(setting.value))
            return hits;
    for (const auto& launch : subject.launches) {
        const auto nodes = nodes_of(launch, subject.script);
        if (launch.by_srun && launch.tool == Tool::autolaunch && nodes && *nodes > 1 &&
            launch.srun_option("wait") == nullptr && !elastic_range(launch, subject))
            hits.push_back({launch.line,
                            "when a node is lost, srun waits for its task until Slurm notices, "
                            "and the requeue with it",
                            {},
                            add_srun_option(subject, launch, "--wait=60")});
    }
    return hits;
}

RuleHits nnodes_mismatch(const Subject& subject) {
    RuleHits hits;
    for (const auto& launch : subject.launches) {
        if (!is_launcher(launch.tool))
            continue;
        const auto machines = nodes_of(launch, subject.script);
        const auto written = launch.option("--nnodes", subject.script);
        const auto number = written ? whole_number(*written) : std::nullopt;
        const auto tasks = tasks_per_node_of(launch, subject.script);
        const bool of_tasks = tasks && *tasks > 1 && *tasks <= 100'000 && machines && number &&
                              *machines <= 100'000 && *number == *tasks * *machines;
        if (launch.by_srun && machines && number && *number != *machines && !of_tasks &&
            !elastic_range(launch, subject))
            hits.push_back(
                {launch.line,
                 fmt::format("--nnodes={}, and srun starts it on {}", *number, *machines),
                 {},
                 set_tool_option(subject, launch, "--nnodes",
                                 launch.srun_option("nodes") != nullptr ? std::to_string(*machines)
                                                                        : "$SLURM_NNODES")});
    }
    return hits;
}

RuleHits standalone(const Subject& subject) {
    RuleHits hits;
    for (const auto& launch : subject.launches) {
        const auto machines = nodes_of(launch, subject.script);
        if (is_launcher(launch.tool) && launch.by_srun && machines && *machines > 1 &&
            launch.option_word("--standalone") != nullptr)
            hits.push_back(
                {launch.line,
                 fmt::format("--standalone on {} nodes: {} jobs that know nothing of each other",
                             *machines, *machines),
                 {},
                 launch.tool == Tool::autolaunch  // torchrun then wants an address
                     ? remove_tool_flag(subject, launch, "--standalone")
                     : Edits{}});
    }
    return hits;
}

constexpr std::array<Rule, 13> kLaunchRules = {{
    {"rank-in-batch-step", LintSeverity::error,
     "RANK, LOCAL_RANK or NODE_RANK is exported in the batch step",
     "The batch script runs once, on the first node; what it exports is the same for every task "
     "that srun starts.",
     "leave them out: srun autolaunch sets them for each rank", rank_in_batch_step},
    {"per-task-variable", LintSeverity::error,
     "SLURM_PROCID, SLURM_LOCALID or SLURM_NODEID in srun's command line",
     "The shell of the batch step replaces variables before it starts srun, and there all three "
     "are 0.",
     "leave it to srun autolaunch, or let each task's shell do it: srun bash -c '… $SLURM_NODEID "
     "…' in single quotes",
     per_task_variable},
    {"world-size-by-hand", LintSeverity::warning,
     "WORLD_SIZE is set beside a launcher that sets it",
     "It is wrong as soon as nodes or GPUs change, and some trainers read it before the launcher's "
     "value.",
     "remove it", world_size},
    {"too-many-processes", LintSeverity::error, "tasks a node times ranks a launcher",
     "srun starts a launcher in every task, and every launcher starts all ranks of the node.",
     "one task a node: --ntasks-per-node=1, and --nproc-per-node for the ranks",
     too_many_processes},
    {"more-ranks-than-gpus", LintSeverity::error, "more ranks on a node than GPUs asked for",
     "Two ranks on one GPU: NCCL refuses that (duplicate GPU), or the ranks without one fail.",
     "make --nproc-per-node the number of GPUs", more_ranks_than_gpus},
    {"srun-missing", LintSeverity::error,
     "torchrun or autolaunch without srun in a job of several nodes",
     "A batch script runs on the first node only; the others stay idle, and the first waits for "
     "them.",
     "put srun in front", srun_missing},
    {"torch-distributed-launch", LintSeverity::warning, "torch.distributed.launch",
     "It is deprecated, does not restart, and hands the local rank over as an argument.",
     "srun autolaunch --nproc-per-node N SCRIPT takes its place", torch_launch},
    {"mpirun-in-srun", LintSeverity::error, "mpirun started by srun",
     "Each task then starts a whole MPI job, and all of them use the same cores.",
     "srun autolaunch ./program, srun --mpi=pmix ./program, or mpirun alone", mpirun_in_srun},
    {"launcher-in-launcher", LintSeverity::error, "a launcher that starts another launcher",
     "Every rank of the outer one becomes a launcher with ranks of its own.", "keep one of them",
     launcher_in_launcher},
    {"kill-on-bad-exit", LintSeverity::warning, "srun without --kill-on-bad-exit",
     "Slurm's default lets a step go on when a task has failed; the other ranks hang in their next "
     "collective.",
     "add --kill-on-bad-exit=1 to srun; srun autolaunch ends all ranks by itself",
     kill_on_bad_exit},
    {"requeue-without-wait", LintSeverity::warning,
     "--requeue, and srun autolaunch on several nodes without --wait",
     "srun waits for the task of a lost node until Slurm notices (SlurmdTimeout, 300 s); only then "
     "is the job requeued.",
     "srun --wait=60 autolaunch …", requeue_without_wait},
    {"nnodes-mismatch", LintSeverity::error, "--nnodes is not the number of nodes that srun uses",
     "The launchers wait for nodes that never come, or turn some away.",
     "--nnodes=$SLURM_NNODES; autolaunch needs none", nnodes_mismatch},
    {"standalone-nodes", LintSeverity::error, "--standalone in a job of several nodes",
     "Each node trains a model of its own, and the job looks as if it worked.",
     "remove --standalone; torchrun then needs --nnodes, --rdzv-backend=c10d and --rdzv-endpoint",
     standalone},
}};

}  // namespace

std::span<const Rule> launch_rules() { return kLaunchRules; }

}  // namespace autolaunch::launcher
