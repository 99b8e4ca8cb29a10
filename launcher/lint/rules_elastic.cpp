// A job that may lose nodes (--nnodes MIN:MAX, spares), and what its submission makes of that.

#include "base/text.hpp"
#include "lint/elasticity.hpp"
#include "lint/launch_edits.hpp"
#include "lint/rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace autolaunch::launcher {

namespace {

std::optional<NodeRange> range_of(const ResourceSpec& resources) {
    const NodeRange range{resources.nodes, std::max(resources.nodes, resources.most_nodes),
                          resources.spare_nodes};
    const bool elastic = range.most > range.fewest || range.spares > 0;
    return elastic ? std::optional(range) : std::nullopt;
}

std::optional<NodeRange> range_of_options(const Launch& launch, const SbatchScript& script) {
    NodeRange range;
    const std::string nodes = launch.option("--nnodes", script).value_or("1");
    const std::size_t colon = nodes.find(':');
    range.fewest = range.most = whole_number(nodes.substr(0, colon)).value_or(1);
    if (colon != std::string::npos)
        range.most = whole_number(nodes.substr(colon + 1)).value_or(range.fewest);
    range.spares = whole_number(launch.option("--spare-nodes", script).value_or("0")).value_or(0);
    return range.most > range.fewest || range.spares > 0 ? std::optional(range) : std::nullopt;
}

bool is_set(const Subject& subject, const char* name) {
    return std::any_of(subject.environment.begin(), subject.environment.end(),
                       [&](const EnvironmentSetting& setting) {
                           return setting.name == name && setting.exported &&
                                  setting.value != "0" && !setting.value.empty();
                       });
}

bool says_no(const std::string& value) { return value == "0" || value == "off" || value == "no"; }

/// The launches that may lose nodes, with how many they have.
template <typename Check>
RuleHits of_elastic(const Subject& subject, const Check& check) {
    RuleHits hits;
    for (const Launch& launch : subject.launches)
        if (const auto range = elastic_range(launch, subject))
            check(launch, *range, hits);
    return hits;
}

RuleHits no_kill_missing(const Subject& subject) {
    const SbatchScript& script = subject.script;
    return of_elastic(subject, [&](const Launch& launch, const NodeRange&, RuleHits& hits) {
        const SlurmOption* own = launch.srun_option("no-kill");
        const bool step =
            own != nullptr ? !says_no(own->value.value) : is_set(subject, "SLURM_NO_KILL");
        if (!step)
            hits.push_back({launch.line,
                            "the job may lose nodes, and srun without --no-kill ends the step "
                            "when Slurm notices a lost one",
                            "srun --no-kill --wait=0 autolaunch …",
                            add_srun_option(subject, launch, "--no-kill")});
        if (!script.options.empty() && !script.has("no-kill") && !is_set(subject, "SBATCH_NO_KILL"))
            hits.push_back({script.options.front().line,
                            "the job may lose nodes, and sbatch without --no-kill ends it when "
                            "Slurm notices a lost one",
                            "#SBATCH --no-kill",
                            add_directive(subject, script.options.front(), "--no-kill")});
    });
}

RuleHits step_ends_with_task(const Subject& subject) {
    const ConfLine* configured = subject.cluster.first_with("KillOnBadExit");
    const bool by_conf = configured != nullptr && configured->value("KillOnBadExit") == "1";
    return of_elastic(subject, [&](const Launch& launch, const NodeRange&, RuleHits& hits) {
        const SlurmOption* own = launch.srun_option("kill-on-bad-exit");
        const bool ends = own != nullptr ? !says_no(own->value.value)
                                         : by_conf || is_set(subject, "SLURM_KILL_BAD_EXIT");
        if (ends)
            hits.push_back({own != nullptr ? own->line : launch.line,
                            "the job may lose nodes, and with --kill-on-bad-exit the task of the "
                            "first lost one ends all others",
                            {},
                            own != nullptr
                                ? replace_option(subject.source, *own, "--kill-on-bad-exit=0")
                                : add_srun_option(subject, launch, "--kill-on-bad-exit=0")});
    });
}

RuleHits step_waits(const Subject& subject) {
    const ConfLine* configured = subject.cluster.first_with("WaitTime");
    const long long by_conf =
        configured != nullptr ? whole_number(configured->value("WaitTime")).value_or(0) : 0;
    return of_elastic(subject, [&](const Launch& launch, const NodeRange&, RuleHits& hits) {
        const SlurmOption* own = launch.srun_option("wait");
        long long seconds = by_conf;
        for (const EnvironmentSetting& setting : subject.environment)
            if (setting.name == "SLURM_WAIT" && setting.exported)
                seconds = whole_number(setting.value).value_or(0);
        if (own != nullptr)
            seconds = whole_number(subject.script.resolved(own->value)).value_or(0);
        if (seconds > 0)
            hits.push_back(
                {own != nullptr ? own->line : launch.line,
                 fmt::format("the job may lose nodes, and srun ends all others {} s after the task "
                             "of the first lost one has ended",
                             seconds),
                 {},
                 own != nullptr ? set_option_value(subject.source, *own, "0")
                                : add_srun_option(subject, launch, "--wait=0")});
    });
}

Edits more_nodes(const Subject& subject, const Launch& launch, const NodeRange& range) {
    const SlurmOption* option = launch.srun_option("nodes") != nullptr
                                    ? launch.srun_option("nodes")
                                    : subject.script.option("nodes");
    return option == nullptr
               ? Edits{}
               : set_option_value(subject.source, *option, std::to_string(range.all()));
}

RuleHits too_few_nodes(const Subject& subject) {
    return of_elastic(subject, [&](const Launch& launch, const NodeRange& range, RuleHits& hits) {
        const auto nodes = nodes_of(launch, subject.script);
        if (nodes && *nodes < range.all())
            hits.push_back(
                {launch.line,
                 range.spares > 0
                     ? fmt::format("{} nodes and {} spare{} are {}, and srun starts it on {}",
                                   range.most, range.spares, range.spares == 1 ? "" : "s",
                                   range.all(), *nodes)
                     : fmt::format("up to {} nodes are asked for, and srun starts it on {}",
                                   range.most, *nodes),
                 fmt::format("#SBATCH --nodes={}", range.all()),
                 more_nodes(subject, launch, range)});
    });
}

RuleHits spec_nodes_too_few(const Subject& subject) {
    if (!subject.spec.readable())
        return {};
    const JobSpec& spec = subject.spec.result.spec;
    const auto range = range_of(spec.resources);
    if (!range || !spec.slurm.nodes || *spec.slurm.nodes >= range->all())
        return {};
    return {{subject.spec.line_of("slurm_config.nodes"),
             fmt::format("{} nodes are asked of Slurm, and the job can use {}: {} and {} spare{}",
                         *spec.slurm.nodes, range->all(), range->most, range->spares,
                         range->spares == 1 ? "" : "s"),
             fmt::format("slurm_config: {{nodes: {}}}", range->all()),
             replace_yaml_value(subject.source, subject.spec.line_of("slurm_config.nodes"), "nodes",
                                std::to_string(range->all()))}};
}

constexpr std::array<Rule, 5> kElasticRules = {{
    {"elastic-no-kill", LintSeverity::warning,
     "a job that may lose nodes, without --no-kill for sbatch and srun",
     "Slurm ends the step, and the job, once it has noticed that a node is gone (SlurmdTimeout); "
     "the nodes that would go on are ended with it.",
     "#SBATCH --no-kill, and srun --no-kill --wait=0 autolaunch …", no_kill_missing},
    {"elastic-kill-on-bad-exit", LintSeverity::warning,
     "a job that may lose nodes, with --kill-on-bad-exit",
     "The agent of a lost node ends badly, and srun ends the step for it. autolaunch ends all "
     "ranks "
     "by itself when it must.",
     "srun --kill-on-bad-exit=0 autolaunch …", step_ends_with_task},
    {"elastic-wait", LintSeverity::warning, "a job that may lose nodes, with srun --wait",
     "srun kills the other tasks so long after the first has ended; a lost node's ends first.",
     "srun --wait=0 autolaunch …", step_waits},
    {"elastic-too-few-nodes", LintSeverity::warning,
     "fewer nodes than --nnodes MIN:MAX and --spare-nodes are in all",
     "Spares are kept first: the job starts smaller than it could, or without them.",
     "ask for MAX nodes and the spares", too_few_nodes},
    {"spec-elastic-nodes", LintSeverity::warning,
     "slurm_config.nodes is less than resource_management.nodes' max and spares",
     "Spares are kept first: the job starts smaller than it could, or without them.",
     "slurm_config.nodes: max and spares", spec_nodes_too_few},
}};

}  // namespace

std::optional<NodeRange> elastic_range(const Launch& launch, const Subject& subject) {
    if (!launch.by_srun || launch.tool != Tool::autolaunch)
        return std::nullopt;
    if (auto range = range_of_options(launch, subject.script))
        return range;
    if (!subject.resources_of || launch.option_word("--nnodes") != nullptr)
        return std::nullopt;
    for (const char* name : {"-c", "--config"})
        if (const auto file = launch.option(name, subject.script))
            if (const auto resources = subject.resources_of(*file))
                return range_of(*resources);
    return std::nullopt;
}

std::span<const Rule> elastic_rules() { return kElasticRules; }

}  // namespace autolaunch::launcher
