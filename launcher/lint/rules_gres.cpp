// gres.conf and slurm.conf, as far as they decide what a training job gets.

#include "allocation/hostlist.hpp"
#include "base/text.hpp"
#include "lint/rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostCores = 4096;

struct GresLine {
    const ConfLine* line = nullptr;
    std::string name;
    std::vector<std::string> nodes, files;
    std::set<int> cores;

    bool shares_node(const GresLine& other) const {
        if (nodes.empty() || other.nodes.empty())
            return true;
        return std::any_of(nodes.begin(), nodes.end(), [&](const auto& node) {
            return std::find(other.nodes.begin(), other.nodes.end(), node) != other.nodes.end();
        });
    }
};

std::set<int> core_set(const std::string& text) {
    std::set<int> cores;
    for (const auto& part : split(text, ',')) {
        const std::size_t dash = part.find('-');
        const auto first = whole_number(part.substr(0, dash));
        const auto last = dash == std::string::npos ? first : whole_number(part.substr(dash + 1));
        if (!first || !last || *first < 0 || *last < *first ||
            *last > static_cast<long long>(kMostCores))
            return {};
        for (long long core = *first; core <= *last; ++core)
            cores.insert(static_cast<int>(core));
    }
    return cores;
}

/// KEY=VALUE, written without blanks.
std::string field_text(const ConfLine& line, std::string_view key) {
    for (const auto& [name, value] : line.fields)
        if (equals_ignoring_case(name, key))
            return name + '=' + value;
    return {};
}

Edits remove_field(const SourceLines& source, const ConfLine& line, std::string_view key) {
    return remove_word(source, line.line, field_text(line, key));
}

std::vector<GresLine> gres_lines(const Subject& subject) {
    std::vector<GresLine> lines;
    if (subject.kind != FileKind::gres_conf)
        return lines;
    for (const auto& line : subject.conf.lines) {
        if (!line.has("Name"))
            continue;
        GresLine gres{&line,
                      line.value("Name"),
                      {},
                      {},
                      core_set(line.value(line.has("Cores") ? "Cores" : "CPUs"))};
        if (line.has("NodeName"))
            gres.nodes = expand_or_nothing(line.value("NodeName"));
        if (line.has("File"))
            gres.files = expand_or_nothing(line.value("File"));
        lines.push_back(std::move(gres));
    }
    return lines;
}

/// `check(earlier, later)` for all pairs of lines of one resource on a common node, up to a bound.
template <class Check>
void for_pairs(const std::vector<GresLine>& lines, Check check) {
    constexpr std::size_t kMostLines = 400;
    const std::size_t count = std::min(lines.size(), kMostLines);
    for (std::size_t i = 0; i < count; ++i)
        for (std::size_t j = 0; j < i; ++j)
            if (lines[i].name == lines[j].name && lines[i].shares_node(lines[j]))
                check(lines[j], lines[i]);
}

RuleHits file_twice(const Subject& subject) {
    RuleHits hits;
    for_pairs(gres_lines(subject), [&](const GresLine& earlier, const GresLine& later) {
        const std::set<std::string> before(earlier.files.begin(), earlier.files.end());
        const auto twice = std::find_if(later.files.begin(), later.files.end(),
                                        [&](const auto& file) { return before.contains(file); });
        if (twice != later.files.end())
            hits.push_back({later.line->line,
                            fmt::format("{} is in line {} already", *twice, earlier.line->line)});
    });
    return hits;
}

RuleHits cores_overlap(const Subject& subject) {
    RuleHits hits;
    for_pairs(gres_lines(subject), [&](const GresLine& earlier, const GresLine& later) {
        std::vector<int> both;
        std::set_intersection(earlier.cores.begin(), earlier.cores.end(), later.cores.begin(),
                              later.cores.end(), std::back_inserter(both));
        // GPUs of one socket share all of its cores, or one has a part of the other's.
        if (both.empty() || both.size() == earlier.cores.size() ||
            both.size() == later.cores.size())
            return;
        hits.push_back(
            {later.line->line, fmt::format("Cores {} are in line {}, too, which has others besides",
                                           format_list(both), earlier.line->line)});
    });
    return hits;
}

