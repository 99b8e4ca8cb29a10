// train.yaml: what its own reader finds, and what fits badly together.

#include "allocation/kill_wait.hpp"
#include "base/text.hpp"
#include "lint/launches.hpp"
#include "lint/rule.hpp"
#include "stopping/stop_budget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <set>

namespace autolaunch::launcher {

namespace {

const JobSpec* spec_of(const Subject& subject) {
    return subject.spec.readable() ? &subject.spec.result.spec : nullptr;
}

RuleHits spec_error(const Subject& subject) {
    RuleHits hits;
    for (const auto& error : subject.spec.result.errors) {
        const bool elsewhere = !error.file.empty() && error.file != subject.spec.file;
        const std::string place =
            elsewhere ? fmt::format("{}:{}: ", error.file, error.line) : std::string();
        const std::string key = error.key.empty() ? std::string() : error.key + ": ";
        hits.push_back({elsewhere ? 1 : std::max(1, error.line), place + key + error.message});
    }
    return hits;
}

RuleHits restart_no_checkpoint(const Subject& subject) {
    const JobSpec* spec = spec_of(subject);
    if (spec == nullptr || spec->restart.max_restarts == 0 || spec->checkpoint.enabled)
        return {};
    if (!spec->checkpoint.restore_from.empty() || !subject.spec.names("checkpoint"))
        return {};
    return {
        {subject.spec.line_of("restart.max_restarts"),
         fmt::format(
             "max_restarts is {}, and checkpoint.enabled is false: each restart begins at step 0",
             spec->restart.max_restarts)}};
}

RuleHits checkpoint_no_restart(const Subject& subject) {
    const JobSpec* spec = spec_of(subject);
    if (spec == nullptr || !spec->checkpoint.enabled || spec->restart.max_restarts > 0)
        return {};
    return {{subject.spec.line_of("checkpoint.enabled"),
             "checkpoints are saved, and restart.max_restarts is 0",
             {},
             subject.spec.names("restart")
                 ? Edits{}
                 : append_line(subject.source, "restart: {max_restarts: 3}")}};
}

RuleHits checkpoint_no_folder(const Subject& subject) {
    const JobSpec* spec = spec_of(subject);
    if (spec == nullptr || !spec->checkpoint.enabled || !spec->checkpoint.checkpoint_dir.empty())
        return {};
    return {{subject.spec.line_of("checkpoint.enabled"),
             "checkpoint.enabled without checkpoint_dir: where they go is "
             "the trainer's guess"}};
}

RuleHits grace_period(const Subject& subject) {
    using namespace std::chrono_literals;
    const JobSpec* spec = spec_of(subject);
    if (spec == nullptr)
        return {};
    const auto kill_wait = kill_wait_in(subject.cluster).value_or(kDefaultKillWait);
    const std::string& signal =
        spec->slurm.signal;  // with lead time enough, the stop does not come from the time limit
    const std::size_t at = signal.find('@');
    const auto lead = at == std::string::npos ? std::nullopt : whole_number(signal.substr(at + 1));
    if (lead && *lead <= 65'535 && spec->restart.grace_period <= std::chrono::seconds(*lead))
        return {};
    if (spec->restart.grace_period < kill_wait || !subject.spec.names("restart.grace_period"))
        return {};
    return {{subject.spec.line_of("restart.grace_period"),
             fmt::format("grace_period is {} s, and Slurm kills everything {} s after SIGTERM",
                         spec->restart.grace_period / 1s, kill_wait / 1s),
             {},
             kill_wait > 5s
                 ? replace_yaml_value(subject.source, subject.spec.line_of("restart.grace_period"),
                                      "grace_period", fmt::format("{}s", (kill_wait - 5s) / 1s))
                 : Edits{}}};
}

// By what the saves of the newest run took. With a signal early enough the time limit is no danger.
RuleHits save_time(const Subject& subject) {
    const JobSpec* spec = spec_of(subject);
    if (spec == nullptr || !subject.save_times)
        return {};
    const std::string& runs = spec->monitoring.log_path;
    const SaveTimes saves = subject.save_times(runs.empty() ? "runs" : runs);
    const std::string& signal = spec->slurm.signal;
    const std::size_t at = signal.find('@');
    const auto lead = at == std::string::npos ? std::nullopt : whole_number(signal.substr(at + 1));
    const auto copies = spec->storage.stage_out_time;
    const auto need = needed_for(saves.p99().value_or(spec->restart.grace_period)) + copies;
    if ((!saves.p99() && copies.count() == 0) ||
        (lead && *lead <= 65'535 && need <= std::chrono::seconds(*lead)))
        return {};
    const std::string found =
        budget_warning({.save = saves.p99(),
                        .saves = saves.count(),
                        .grace_period = spec->restart.grace_period,
                        .kill_wait = kill_wait_in(subject.cluster).value_or(kDefaultKillWait),
                        .copies = copies,
                        .killer = StopTimes::Killer::slurm});
    if (found.empty())
        return {};
    const bool enough = need <= std::chrono::seconds(120);
    return {{subject.spec.line_of(saves.p99() ? "restart.grace_period" : "storage.stage_out_time"),
             found,
             {},
             enough && !subject.spec.names("slurm_config")
                 ? append_line(subject.source, "slurm_config: {signal: TERM@120}")
                 : Edits{}}};
}

/// The words that a rank begins with; of a shell's text, its last command's.
std::vector<std::string> first_words(const std::vector<std::string>& command) {
    if (command[0] != "/bin/sh" || command.size() < 3)
        return command;
    const auto inner = parse_shell(command[2]);
    std::vector<std::string> words;
    if (!inner.commands.empty())
        for (const Word& word : inner.commands.back().words)
            if (!words.empty() || word.value != "exec")
                words.push_back(word.value);
    return words;
}

RuleHits nested_launcher(const Subject& subject) {
    static const std::set<std::string> kLaunchers = {"torchrun",   "mpirun",     "mpiexec",  "srun",
                                                     "autolaunch", "accelerate", "deepspeed"};
    const JobSpec* spec = spec_of(subject);
    if (spec == nullptr || spec->trainer.command.empty())
        return {};
    const auto words = first_words(spec->trainer.command);
    const std::string name = words.empty() ? "" : program_name(words[0]);
    const bool module = spec->trainer.module == "torch.distributed.run" ||
                        spec->trainer.module == "torch.distributed.launch";
    const bool asks_us = name == "autolaunch" && words.size() > 1 && is_own_subcommand(words[1]);
    if ((!kLaunchers.contains(name) || asks_us) && !module)
        return {};
    return {{subject.spec.line_of(module ? "trainer.module" : "trainer.command"),
             fmt::format("every rank starts {}, which starts ranks of its own",
                         module ? spec->trainer.module : name)}};
}

RuleHits ranks_and_tasks(const Subject& subject) {
    const JobSpec* spec = spec_of(subject);
    if (spec == nullptr || !spec->slurm.ntasks_per_node || *spec->slurm.ntasks_per_node < 2)
        return {};
    const bool fixed = spec->resources.ranks_mode == RanksPerNode::fixed;
    if (!fixed || spec->resources.ranks_per_node == *spec->slurm.ntasks_per_node)
        return {};
    return {
        {subject.spec.line_of("slurm_config.ntasks_per_node"),
         fmt::format("{} tasks a node and {} ranks a node: autolaunch refuses to start",
                     *spec->slurm.ntasks_per_node, spec->resources.ranks_per_node),
         {},
         replace_yaml_value(subject.source, subject.spec.line_of("slurm_config.ntasks_per_node"),
                            "ntasks_per_node", "1")}};
}

RuleHits gpus_differ(const Subject& subject) {
    const JobSpec* spec = spec_of(subject);
    if (spec == nullptr)
        return {};
    const auto granted = spec->slurm.gpus_per_node ? spec->slurm.gpus_per_node : std::nullopt;
    const auto used = spec->resources.gpus_per_node;
    if (!granted || !used || *granted == *used)
        return {};
    return {{subject.spec.line_of("slurm_config.gpus_per_node"),
             fmt::format("{} GPUs a node are asked of Slurm, and {} are used", *granted, *used),
             {},
             replace_yaml_value(subject.source,
                                subject.spec.line_of("resource_management.gpus_per_node"),
                                "gpus_per_node", std::to_string(*granted))}};
}

RuleHits nodes_differ(const Subject& subject) {
    const JobSpec* spec = spec_of(subject);
    if (spec == nullptr || !spec->slurm.nodes || !subject.spec.names("resource_management.nodes"))
        return {};
    const int line = subject.spec.line_of("resource_management.nodes");
    const bool by_variable =
        subject.spec.lines[static_cast<std::size_t>(line) - 1].find("${") != std::string::npos;
    const bool is_range =
        spec->resources.most_nodes > spec->resources.nodes || spec->resources.spare_nodes > 0;
    if (by_variable || is_range || *spec->slurm.nodes == spec->resources.nodes)
        return {};
    return {
        {subject.spec.line_of("slurm_config.nodes"),
         fmt::format("{} nodes are asked of Slurm, and {} are used", *spec->slurm.nodes,
                     spec->resources.nodes),
         {},
         replace_yaml_value(subject.source, line, "nodes", std::to_string(*spec->slurm.nodes))}};
}

RuleHits batch_signal(const Subject& subject) {
    const JobSpec* spec = spec_of(subject);
    if (spec == nullptr)
        return {};
    const std::string& signal = spec->slurm.signal;
    if (!signal.starts_with("B:") && !signal.starts_with("b:"))
        return {};
    return {{subject.spec.line_of("slurm_config.signal"),
             fmt::format("{} goes to the batch shell, not to autolaunch", signal),
             {},
             replace_yaml_value(subject.source, subject.spec.line_of("slurm_config.signal"),
                                "signal", signal.substr(2))}};
}

constexpr std::array<Rule, 11> kSpecRules = {{
    {"spec-error", LintSeverity::error, "the spec is wrong", "autolaunch does not start with it.",
     "see docs/spec.md for the key", spec_error},
    {"spec-restart-no-checkpoint", LintSeverity::warning, "restarts without checkpoints",
     "A restart without a checkpoint repeats everything from the first step.",
     "checkpoint.enabled: true, and a checkpoint_dir that all nodes share", restart_no_checkpoint},
    {"spec-checkpoint-no-restart", LintSeverity::info, "checkpoints without restarts",
     "A rank that fails then ends the job, although it could go on from its last checkpoint.",
     "restart: {max_restarts: 3}", checkpoint_no_restart},
    {"spec-checkpoint-no-folder", LintSeverity::info, "checkpoint.enabled without checkpoint_dir",
     "After a requeue nobody knows where they are.", "name checkpoint.checkpoint_dir",
     checkpoint_no_folder},
    {"spec-grace-period", LintSeverity::warning,
     "restart.grace_period is not below Slurm's KillWait",
     "After scancel or at the time limit Slurm sends SIGKILL KillWait (30 s) after SIGTERM, "
     "whatever the spec says.",
     "grace_period: 25s, or a longer KillWait in slurm.conf (checked with --slurm-conf)",
     grace_period},
    {"spec-save-time", LintSeverity::warning, "a save takes longer than a stop leaves",
     "The newest run (`latest` in monitoring.log_path) has recorded how long its saves took. One "
     "that is begun at Slurm's SIGTERM is cut off, and the work since the last one lost.",
     "slurm_config.signal: TERM@120, or #SBATCH --signal=TERM@120", save_time},
    {"spec-nested-launcher", LintSeverity::error, "the trainer's command is a launcher",
     "autolaunch starts every rank itself.", "name the trainer: command: [python3, train.py]",
     nested_launcher},
    {"spec-ranks-and-tasks", LintSeverity::error,
     "slurm_config.ntasks_per_node is not ranks_per_node",
     "With several tasks a node each task becomes a rank, so the numbers must be the same.",
     "ntasks_per_node: 1, or leave ranks_per_node out", ranks_and_tasks},
    {"spec-gpus-differ", LintSeverity::warning,
     "GPUs asked of Slurm and GPUs used are not the same", "The others stay idle, or are missing.",
     "make them the same, or leave resource_management.gpus_per_node out", gpus_differ},
    {"spec-nodes-differ", LintSeverity::warning,
     "nodes asked of Slurm and nodes used are not the same",
     "The allocation decides, and the spec misleads its readers.",
     "make them the same, or leave resource_management.nodes out", nodes_differ},
    {"spec-batch-signal", LintSeverity::warning,
     "slurm_config.signal with B:", "autolaunch runs in a step; B: signals the batch shell only.",
     "signal: USR1@120", batch_signal},
}};

}  // namespace

std::span<const Rule> spec_rules() { return kSpecRules; }

}  // namespace autolaunch::launcher
