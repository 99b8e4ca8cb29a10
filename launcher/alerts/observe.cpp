#include "alerts/observe.hpp"

#include "exit_codes/exit_codes.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace autolaunch::launcher::alerts {

namespace {

using std::chrono::duration;

constexpr double kPercent = 100;
// Samples older than three of their intervals tell nothing of now, and than this in any case not.
constexpr double kOldest = 180;

double seconds_between(ViewTime from, ViewTime to) { return duration<double>(to - from).count(); }

class Observer {
public:
    explicit Observer(std::vector<Observation>& seen) : seen_(seen) {}

    void add(std::string_view metric, std::string subject, double number) {
        seen_.push_back({find_alert_metric(metric), std::move(subject), number});
    }
    template <class Number>
    void add(std::string_view metric, const std::string& subject,
             const std::optional<Number>& number, double factor = 1) {
        if (number)
            add(metric, subject, static_cast<double>(*number) * factor);
    }
    void word(std::string_view metric, std::string subject, std::string text) {
        seen_.push_back({find_alert_metric(metric), std::move(subject), 0, std::move(text)});
    }

private:
    std::vector<Observation>& seen_;
};

void observe_job(const JobView& job, ViewTime now, Observer& out) {
    out.word("job_status", "", status_word(job));
    out.add("restarts", "", static_cast<double>(job.restarts));
    if (job.started)
        out.add("job_runtime", "", seconds_between(*job.started, now));
    double waited_for = 0;
    std::optional<double> youngest;
    for (const RankView& rank : job.ranks) {
        waited_for += rank.straggler ? 1 : 0;
        if (rank.step && rank.silent_seconds)
            youngest = std::min(youngest.value_or(*rank.silent_seconds), *rank.silent_seconds);
    }
    out.add("ranks_waited_for", "", waited_for);
    if (!job.ended) {
        out.add("step_age", "", youngest);
        if (job.checkpoint_at)
            out.add("checkpoint_age", "", seconds_between(*job.checkpoint_at, now));
        else if (job.started && youngest)
            out.add("checkpoint_age", "", seconds_between(*job.started, now));
    }
}

void observe_ranks(const JobView& job, Observer& out) {
    for (const RankView& rank : job.ranks) {
        const std::string subject = "rank " + std::to_string(rank.rank);
        out.add("step_time", subject, rank.step_seconds);
        out.add("rank_memory", subject, rank.readings.rss_bytes);
    }
}

// As docs/gpu-time.md tells a whole job's, from one look: nothing where the driver tells no use.
std::optional<std::string> idle_cause(const GpuSample& gpu, const NodeSample& sample,
                                      const std::string& status) {
    constexpr double kBusy = 0.05, kMuchInput = 0.2;
    if (!gpu.busy_ratio)
        return std::nullopt;
    if (*gpu.busy_ratio >= kBusy)
        return "none";
    if (status == "restarting")
        return "recovery";
    const auto holds = [&](const RankSample& rank) { return rank.gpu == gpu.bdf; };
    const auto rank = std::find_if(sample.ranks.begin(), sample.ranks.end(), holds);
    if (rank == sample.ranks.end() && sample.ranks_left_out == 0)
        return "nobody";
    if (gpu.processes == 0)
        return rank != sample.ranks.end() && !rank->step ? "start" : "nobody";
    if (rank == sample.ranks.end())
        return "unexplained";
    return !rank->step                                   ? "start"
           : rank->input_ratio.value_or(0) >= kMuchInput ? "input"
                                                         : "unexplained";
}

void observe_node(const NodeNow& node, const std::string& status, Observer& out) {
    const NodeSample& sample = node.sample;
    out.add("cpu_utilization", node.node, sample.cpu.busy_ratio, kPercent);
    out.add("cpu_pressure", node.node, sample.pressure.cpu_some_ratio, kPercent);
    out.add("io_pressure", node.node, sample.pressure.io_some_ratio, kPercent);
    out.add("memory_pressure", node.node, sample.pressure.memory_some_ratio, kPercent);
    const auto& memory = sample.memory;
    if (memory.total_bytes && memory.available_bytes && *memory.total_bytes > 0)
        out.add("memory_usage", node.node,
                kPercent * (1 - static_cast<double>(*memory.available_bytes) /
                                    static_cast<double>(*memory.total_bytes)));
    for (std::size_t i = 0; i < sample.gpus.size(); ++i) {
        const GpuSample& gpu = sample.gpus[i];
        const std::string subject = "GPU " + gpu.bdf + " of " + node.node;
        out.add("gpu_utilization", subject, gpu.busy_ratio, kPercent);
        if (auto cause = idle_cause(gpu, sample, status))
            out.word("gpu_idle_cause", subject, std::move(*cause));
        out.add("gpu_temperature", subject, gpu.celsius);
        out.add("gpu_power", subject, gpu.watts);
        if (gpu.memory_used_bytes && gpu.memory_total_bytes && *gpu.memory_total_bytes > 0)
            out.add("gpu_memory_usage", subject,
                    kPercent * static_cast<double>(*gpu.memory_used_bytes) /
                        static_cast<double>(*gpu.memory_total_bytes));
    }
    // As df shows it: of what users may have.
    for (const FileSystemSample& files : sample.file_systems)
        if (files.total_bytes && files.available_bytes && *files.total_bytes > 0)
            out.add("disk_usage", files.path + " of " + node.node,
                    kPercent * (1 - static_cast<double>(*files.available_bytes) /
                                        static_cast<double>(*files.total_bytes)));
}

}  // namespace

std::string status_word(const JobView& job) {
    if (job.ended) {
        const int code = job.exit_code.value_or(exit_code::kSystem);
        if (code == exit_code::kRequeue)
            return "requeued";
        if (job.outcome.starts_with("stopped"))
            return "stopped";
        return code == 0 ? "succeeded" : "failed";
    }
    if (job.state == "between generations")
        return "restarting";
    return job.state == "stopping" || job.state == "starting" ? job.state : "running";
}

std::vector<Observation> observe(const JobView& job, const std::vector<NodeNow>& nodes,
                                 ViewTime now) {
    std::vector<Observation> seen;
    Observer out(seen);
    observe_job(job, now, out);
    if (job.ended)
        return seen;
    observe_ranks(job, out);
    std::optional<double> stall;
    RankSample first;  // of the lowest rank that reports, as the progress line
    for (const NodeNow& node : nodes) {
        const ViewTime measured{std::chrono::milliseconds(node.sample.time_ms)};
        const double age = std::max(0.0, seconds_between(measured, now));
        out.add("sample_age", node.node, age);
        if (age > std::max(kOldest, 3 * node.sample.span_seconds))
            continue;
        observe_node(node, status_word(job), out);
        if (node.sample.checkpoint.stall_seconds)
            stall = std::max(stall.value_or(0), *node.sample.checkpoint.stall_seconds);
        for (const RankSample& rank : node.sample.ranks)
            if (rank.step && (!first.step || rank.rank < first.rank))
                first = rank;
    }
    out.add("loss", "", first.loss);
    out.add("tokens_per_second", "", first.tokens_per_second);
    out.add("checkpoint_stall", "", stall);
    return seen;
}

}  // namespace autolaunch::launcher::alerts
