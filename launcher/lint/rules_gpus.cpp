// GPUs as they are asked for: whether the ways to say it agree, and whether the tasks fit them.

#include "base/text.hpp"
#include "lint/launch_edits.hpp"
#include "lint/rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace autolaunch::launcher {

namespace {

constexpr long long kMost = 100'000;  // nodes, tasks and GPUs that are counted

/// The options of one sbatch, salloc or srun.
struct Request {
    std::vector<SlurmOption> options;
    const SbatchScript& script;

    const SlurmOption* find(std::string_view name) const {
        const auto found = std::find_if(options.rbegin(), options.rend(),
                                        [&](const auto& option) { return option.name == name; });
        return found == options.rend() ? nullptr : &*found;
    }
    std::string text(std::string_view name) const {
        const SlurmOption* option = find(name);
        return option == nullptr ? std::string() : script.resolved(option->value);
    }
    std::optional<long long> number(std::string_view name) const {
        const auto value = whole_number(text(name));
        return value && *value > 0 && *value <= kMost ? value : std::nullopt;
    }
};

std::vector<Request> sallocs(const SbatchScript& script) {
    std::vector<Request> found;
    for (const auto& command : script.shell.commands) {
        const auto words = script.expanded(command.words);
        if (words.empty() || words[0].value != "salloc")
            continue;
        found.push_back(
            {parse_slurm_options(std::span(words).subspan(1), SlurmProgram::salloc).options,
             script});
    }
    return found;
}

/// One way in which GPUs are asked for.
struct GpuCount {
    const SlurmOption* option = nullptr;
    std::optional<long long> a_node, in_all;
};

std::vector<GpuCount> gpu_counts(const Request& request) {
    std::vector<GpuCount> counts;
    const auto nodes = request.number("nodes");
    for (const char* name : {"gpus-per-node", "gres", "gpus"}) {
        const SlurmOption* option = request.find(name);
        const std::string text = request.text(name);
        const auto count =
            std::string_view(name) == "gres" ? gres_gpu_count(text) : gpu_count(text);
        if (option == nullptr || !count || *count < 1 || *count > kMost)
            continue;
        GpuCount one{option, {}, {}};
        if (option->name != "gpus") {
            one.a_node = count;
            one.in_all = nodes ? std::optional(*count * *nodes) : std::nullopt;
        } else {
            one.in_all = count;
            if (nodes && *count % *nodes == 0)
                one.a_node = *count / *nodes;
        }
        counts.push_back(one);
    }
    return counts;
}

bool agree(const GpuCount& a, const GpuCount& b) {
    if (a.in_all && b.in_all)
        return a.in_all == b.in_all;
    return !a.a_node || !b.a_node || a.a_node == b.a_node;
}

std::string in_words(const GpuCount& count) {
    return fmt::format("--{}={}", count.option->name, count.option->value.value);
}

void compare(const Subject& subject, const Request& request, RuleHits& hits) {
    const auto counts = gpu_counts(request);
    for (std::size_t i = 1; i < counts.size(); ++i) {
        const GpuCount& kept = counts[0];
        const GpuCount& other = counts[i];
        if (agree(kept, other))
            continue;
        const std::string numbers =
            kept.in_all && other.in_all
                ? fmt::format("{} and {} GPUs in all", *kept.in_all, *other.in_all)
                : fmt::format("{} and {} GPUs a node", *kept.a_node, *other.a_node);
        hits.push_back({std::max(kept.option->line, other.option->line),
                        fmt::format("{} and {}: {}", in_words(kept), in_words(other), numbers),
                        fmt::format("keep one of them: leave {} out", in_words(other)),
                        remove_option(subject.source, *other.option)});
    }
}

/// A step cannot have more GPUs of a node than the job.
void compare_step(const Subject& subject, const Launch& launch, RuleHits& hits) {
    const auto job = subject.script.gpus_per_node();
    if (!launch.by_srun || !job || subject.script.options.empty())
        return;
    const Request step{launch.srun_options, subject.script};
    for (const GpuCount& count : gpu_counts(step))
        if (count.option->name != "gpus" && *count.a_node > *job)
            hits.push_back({count.option->line,
                            fmt::format("{} of srun, and the job has {} GPU{} a node",
                                        in_words(count), *job, *job == 1 ? "" : "s"),
                            "leave it out of srun's options: the step has the job's GPUs",
                            remove_option(subject.source, *count.option)});
}

RuleHits counts_differ(const Subject& subject) {
    RuleHits hits;
    compare(subject, {subject.script.options, subject.script}, hits);
    for (const auto& request : sallocs(subject.script))
        compare(subject, request, hits);
    for (const auto& launch : subject.launches) {
        compare(subject, {launch.srun_options, subject.script}, hits);
        compare_step(subject, launch, hits);
    }
    return hits;
}

struct Fit {
    long long tasks = 0, gpus = 0;
    bool in_all = false;