RuleHits gres_count(const Subject& subject) {
    RuleHits hits;
    for (const auto& gres : gres_lines(subject)) {
        const auto count = whole_number(gres.line->value("Count"));
        const bool shared =
            equals_ignoring_case(gres.name, "mps") || equals_ignoring_case(gres.name, "shard");
        if (count && !shared && !gres.files.empty() &&
            *count != static_cast<long long>(gres.files.size()))
            hits.push_back({gres.line->line,
                            fmt::format("Count={} and {} files", *count, gres.files.size()),
                            {},
                            remove_field(subject.source, *gres.line, "Count")});
    }
    return hits;
}

RuleHits file_missing(const Subject& subject) {
    RuleHits hits;
    const ConfLine* detect = subject.conf.first_with("AutoDetect");
    if (detect != nullptr && !equals_ignoring_case(detect->value("AutoDetect"), "off"))
        return hits;
    for (const auto& gres : gres_lines(subject)) {
        const bool none = !gres.line->has("File") && !gres.line->has("MultipleFiles");
        const bool counted = gres.line->value("Flags").find("CountOnly") != std::string::npos;
        if (equals_ignoring_case(gres.name, "gpu") && none && !counted)
            hits.push_back(
                {gres.line->line, "a GPU without File: jobs are not kept from other jobs' GPUs"});
    }
    return hits;
}

RuleHits both_files(const Subject& subject) {
    RuleHits hits;
    for (const auto& gres : gres_lines(subject))
        if (gres.line->has("File") && gres.line->has("MultipleFiles"))
            hits.push_back({gres.line->line, "File and MultipleFiles exclude each other"});
    return hits;
}

RuleHits links(const Subject& subject) {
    RuleHits hits;
    for (const auto& gres : gres_lines(subject))
        if (gres.line->has("Links") && gres.files.size() > 1)
            hits.push_back({gres.line->line,
                            fmt::format("Links for {} devices in one line", gres.files.size())});
    return hits;
}

RuleHits cores_beyond(const Subject& subject) {
    RuleHits hits;
    const auto nodes = node_descriptions(subject.cluster);
    if (nodes.empty())
        return hits;
    for (const auto& gres : gres_lines(subject)) {
        if (gres.cores.empty())
            continue;
        long long fewest = 0;
        for (const auto& node : nodes) {
            const bool meant =
                gres.nodes.empty() ||
                std::any_of(node.names.begin(), node.names.end(), [&](const auto& name) {
                    return std::find(gres.nodes.begin(), gres.nodes.end(), name) !=
                           gres.nodes.end();
                });
            const auto cores = node.cores ? node.cores : node.cpus;
            if (meant && cores && node.gpus > 0 && (fewest == 0 || *cores < fewest))
                fewest = *cores;
        }
        if (fewest > 0 && *gres.cores.rbegin() >= fewest)
            hits.push_back({gres.line->line,
                            fmt::format("Cores up to {}, and the node has {} cores, from 0 on",
                                        *gres.cores.rbegin(), fewest)});
    }
    return hits;
}

RuleHits unknown_key(const Subject& subject) {
    static const std::vector<std::string> kKeys = {
        "AutoDetect", "Count",         "Cores", "CPUs",     "File", "Flags",
        "Links",      "MultipleFiles", "Name",  "NodeName", "Type"};
    RuleHits hits;
    if (subject.kind != FileKind::gres_conf)
        return hits;
    for (const auto& line : subject.conf.lines)
        for (const auto& field : line.fields) {
            const bool known = std::any_of(kKeys.begin(), kKeys.end(), [&](const auto& key) {
                return equals_ignoring_case(key, field.first);
            });
            const bool word = std::all_of(field.first.begin(), field.first.end(), [](char c) {
                return std::isalpha(static_cast<unsigned char>(c)) != 0;
            });  // {% set cores = … %}: a template's
            if (known || !word || equals_ignoring_case(field.first, "Ignore"))
                continue;
            const std::string near = nearest(field.first, kKeys);
            hits.push_back({line.line,
                            fmt::format("gres.conf knows no {}{}", field.first,
                                        near.empty() ? "" : "; did you mean " + near + "?"),
                            {},
                            near.empty() ? Edits{}
                                         : replace_text(subject.source, line.line,
                                                        field.first + '=', near + '=')});
        }
    return hits;
}

