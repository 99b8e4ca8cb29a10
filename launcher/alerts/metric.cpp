#include "alerts/metric.hpp"

#include <algorithm>

namespace autolaunch::launcher::alerts {

namespace {

const std::vector<AlertMetric>& table() {
    using enum MetricScope;
    static const std::vector<AlertMetric> kMetrics = {
        {"job_status",
         job,
         "",
         "what becomes of the job",
         {"starting", "running", "restarting", "stopping", "succeeded", "stopped", "failed",
          "requeued"}},
        {"restarts", job, "", "restarts so far, of this start of the job"},
        {"job_runtime", job, "s", "since the job's start"},
        {"step_age", job, "s", "since a rank last reported a step"},
        {"checkpoint_age", job, "s",
         "since the last checkpoint, or since the first step before there is one"},
        {"checkpoint_stall", job, "s", "that the last save held the trainer up"},
        {"loss", job, "", "as the trainer last reported it"},
        {"tokens_per_second", job, "", "as the trainer last reported it"},
        {"ranks_waited_for", job, "", "ranks that the others wait for in every step"},
        {"step_time", rank, "s", "a step took, as the rank reported it"},
        {"rank_memory", rank, "bytes", "that the processes of a rank have resident"},
        {"cpu_utilization", node, "%", "of all CPUs of a node"},
        {"memory_usage", node, "%", "of a node's memory that cannot be had"},
        {"cpu_pressure", node, "%", "of the time in which something waited for a CPU (PSI)"},
        {"io_pressure", node, "%", "of the time in which something waited for a disk (PSI)"},
        {"memory_pressure", node, "%", "of the time in which something waited for memory (PSI)"},
        {"sample_age", node, "s", "since a node was last measured"},
        {"gpu_utilization", gpu, "%", "of the time in which a kernel ran"},
        {"gpu_idle_cause",
         gpu,
         "",
         "why a GPU that the job holds does next to nothing (docs/gpu-time.md)",
         {"none", "nobody", "start", "recovery", "input", "unexplained"}},
        {"gpu_memory_usage", gpu, "%", "of a GPU's memory that is in use"},
        {"gpu_temperature", gpu, "°C", "of a GPU"},
        {"gpu_power", gpu, "W", "that a GPU draws"},
        {"disk_usage", file_system, "%", "of a file system that is used"},
    };
    return kMetrics;
}

}  // namespace

std::string_view name_of(MetricScope scope) {
    switch (scope) {
        case MetricScope::job:
            return "job";
        case MetricScope::rank:
            return "rank";
        case MetricScope::node:
            return "node";
        case MetricScope::gpu:
            return "GPU";
        case MetricScope::file_system:
            return "file system";
    }
    return "";
}

std::span<const AlertMetric> alert_metrics() { return table(); }

const AlertMetric* find_alert_metric(std::string_view name) {
    const auto found = std::find_if(table().begin(), table().end(),
                                    [&](const AlertMetric& metric) { return metric.name == name; });
    return found == table().end() ? nullptr : &*found;
}

}  // namespace autolaunch::launcher::alerts