    bool good() const { return tasks < 2 || gpus < 1 || (tasks <= gpus && gpus % tasks == 0); }
    std::string message(const char* who) const {
        const char* each = in_all ? " in all" : " a node";
        return tasks > gpus ? fmt::format("{} {} tasks{} for {} GPU{}: several share one", who,
                                          tasks, each, gpus, gpus == 1 ? "" : "s")
                            : fmt::format("{} {} tasks{}, and {} GPUs cannot be shared out evenly",
                                          who, tasks, each, gpus);
    }
};

/// Of options that say both.
std::optional<Fit> fit_of(const Request& request) {
    if (request.find("gpus-per-task") != nullptr || request.find("ntasks-per-gpu") != nullptr)
        return std::nullopt;
    const auto counts = gpu_counts(request);
    const auto nodes = request.number("nodes");
    const auto tasks = request.number("ntasks");
    auto a_node = request.number("ntasks-per-node");
    if (!a_node && tasks && nodes && *tasks % *nodes == 0)
        a_node = *tasks / *nodes;
    for (const GpuCount& count : counts) {
        if (a_node && count.a_node)
            return Fit{*a_node, *count.a_node, false};
        if (tasks && count.in_all)
            return Fit{*tasks, *count.in_all, true};
    }
    return std::nullopt;
}

Edits one_task_a_gpu(const Subject& subject, const Request& request, const Fit& fit) {
    if (const SlurmOption* option = request.find("ntasks-per-node"))
        return set_option_value(subject.source, *option, std::to_string(fit.gpus));
    const SlurmOption* option = request.find("ntasks");
    const auto nodes = fit.in_all ? std::optional(1LL) : request.number("nodes");
    return option != nullptr && nodes
               ? set_option_value(subject.source, *option, std::to_string(fit.gpus * *nodes))
               : Edits{};
}

std::string fix_of(const Fit& fit) {
    return fit.in_all ? fmt::format("one task a GPU: --ntasks={}", fit.gpus)
                      : fmt::format("one task a GPU: --ntasks-per-node={}", fit.gpus);
}

/// srun's own options and, of what they leave open, the directives'.
std::optional<Fit> fit_of_step(const Launch& launch, const SbatchScript& script) {
    const Request own{launch.srun_options, script};
    for (const char* name : {"gpus-per-task", "ntasks-per-gpu"})
        if (own.find(name) != nullptr || script.has(name))
            return std::nullopt;
    const auto tasks = tasks_per_node_of(launch, script);
    auto gpus = script.gpus_per_node();
    for (const GpuCount& count : gpu_counts(own))
        if (count.a_node)
            gpus = count.a_node;
    if (tasks && gpus && *tasks <= kMost && *gpus <= kMost)
        return Fit{*tasks, *gpus, false};
    return fit_of(own);
}

RuleHits tasks_and_gpus(const Subject& subject) {
    RuleHits hits;
    for (const auto& request : sallocs(subject.script)) {
        const auto fit = fit_of(request);
        if (fit && !fit->good())
            hits.push_back({request.options.front().line, fit->message("salloc asks for"),
                            fix_of(*fit), one_task_a_gpu(subject, request, *fit)});
    }
    for (const auto& launch : subject.launches) {
        if (!launch.by_srun || (launch.tool != Tool::python && launch.tool != Tool::autolaunch))
            continue;
        const auto fit = fit_of_step(launch, subject.script);
        if (fit && !fit->good())
            hits.push_back(
                {launch.line, fit->message("srun starts"), fix_of(*fit),
                 fit->in_all ? one_task_a_gpu(subject, {launch.srun_options, subject.script}, *fit)
                             : set_tasks_per_node(subject, launch, fit->gpus)});
    }
    return hits;
}

constexpr std::array<Rule, 2> kGpuRules = {{
    {"gpu-counts-differ", LintSeverity::error,
     "--gpus, --gpus-per-node and --gres ask for different numbers",
     "Slurm refuses the job, or one of them counts and GPUs are missing or stay idle.",
     "keep one of them", counts_differ},
    {"tasks-and-gpus", LintSeverity::warning, "srun or salloc with tasks that do not fit the GPUs",
     "Each task of a trainer takes a GPU: two on one GPU are refused by NCCL (duplicate GPU) or "
     "share its memory, and what cannot be shared out evenly stays idle.",
     "one task a GPU, or one task a node with a launcher in it", tasks_and_gpus},
}};

}  // namespace

std::span<const Rule> gpu_rules() { return kGpuRules; }

}  // namespace autolaunch::launcher
