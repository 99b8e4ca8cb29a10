// Names of metrics in Prometheus' rules, in dashboards and in dcgm-exporter's list.

#include "base/text.hpp"
#include "lint/dcgm_fields.hpp"
#include "lint/rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace autolaunch::launcher {

namespace {

using Names = std::pair<std::string_view, std::string_view>;

// What people write for a field, and what it is called.
constexpr std::array<Names, 17> kMeant = {{
    {"DCGM_FI_DEV_GPU_MEMORY_USED", "DCGM_FI_DEV_FB_USED"},
    {"DCGM_FI_DEV_GPU_MEM_USED", "DCGM_FI_DEV_FB_USED"},
    {"DCGM_FI_DEV_MEMORY_USED", "DCGM_FI_DEV_FB_USED"},
    {"DCGM_FI_DEV_MEM_USED", "DCGM_FI_DEV_FB_USED"},
    {"DCGM_FI_DEV_GPU_MEMORY_FREE", "DCGM_FI_DEV_FB_FREE"},
    {"DCGM_FI_DEV_MEMORY_FREE", "DCGM_FI_DEV_FB_FREE"},
    {"DCGM_FI_DEV_MEM_FREE", "DCGM_FI_DEV_FB_FREE"},
    {"DCGM_FI_DEV_MEMORY_TOTAL", "DCGM_FI_DEV_FB_TOTAL"},
    {"DCGM_FI_DEV_GPU_UTILIZATION", "DCGM_FI_DEV_GPU_UTIL"},
    {"DCGM_FI_DEV_UTILIZATION", "DCGM_FI_DEV_GPU_UTIL"},
    {"DCGM_FI_DEV_MEM_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL"},
    {"DCGM_FI_DEV_GPU_TEMPERATURE", "DCGM_FI_DEV_GPU_TEMP"},
    {"DCGM_FI_DEV_TEMPERATURE", "DCGM_FI_DEV_GPU_TEMP"},
    {"DCGM_FI_DEV_TEMP", "DCGM_FI_DEV_GPU_TEMP"},
    {"DCGM_FI_DEV_POWER", "DCGM_FI_DEV_POWER_USAGE"},
    {"DCGM_FI_DEV_POWER_DRAW", "DCGM_FI_DEV_POWER_USAGE"},
    {"DCGM_FI_DEV_XID", "DCGM_FI_DEV_XID_ERRORS"},
}};

// node_exporter's names until 0.15, and since 0.16.
constexpr std::array<Names, 22> kRenamedOfNode = {{
    {"node_cpu", "node_cpu_seconds_total"},
    {"node_boot_time", "node_boot_time_seconds"},
    {"node_time", "node_time_seconds"},
    {"node_context_switches", "node_context_switches_total"},
    {"node_forks", "node_forks_total"},
    {"node_intr", "node_intr_total"},
    {"node_disk_bytes_read", "node_disk_read_bytes_total"},
    {"node_disk_bytes_written", "node_disk_written_bytes_total"},
    {"node_disk_reads_completed", "node_disk_reads_completed_total"},
    {"node_disk_writes_completed", "node_disk_writes_completed_total"},
    {"node_disk_io_time_ms", "node_disk_io_time_seconds_total"},
    {"node_filesystem_avail", "node_filesystem_avail_bytes"},
    {"node_filesystem_free", "node_filesystem_free_bytes"},
    {"node_filesystem_size", "node_filesystem_size_bytes"},
    {"node_memory_MemAvailable", "node_memory_MemAvailable_bytes"},
    {"node_memory_MemFree", "node_memory_MemFree_bytes"},
    {"node_memory_MemTotal", "node_memory_MemTotal_bytes"},
    {"node_memory_Buffers", "node_memory_Buffers_bytes"},
    {"node_memory_Cached", "node_memory_Cached_bytes"},
    {"node_network_receive_bytes", "node_network_receive_bytes_total"},
    {"node_network_transmit_bytes", "node_network_transmit_bytes_total"},
    {"node_infiniband_port_data_received_bytes", "node_infiniband_port_data_received_bytes_total"},
}};

// Exporters of Slurm differ in what they have: only what none of the usual ones has is here.
constexpr std::array<Names, 5> kMeantOfSlurm = {{
    {"slurm_gpu_alloc", "slurm_gpus_alloc"},
    {"slurm_gpu_idle", "slurm_gpus_idle"},
    {"slurm_gpu_utilization", "slurm_gpus_utilization"},
    {"slurm_cpu_alloc", "slurm_cpus_alloc"},
    {"slurm_cpu_idle", "slurm_cpus_idle"},
}};

template <std::size_t Count>
std::optional<std::string> other_name(const std::array<Names, Count>& names,
                                      std::string_view name) {
    for (const auto& [written, right] : names)
        if (written == name)
            return std::string(right);
    return std::nullopt;
}

struct Verdict {
    std::string message, right;  ///< empty message: the name may well exist
    bool same_unit = true;
};

Verdict judge_dcgm(const std::string& name, bool suggest) {
    std::string upper = name;
    std::transform(upper.begin(), upper.end(), upper.begin(),
                   [](unsigned char c) { return std::toupper(c); });
    if (upper != name) {  // dcgm_fi_prof_… and dcgm_gpu_temp are names of exporter 1.x
        if (!name.starts_with("dcgm_fi_dev_"))
            return {};
        return {fmt::format("dcgm-exporter has no {}: its names are written in capitals", name),
                is_dcgm_field(upper) ? upper : std::string()};
    }
    if (name.ends_with('_') || is_dcgm_field(name))
        return {};
    const std::string right =
        other_name(kMeant, name).value_or(suggest ? nearest_dcgm_field(name) : std::string());
    return {fmt::format("DCGM has no field {}{}", name,
                        right.empty() ? "" : "; did you mean " + right + "?"),
            right};
}

Verdict judge(const std::string& name, bool suggest) {
    if (name.starts_with("DCGM_FI_") || name.starts_with("DCGM_EXP_") ||
        name.starts_with("dcgm_fi_"))
        return judge_dcgm(name, suggest);
    if (name.starts_with("node_"))
        if (const auto right = other_name(kRenamedOfNode, name))
            return {fmt::format("node_exporter has no {} since 0.16: it is {}", name, *right),
                    *right, !name.ends_with("_ms")};
    if (name.starts_with("slurm_"))
        if (const auto right = other_name(kMeantOfSlurm, name))
            return {fmt::format("the usual exporters of Slurm have no {}; did you mean {}?", name,
                                *right),
                    *right};
    return {};
}

/// What the file's own rules record: also the new name of an old one.
std::set<std::string> recorded_names(const SourceLines& source) {
    std::set<std::string> names;
    for (const auto& text : source.lines) {
        std::string_view line = trim(text);
        if (line.starts_with("- "))
            line = trim(line.substr(2));
        if (line.starts_with("record:"))
            names.emplace(trim(line.substr(7, line.find(" #") - 7)));
    }
    return names;
}

RuleHits unknown(const Subject& subject) {
    constexpr int kMostSuggested = 500;  // to look for near names takes a while
    int wrong = 0;
    RuleHits hits;
    const auto recorded = recorded_names(subject.source);
    std::map<std::string, Verdict> judged;
    for (const MetricUse& use : subject.metrics) {
        auto known = judged.find(use.name);
        if (known == judged.end()) {
            known = judged.emplace(use.name, judge(use.name, wrong < kMostSuggested)).first;
            wrong += known->second.message.empty() ? 0 : 1;
        }
        const Verdict& verdict = known->second;
        if (verdict.message.empty() || (!verdict.right.empty() && recorded.contains(verdict.right)))
            continue;
        RuleHit hit{use.line, verdict.message};
        if (!verdict.right.empty()) {
            hit.fix = "write " + verdict.right;
            hit.edits = verdict.same_unit
                            ? replace_name(subject.source, use.line, use.name, verdict.right)
                            : Edits{};
        }
        hits.push_back(std::move(hit));
    }
    return hits;
}

constexpr std::array<Rule, 1> kMetricRules = {{
    {"metric-unknown", LintSeverity::error,
     "a metric that dcgm-exporter, node_exporter or Slurm's exporters do not have",
     "Prometheus takes a name that does not exist for an empty result: the alert never fires, and "
     "the panel stays empty.",
     "take the name from the exporter's /metrics", unknown},
}};

}  // namespace

std::span<const Rule> metric_rules() { return kMetricRules; }

}  // namespace autolaunch::launcher