RuleHits node_twice(const Subject& subject) {
    RuleHits hits;
    if (subject.kind != FileKind::slurm_conf)
        return hits;
    std::map<std::string, int> seen;
    for (const auto& node : node_descriptions(subject.conf))
        for (const auto& name : node.names) {
            const auto [before, fresh] = seen.try_emplace(name, node.line);
            if (fresh)
                continue;
            hits.push_back(
                {node.line, fmt::format("{} is in line {} already", name, before->second)});
            break;
        }
    return hits;
}

RuleHits gres_type(const Subject& subject) {
    if (subject.kind != FileKind::slurm_conf)
        return {};
    const ConfLine* types = subject.conf.first_with("GresTypes");
    if (types != nullptr &&
        ("," + types->value("GresTypes") + ",").find(",gpu,") != std::string::npos)
        return {};
    for (const auto& node : node_descriptions(subject.conf))
        if (node.gpus > 0)
            return {{node.line,
                     "nodes with Gres=gpu, and GresTypes does not name gpu",
                     {},
                     types != nullptr
                         ? replace_text(subject.source, types->line, types->value("GresTypes"),
                                        types->value("GresTypes") + ",gpu")
                         : insert_line(subject.source, node.line, "GresTypes=gpu")}};
    return {};
}

RuleHits cpu_count(const Subject& subject) {
    RuleHits hits;
    if (subject.kind != FileKind::slurm_conf)
        return hits;
    for (const auto& line : subject.conf.lines) {
        const auto cpus = whole_number(line.value("CPUs"));
        const auto sockets = whole_number(line.value("Sockets"));
        const auto cores = whole_number(line.value("CoresPerSocket"));
        const auto threads = line.has("ThreadsPerCore") ? whole_number(line.value("ThreadsPerCore"))
                                                        : std::optional(1LL);
        if (!line.has("NodeName") || !cpus || !sockets || !cores || !threads)
            continue;
        if (*sockets > 1000 || *cores > 10000 || *threads > 100)
            continue;
        const long long all = *sockets * *cores * *threads;
        if (*cpus != all && *cpus != *sockets * *cores &&
            *cpus != *sockets)  // Slurm accepts cores or sockets as CPUs
            hits.push_back(
                {line.line, fmt::format("CPUs={}, and {} sockets x {} cores x {} threads are {}",
                                        *cpus, *sockets, *cores, *threads, all)});
    }
    return hits;
}

RuleHits partition_node(const Subject& subject) {
    RuleHits hits;
    if (subject.kind != FileKind::slurm_conf)
        return hits;
    std::set<std::string> known;
    for (const auto& node : node_descriptions(subject.conf))
        known.insert(node.names.begin(), node.names.end());
    if (known.empty())
        return hits;  // they are in an included file
    if (subject.conf.first_with("Include") != nullptr)
        return hits;
    for (const auto& line : subject.conf.lines) {
        const std::string nodes = line.value("Nodes");
        if (!line.has("PartitionName") || nodes.empty() || equals_ignoring_case(nodes, "ALL"))
            continue;
        for (const auto& name : expand_or_nothing(nodes))
            if (!known.contains(name)) {
                hits.push_back({line.line, fmt::format("{} has no NodeName line", name)});
                break;
            }
    }
    return hits;
}

RuleHits linear(const Subject& subject) {
    if (subject.kind != FileKind::slurm_conf)
        return {};
    const ConfLine* line = subject.conf.first_with("SelectType");
    if (line == nullptr || !equals_ignoring_case(line->value("SelectType"), "select/linear"))
        return {};
    return {
        {line->line,
         "select/linear knows no --gpus-per-node and --gpus-per-task",
         {},
         replace_text(subject.source, line->line, line->value("SelectType"), "select/cons_tres")}};
}

