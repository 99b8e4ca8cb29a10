// What is asked of Slurm: #SBATCH lines, srun's options, and what Slurm does with them.

#include "base/text.hpp"
#include "lint/launch_edits.hpp"
#include "lint/rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>

namespace autolaunch::launcher {

namespace {

RuleHits no_shebang(const Subject& subject) {
    const auto& script = subject.script;
    if (script.options.empty() || script.lines.empty() || script.lines[0].starts_with("#!"))
        return {};
    return {{1, "the first line is not #!", {}, {{1, 1, "", "#!/bin/bash\n"}}}};
}

RuleHits dos_line_ends(const Subject& subject) {
    const auto& lines = subject.script.lines;
    const bool no_interpreter =
        !lines.empty() && lines[0].starts_with("#!") && lines[0].ends_with('\r');
    if (!subject.script.is_batch && !no_interpreter)
        return {};
    const auto found = std::find_if(lines.begin(), lines.end(),
                                    [](const auto& line) { return line.ends_with('\r'); });
    if (found == lines.end())
        return {};
    constexpr std::size_t kMostEdits = 10'000;
    Edits edits;
    for (std::size_t i = 0; i < lines.size() && lines.size() <= kMostEdits; ++i)
        if (lines[i].ends_with('\r'))
            edits.push_back({static_cast<int>(i) + 1, static_cast<int>(lines[i].size()), "\r", ""});
    return {{static_cast<int>(found - lines.begin()) + 1,
             "the line ends with a carriage return",
             {},
             std::move(edits)}};
}

/// To the other directives, or below the first line.
Edits move_up(const Subject& subject, int line) {
    const auto& options = subject.script.options;
    const std::string* text = subject.source.at(line);
    if (text == nullptr)
        return {};
    const int above = options.empty() ? subject.source.first_line : options.back().line;
    return together({{above + 1, 1, "", *text + '\n'}}, remove_line(subject.source, line));
}

RuleHits late_directive(const Subject& subject) {
    RuleHits hits;
    for (const int line : subject.script.late_directives)
        hits.push_back(
            {line, "behind the first command: Slurm does not read it", {}, move_up(subject, line)});
    return hits;
}

RuleHits disguised_directive(const Subject& subject) {
    RuleHits hits;
    for (const int line : subject.script.disguised_directives)
        hits.push_back(
            {line, "not at the line's beginning, or with a blank behind #: a comment to Slurm"});
    return hits;
}

/// In the name of a log Slurm has patterns for some.
Edits as_pattern(const Subject& subject, const SlurmOption& option) {
    if (option.name != "output" && option.name != "error" && option.name != "input")
        return {};
    std::string path = option.value.value;
    for (const auto& [name, pattern] :
         std::initializer_list<std::pair<const char*, const char*>>{{"SLURM_JOB_ID", "%j"},
                                                                    {"SLURM_JOBID", "%j"},
                                                                    {"SLURM_JOB_NAME", "%x"},
                                                                    {"SLURM_ARRAY_TASK_ID", "%a"},
                                                                    {"SLURM_ARRAY_JOB_ID", "%A"},
                                                                    {"USER", "%u"}})
        for (const std::string& written : {"${" + std::string(name) + '}', '$' + std::string(name)})
            if (const std::size_t at = path.find(written); at != std::string::npos)
                path.replace(at, written.size(), pattern);
    return path.find_first_of("$`") == std::string::npos
               ? set_option_value(subject.source, option, path)
               : Edits{};
}

RuleHits directive_variable(const Subject& subject) {
    RuleHits hits;
    for (const auto& option : subject.script.options)
        if (option.has_value && !option.value.literal)
            hits.push_back(
                {option.line,
                 fmt::format("--{}={}: no shell reads this line, so it stays as it is written",
                             option.name, option.value.value),
                 {},
                 as_pattern(subject, option)});
    return hits;
}

RuleHits unknown_option(const Subject& subject) {
    RuleHits hits;
    for (const auto& unknown : subject.script.unknown)
        hits.push_back(
            {unknown.line,
             fmt::format("sbatch knows no option {}{}", unknown.written,
                         unknown.nearest.empty() ? "" : "; did you mean " + unknown.nearest + "?"),
             unknown.nearest.empty() ? "" : "write " + unknown.nearest,
             unknown.nearest.empty()
                 ? Edits{}
                 : replace_text(subject.source, unknown.line, unknown.written, unknown.nearest)});
    return hits;
}

// A site's own plugins have options that nobody else has heard of.
RuleHits spank_option(const Subject& subject) {
    RuleHits hits;
    for (const auto& option : subject.script.of_plugins)
        hits.push_back(
            {option.line, option.plugin.empty()
                              ? fmt::format("{} is none of sbatch's own options", option.written)
                              : fmt::format("{} is an option of {}, which is a plugin of Slurm",
                                            option.written, option.plugin)});
    return hits;
}

RuleHits short_equals(const Subject& subject) {
    RuleHits hits;
    for (const auto& option : subject.script.options)
        if (option.short_form && option.has_value && option.value.value.starts_with('='))
            hits.push_back(
                {option.line,
                 fmt::format("a short option takes no =: the value of --{} is \"{}\"", option.name,
                             option.value.value),
                 {},
                 replace_option(subject.source, option, "--" + option.name + option.value.value)});
    return hits;
}

RuleHits option_twice(const Subject& subject) {
    RuleHits hits;
    std::map<std::string, const SlurmOption*> seen;
    for (const auto& option : subject.script.options) {
        const auto [before, fresh] = seen.try_emplace(option.name, &option);
        if (option.name == "mail-type")
            continue;  // Slurm adds them up
        if (!fresh && before->second->value.value != option.value.value)
            hits.push_back(
                {option.line,
                 fmt::format("--{} again, and different from line {}: the last one counts",
                             option.name, before->second->line),
                 fmt::format("remove one of them: that of line {} has no effect",
                             before->second->line),
                 remove_option(subject.source, *before->second)});
        before->second = &option;
    }
    return hits;
}

RuleHits output_folder(const Subject& subject) {
    RuleHits hits;
    for (const auto& option : subject.script.options) {
        if ((option.name != "output" && option.name != "error") || !option.has_value ||
            !option.value.literal)
            continue;
        const std::string& path = option.value.value;
        const std::size_t slash = path.rfind('/');
        if (slash == std::string::npos || slash == 0)
            continue;
        const std::string folder = path.substr(0, slash);
        if (folder.find('%') != std::string::npos) {
            hits.push_back({option.line,
                            fmt::format("the folder {} is not there when the job starts", folder)});
        } else if (subject.folder_exists && !subject.folder_exists(folder)) {
            hits.push_back({option.line, fmt::format("there is no folder {}", folder)});
        }
    }
    return hits;
}

RuleHits requeue_truncates(const Subject& subject) {
    const auto& script = subject.script;
    const SlurmOption* requeue = script.option("requeue");
    if (requeue == nullptr || script.text("open-mode") == "append")
        return {};
    const ConfLine* append = subject.cluster.first_with("JobFileAppend");
    if (append != nullptr && append->value("JobFileAppend") == "1")
        return {};
    return {{requeue->line,
             "--requeue without --open-mode=append: the second start empties the first one's log",
             {},
             add_directive(subject, *requeue, "--open-mode=append")}};
}

RuleHits memory_twice(const Subject& subject) {
    const auto& script = subject.script;
    const SlurmOption* first = nullptr;
    RuleHits hits;
    for (const auto& option : script.options) {
        if (option.name != "mem" && option.name != "mem-per-cpu" && option.name != "mem-per-gpu")
            continue;
        if (first != nullptr && first->name != option.name)
            hits.push_back({option.line, fmt::format("--{} and --{} exclude each other",
                                                     first->name, option.name)});
        first = &option;
    }
    return hits;
}

RuleHits gpus_mismatch(const Subject& subject) {
    const auto& script = subject.script;
    const SlurmOption* per_task = script.option("gpus-per-task");
    if (per_task == nullptr)
        return {};
    const auto each = gpu_count(per_task->value.value);
    const auto tasks = script.tasks_per_node();
    const bool by_node = script.has("gpus-per-node") || script.has("gres");
    const auto node = by_node ? script.gpus_per_node() : std::nullopt;
    if (!each || !tasks || !node || *tasks > 100'000 || *each * *tasks == *node)
        return {};
    return {
        {per_task->line,
         fmt::format("{} tasks a node with {} GPU{} each are {} GPUs, and {} a node are asked for",
                     *tasks, *each, *each == 1 ? "" : "s", *each * *tasks, *node),
         {},
         remove_option(subject.source, *per_task)}};
}

RuleHits cpus_not_handed_on(const Subject& subject) {
    const auto& script = subject.script;
    const auto cpus = script.number("cpus-per-task");
    if (!cpus || *cpus < 2)
        return {};
    for (const auto& assignment : script.shell.assignments)
        if (assignment.name == "SRUN_CPUS_PER_TASK")
            return {};
    RuleHits hits;
    for (const auto& launch : subject.launches) {
        // With the task count given, Slurm 22.05 and later gives each one CPU.
        const auto tasks = tasks_per_node_of(launch, script);
        const bool trains = launch.tool != Tool::other;
        if (launch.by_srun && trains && launch.srun_option("cpus-per-task") == nullptr &&
            !(tasks && *tasks == 1))
            hits.push_back(
                {launch.line,
                 fmt::format("srun does not take over --cpus-per-task={} of the #SBATCH lines",
                             *cpus),
                 {},
                 add_srun_option(subject, launch, "--cpus-per-task=$SLURM_CPUS_PER_TASK")});
    }
    return hits;
}

RuleHits gpu_bind(const Subject& subject) {
    RuleHits hits;
    const auto check = [&](const SlurmOption* option, int line) {
        if (option == nullptr)
            return;
        std::string_view value = option->value.value;
        if (value.starts_with("verbose,"))
            value.remove_prefix(8);
        if (value == "closest" || value.starts_with("single") || value.starts_with("per_task"))
            hits.push_back(
                {line,
                 fmt::format("--gpu-bind={} hides the other GPUs of the node from each rank",
                             value),
                 {},
                 remove_option(subject.source, *option)});
    };
    if (const auto* option = subject.script.option("gpu-bind"))
        check(option, option->line);
    for (const auto& launch : subject.launches)
        if (const auto* option = launch.srun_option("gpu-bind"))
            check(option, option->line);
    return hits;
}

/// Slurm's sizes: megabytes without a unit.
std::optional<long long> mebibytes(std::string text) {
    if (text.empty())
        return std::nullopt;
    long long factor_kib = 1024;
    const auto unit = static_cast<char>(std::toupper(static_cast<unsigned char>(text.back())));
    if (unit == 'B' && text.size() > 1)
        return mebibytes(text.substr(0, text.size() - 1));
    if (std::isdigit(static_cast<unsigned char>(unit)) == 0) {
        factor_kib = unit == 'K'   ? 1
                     : unit == 'M' ? 1024
                     : unit == 'G' ? 1048576
                     : unit == 'T' ? 1073741824
                                   : 0;
        text.pop_back();
    }
    const auto number = whole_number(text);
    if (!number || factor_kib == 0 || *number < 0 || *number > 1'000'000'000)
        return std::nullopt;
    return *number * factor_kib / 1024;
}

template <class Measure>
long long largest(const std::vector<NodeDescription>& nodes, Measure measure) {
    long long most = 0;
    for (const auto& node : nodes)
        most = std::max(most, measure(node));
    return most;
}

RuleHits beyond_node(const Subject& subject) {
    const auto& script = subject.script;
    const std::string partitions = script.text("partition");
    auto nodes = nodes_of_partition(subject.cluster,
                                    partitions.find(',') == std::string::npos ? partitions : "");
    std::erase_if(nodes, [](const NodeDescription& node) { return node.names.empty(); });
    if (nodes.empty())
        return {};
    RuleHits hits;
    const auto check = [&](const SlurmOption* option, const std::string& what,
                           std::optional<long long> asked, long long most) {
        if (option != nullptr && asked && most > 0 && *asked > most)
            hits.push_back(
                {option->line, fmt::format("{} a node asked for: {}, and the largest node has {}",
                                           what, *asked, most)});
    };
    const bool cpus_known = std::all_of(nodes.begin(), nodes.end(),
                                        [](const auto& node) { return node.cpus.has_value(); });
    const bool memory_known =
        std::all_of(nodes.begin(), nodes.end(), [](const auto& node) { return node.memory_given; });
    const auto cpus = script.number("cpus-per-task").value_or(1);
    const auto tasks = script.tasks_per_node().value_or(1);
    const SlurmOption* by_cpus = script.option("cpus-per-task") != nullptr
                                     ? script.option("cpus-per-task")
                                     : script.option("ntasks-per-node");
    if (cpus > 0 && cpus < 1'000'000 && tasks > 0 && tasks < 1'000'000 && cpus_known)
        check(by_cpus, "CPUs", cpus * tasks,
              largest(nodes, [](const auto& node) { return node.cpus.value_or(0); }));
    if (memory_known)
        check(script.option("mem"), "MiB", mebibytes(script.text("mem")),
              largest(nodes, [](const auto& node) { return node.memory_mib; }));
    const SlurmOption* by_gpus =
        script.has("gpus-per-node") ? script.option("gpus-per-node") : script.option("gres");
    const long long most_gpus = largest(nodes, [](const auto& node) { return node.gpus; });
    const auto gpus = by_gpus != nullptr ? script.gpus_per_node() : std::nullopt;
    if (gpus && *gpus > most_gpus)
        hits.push_back(
            {by_gpus->line, fmt::format("GPUs a node asked for: {}, and the largest node has {}",
                                        *gpus, most_gpus)});
    const SlurmOption* machines = script.option("nodes");
    std::set<std::string> names;
    for (const auto& node : nodes)
        names.insert(node.names.begin(), node.names.end());
    if (machines != nullptr && script.nodes() &&
        *script.nodes() > static_cast<long long>(names.size()))
        hits.push_back({machines->line, fmt::format("{} nodes asked for, and there are {}",
                                                    *script.nodes(), names.size())});
    return hits;
}

constexpr std::array<Rule, 16> kSlurmRules = {{
    {"no-shebang", LintSeverity::error, "a batch script without #! in its first line",
     "sbatch refuses it: it does not look like a batch script.", "begin with #!/bin/bash",
     no_shebang},
    {"dos-line-ends", LintSeverity::error, "DOS line ends (CR LF)",
     "sbatch refuses scripts with them, and the system looks for an interpreter of the first line "
     "with a carriage return at its end.",
     "dos2unix FILE, or sed -i 's/\\r$//' FILE", dos_line_ends},
    {"late-directive", LintSeverity::error, "#SBATCH behind the first command",
     "sbatch stops reading #SBATCH lines at the first line that is neither empty nor a comment, "
     "and says nothing.",
     "move it above the first command", late_directive},
    {"disguised-directive", LintSeverity::warning, "a #SBATCH line that Slurm takes for a comment",
     "The line must begin with #SBATCH, exactly.",
     "write #SBATCH, or ## where it is meant to be off", disguised_directive},
    {"directive-variable", LintSeverity::error, "a shell variable in a #SBATCH line",
     "sbatch reads these lines itself and replaces nothing but patterns such as %j.",
     "write the value, use %j, %x, %a or %u, or give the option to sbatch on its command line",
     directive_variable},
    {"unknown-option", LintSeverity::error, "an option that sbatch does not know",
     "sbatch refuses the script.", "correct it", unknown_option},
    {"spank-option", LintSeverity::info, "an option of a plugin (SPANK)",
     "sbatch takes the options of the plugins that the cluster's plugstack.conf names, and refuses "
     "the script on a cluster without them.",
     "nothing, where `sbatch --help` lists it", spank_option},
    {"short-option-equals", LintSeverity::error, "a short option with =, such as -N=4",
     "Only long options take =; here it becomes a part of the value.", "-N 4 or --nodes=4",
     short_equals},
    {"option-twice", LintSeverity::warning, "the same option twice with different values",
     "Slurm takes the last one and says nothing.", "remove one of them", option_twice},
    {"output-folder", LintSeverity::error, "--output in a folder that is not there",
     "Slurm makes no folders for logs: the job fails at once, and leaves no line that says why.",
     "mkdir the folder before submitting, and keep %j in the file's name only", output_folder},
    {"requeue-truncates", LintSeverity::warning, "--requeue without --open-mode=append",
     "Slurm opens the log anew at each start unless told to append, so why the first one failed is "
     "lost.",
     "add #SBATCH --open-mode=append", requeue_truncates},
    {"memory-twice", LintSeverity::error, "--mem, --mem-per-cpu and --mem-per-gpu together",
     "Only one of the three may be given.", "keep one", memory_twice},
    {"gpus-mismatch", LintSeverity::warning, "--gpus-per-task and the GPUs of a node do not agree",
     "GPUs stay idle, or the job is refused.",
     "make one follow from the other, or leave --gpus-per-task out: each task then sees the node's "
     "GPUs",
     gpus_mismatch},
    {"cpus-not-handed-on", LintSeverity::warning, "--cpus-per-task is not handed on to srun",
     "Since Slurm 22.05 srun does not take it over from sbatch; each task may get a single CPU.",
     "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK, or srun --cpus-per-task=$SLURM_CPUS_PER_TASK",
     cpus_not_handed_on},
    {"gpu-bind", LintSeverity::warning, "--gpu-bind shows each rank one GPU only",
     "NCCL needs to see its peers for NVLink and shared memory, and LOCAL_RANK no longer is a "
     "GPU's number.",
     "leave it out: autolaunch places ranks near their GPUs and hides none", gpu_bind},
    {"beyond-node", LintSeverity::error, "more CPUs, memory, GPUs or nodes than the cluster has",
     "Slurm refuses the job, or leaves it pending for ever. Checked with --slurm-conf.",
     "ask for less, or for another partition", beyond_node},
}};

}  // namespace

std::span<const Rule> slurm_rules() { return kSlurmRules; }

}  // namespace autolaunch::launcher
