// Launchers as they are started by habit: one for each rank, and programs that Python does not run.

#include "base/text.hpp"
#include "lint/launch_edits.hpp"
#include "lint/rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace autolaunch::launcher {

namespace {

bool is_torch(Tool tool) { return tool == Tool::torchrun || tool == Tool::torch_launch; }

RuleHits no_python(const Subject& subject) {
    RuleHits hits;
    for (const auto& launch : subject.launches) {
        if (launch.tool != Tool::autolaunch && !is_torch(launch.tool))
            continue;
        const Word* flag = launch.option_word("--no-python");
        const Word* program = flag == nullptr ? nullptr : launch.started();
        // What is named with a folder may have a #! line and be executable.
        if (program == nullptr || !program->value.ends_with(".py") || !program->literal ||
            program->value.find('/') != std::string::npos)
            continue;
        hits.push_back({flag->line,
                        fmt::format("--no-python starts {} itself, not Python: it is looked for "
                                    "among the programs of PATH",
                                    program->value),
                        {},
                        remove_tool_flag(subject, launch, "--no-python")});
    }
    return hits;
}

/// accelerate and deepspeed: launchers, too, for which nothing else is checked.
const char* foreign_launcher(const Launch& launch) {
    if (launch.tool != Tool::other || launch.program.empty())
        return nullptr;
    const std::string name = program_name(launch.program[0].value);
    if (name == "accelerate" && launch.program.size() > 1 && launch.program[1].value == "launch")
        return "accelerate launch";
    return name == "deepspeed" ? "deepspeed" : nullptr;
}

bool is_given(const Subject& subject, std::string_view name) {
    return std::any_of(subject.environment.begin(), subject.environment.end(),
                       [&](const EnvironmentSetting& setting) { return setting.name == name; });
}

/// Whether each task is meant to be a node of torchrun's: --nnodes is the number of tasks, and each
/// has a GPU of its own.
bool counts_tasks_as_nodes(const Launch& launch, const SbatchScript& script) {
    if (launch.srun_option("gpus-per-task") != nullptr || script.has("gpus-per-task"))
        return true;
    for (const char* name : {"--nnodes", "--num-machines", "--num-processes"})
        if (const Word* word = launch.option_word(name))
            for (const char* tasks : {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"})
                if (word->raw.find(tasks) != std::string::npos || word->expands(tasks))
                    return true;
    const auto nodes = launch.option("--nnodes", script);
    const auto machines = nodes_of(launch, script);
    const auto number = nodes ? whole_number(nodes->substr(0, nodes->find(':'))) : std::nullopt;
    return number && machines && *number > *machines;
}

void per_task(const Subject& subject, const Launch& launch, RuleHits& hits) {
    const auto tasks = tasks_per_node_of(launch, subject.script);
    const char* other = foreign_launcher(launch);
    if (!launch.by_srun || (!is_torch(launch.tool) && other == nullptr) || !tasks || *tasks < 2 ||
        *tasks > 100'000)
        return;
    const Word* asked = launch.option_word("--nproc-per-node");
    const auto ranks = ranks_per_launcher(launch, subject.script);
    if (asked != nullptr && ranks != std::optional(1LL))
        return;  // too-many-processes
    if (launch.has_unknown_options() || counts_tasks_as_nodes(launch, subject.script))
        return;
    const char* name = other != nullptr ? other : name_of(launch.tool);
    hits.push_back(
        {launch.line,
         other != nullptr
             ? fmt::format("srun starts {} tasks a node, and {} in each of them", *tasks, name)
             : fmt::format(
                   "srun starts {0} tasks a node, each a {1} of one rank: every one of them "
                   "has LOCAL_RANK 0, and takes the first GPU",
                   *tasks, name),
         fmt::format("one task a node, and its ranks by {}: --ntasks-per-node=1{}", name,
                     other != nullptr ? "" : fmt::format(", {} --nproc-per-node={}", name, *tasks)),
         other != nullptr ? set_tasks_per_node(subject, launch, 1)
                          : together(set_tasks_per_node(subject, launch, 1),
                                     set_tool_option(subject, launch, "--nproc-per-node",
                                                     std::to_string(*tasks)))});
}

/// NAME of `for NAME in …`, of all loops; "" for `for ((…))`.
std::set<std::string> loop_variables(const ShellScript& shell) {
    std::set<std::string> names;
    for (const auto& command : shell.commands)
        if (command.is("for"))
            names.insert(command.words.size() > 1 ? command.words[1].value : "");
    return names;
}

/// Whether the launch says which of several it is: by a loop's variable or a number.
bool says_which(const Launch& launch, const std::set<std::string>& loops,
                const SbatchScript& script) {
    for (const auto& assignment : launch.command->prefix)
        for (const char* name : {"RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK"})
            if (assignment.name == name && launch.command->depth > 0)
                return true;
    const Word* word = launch.value_word("--node-rank");
    if (word == nullptr || launch.command->depth == 0)
        return false;
    return std::any_of(
        word->expansions.begin(), word->expansions.end(), [&](const std::string& name) {
            const bool counted = loops.contains("") && !script.variables.contains(name) &&
                                 !name.starts_with("SLURM_");
            return loops.contains(name) || counted;
        });
}

void in_batch_step(const Subject& subject, const Launch& launch, const std::set<std::string>& loops,
                   RuleHits& hits) {
    const bool launcher = is_torch(launch.tool) || launch.tool == Tool::autolaunch;
    if (!launcher || launch.by_srun || !subject.script.is_batch || !launch.command->background ||
        !says_which(launch, loops, subject.script))
        return;
    hits.push_back(
        {launch.line,
         fmt::format("a loop in the batch step starts one {} after the other, and all of "
                     "them on the first node",
                     name_of(launch.tool)),
         "srun autolaunch, or srun torchrun --nproc-per-node N: srun starts one on "
         "each node"});
}

RuleHits per_rank(const Subject& subject) {
    RuleHits hits;
    const auto loops = loop_variables(subject.script.shell);
    const bool by_environment = is_given(subject, "PET_NPROC_PER_NODE");
    for (const auto& launch : subject.launches) {
        if (!by_environment)
            per_task(subject, launch, hits);
        in_batch_step(subject, launch, loops, hits);
    }
    return hits;
}

constexpr std::array<Rule, 2> kHabitRules = {{
    {"launcher-per-rank", LintSeverity::error, "one launcher for each rank",
     "A launcher starts all ranks of its node, and numbers them. Of several on a node each numbers "
     "from 0.",
     "one task a node: --ntasks-per-node=1, and --nproc-per-node for the ranks", per_rank},
    {"no-python-script", LintSeverity::error, "--no-python with a Python program",
     "--no-python is for programs that are started as they are; a .py file is none.",
     "leave --no-python out", no_python},
}};

}  // namespace

std::span<const Rule> habit_rules() { return kHabitRules; }

}  // namespace autolaunch::launcher