RuleHits proctrack(const Subject& subject) {
    if (subject.kind != FileKind::slurm_conf)
        return {};
    const ConfLine* line = subject.conf.first_with("ProctrackType");
    if (line == nullptr || equals_ignoring_case(line->value("ProctrackType"), "proctrack/cgroup"))
        return {};
    return {{line->line,
             line->value("ProctrackType") + ": processes that leave their group outlive the job",
             {},
             replace_text(subject.source, line->line, line->value("ProctrackType"),
                          "proctrack/cgroup")}};
}

constexpr std::array<Rule, 14> kGresRules = {{
    {"gres-file-twice", LintSeverity::error, "gres.conf: the same device in two lines",
     "Slurm counts it twice, and may give one GPU to two jobs.", "make the ranges of File disjoint",
     file_twice},
    {"gres-cores-overlap", LintSeverity::warning, "gres.conf: Cores of two lines overlap in a part",
     "GPUs of one socket have the same cores, those of two sockets have none in common; a part is "
     "usually a slip of "
     "one.",
     "take the numbers from lstopo -l (logical, from 0)", cores_overlap},
    {"gres-count", LintSeverity::error, "gres.conf: Count is not the number of files",
     "With File, Count must be the number of files, or be left out.", "leave Count out",
     gres_count},
    {"gres-file-missing", LintSeverity::warning, "gres.conf: a GPU without File",
     "Slurm then only counts, and cannot keep a job to its GPUs.",
     "add File=/dev/nvidia[0-7], or AutoDetect=nvml", file_missing},
    {"gres-both-files", LintSeverity::error, "gres.conf: File and MultipleFiles in one line",
     "MultipleFiles is for a MIG device, which has several; File for everything else.", "keep one",
     both_files},
    {"gres-links", LintSeverity::error, "gres.conf: Links for more than one device",
     "A line with Links may hold one device only.", "one line for each GPU, or AutoDetect=nvml",
     links},
    {"gres-cores-beyond", LintSeverity::error, "gres.conf: Cores that the node does not have",
     "Cores are cores, not threads, numbered from 0. Checked with --slurm-conf.",
     "take the numbers from lstopo -l (Core L#)", cores_beyond},
    {"gres-unknown-key", LintSeverity::error, "gres.conf: a key that Slurm does not know",
     "The daemons refuse the file.", "correct it", unknown_key},
    {"slurm-node-twice", LintSeverity::error, "slurm.conf: a node in two NodeName lines",
     "Slurm refuses a node that is defined twice.", "make the host lists disjoint", node_twice},
    {"slurm-gres-types", LintSeverity::error, "slurm.conf: Gres=gpu without GresTypes=gpu",
     "Slurm ignores resources whose type is not listed.", "add GresTypes=gpu", gres_type},
    {"slurm-cpu-count", LintSeverity::error,
     "slurm.conf: CPUs does not follow from sockets, cores and threads",
     "The node is drained, or a part of it is never used.", "take the line that slurmd -C prints",
     cpu_count},
    {"slurm-partition-node", LintSeverity::error,
     "slurm.conf: a partition with a node that is not defined", "slurmctld refuses the file.",
     "add its NodeName line, or correct the list", partition_node},
    {"slurm-select-linear", LintSeverity::warning, "slurm.conf: select/linear",
     "It gives whole nodes only, and GPU options other than --gres need select/cons_tres.",
     "SelectType=select/cons_tres", linear},
    {"slurm-proctrack", LintSeverity::warning,
     "slurm.conf: processes are not tracked by control groups",
     "Loaders and helpers of ranks can outlive the job and keep GPU memory; and scancel's signal "
     "also goes to ranks.",
     "ProctrackType=proctrack/cgroup", proctrack},
}};

}  // namespace

std::span<const Rule> conf_rules() { return kGresRules; }

}  // namespace autolaunch::launcher
