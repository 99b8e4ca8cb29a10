#include "exposition/node_metrics.hpp"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

namespace autolaunch::launcher {
namespace {

constexpr double kMilli = 1e-3, kMicro = 1e-6;

/// Puts values where they belong; what nobody told is left out.
class Book {
public:
    Book() {
        for (const MetricKind& kind : metric_kinds())
            metrics_.push_back({.kind = &kind});
    }

    void add(std::string_view name, const std::vector<std::string>& labels, double value) {
        Metric& metric = of(name);
        MetricValue added{.value = value};
        std::string_view names = metric.kind->labels;
        for (const std::string& label : labels) {
            const std::size_t end = std::min(names.find(','), names.size());
            added.labels.emplace_back(names.substr(0, end), label);
            names.remove_prefix(std::min(end + 1, names.size()));
        }
        metric.values.push_back(std::move(added));
    }
    void add(std::string_view name, double value) { add(name, {}, value); }
    template <class Number>
    void add_if(std::string_view name, const std::vector<std::string>& labels,
                const std::optional<Number>& value, double unit = 1) {
        if (value)
            add(name, labels, static_cast<double>(*value) * unit);
    }
    template <class Number>
    void add_if(std::string_view name, const std::optional<Number>& value, double unit = 1) {
        add_if(name, {}, value, unit);
    }
    Metric& of(std::string_view name) {
        return *std::find_if(metrics_.begin(), metrics_.end(),
                             [&](const Metric& metric) { return metric.kind->name == name; });
    }
    std::vector<Metric> take() { return std::move(metrics_); }

private:
    std::vector<Metric> metrics_;
};

void add_ranks(const NodeReading& reading, const AgentFacts& facts, Book& book) {
    book.add("autolaunch_ranks", static_cast<double>(facts.ranks.size()));
    for (const RankFacts& fact : facts.ranks) {
        const std::vector<std::string> rank = {std::to_string(fact.rank)};
        book.add_if("autolaunch_rank_step", rank, fact.step);
        book.add_if("autolaunch_rank_loss", rank, fact.loss);
        book.add_if("autolaunch_rank_step_seconds", rank, fact.step_seconds);
        book.add_if("autolaunch_rank_tokens_per_second", rank, fact.tokens_per_second);
        book.add_if("autolaunch_rank_input_ratio", rank, fact.input_ratio);
    }
    for (const RankCounters& used : reading.ranks) {
        const std::vector<std::string> rank = {std::to_string(used.rank)};
        book.add("autolaunch_rank_cpu_seconds_total", rank, used.cpu_seconds);
        book.add("autolaunch_rank_resident_bytes", rank, static_cast<double>(used.resident_bytes));
        book.add("autolaunch_rank_threads", rank, used.threads);
        book.add_if("autolaunch_rank_read_bytes_total", rank, used.read_bytes);
        book.add_if("autolaunch_rank_written_bytes_total", rank, used.written_bytes);
    }
}

void add_steps(const StepDurations& steps, Book& book) {
    const bool has_any = std::any_of(steps.counts.begin(), steps.counts.end(),
                                     [](std::uint64_t count) { return count > 0; });
    if (!has_any)
        return;
    HistogramValue histogram;
    histogram.bounds.assign(std::begin(StepDurations::kBounds), std::end(StepDurations::kBounds));
    histogram.counts = steps.counts;
    histogram.sum = static_cast<double>(steps.sum_us) * kMicro;
    for (const StepDurations::Newest& newest : steps.newest)
        histogram.exemplars.push_back(
            newest.time_ms > 0
                ? std::optional(HistogramValue::Exemplar{
                      {{"rank", std::to_string(newest.rank)}}, newest.seconds, newest.time_ms})
                : std::nullopt);
    book.of("autolaunch_step_duration_seconds").histogram = std::move(histogram);
}

void add_checkpoints(const AgentFacts& facts, Book& book) {
    book.add_if("autolaunch_checkpoint_step", facts.checkpoint_step);
    book.add_if("autolaunch_checkpoint_last_success_timestamp_seconds", facts.checkpoint_time_ms,
                kMilli);
    book.add_if("autolaunch_checkpoint_duration_seconds", facts.checkpoint_save_seconds);
    book.add_if("autolaunch_checkpoint_stall_seconds", facts.checkpoint_stall_seconds);
    book.add("autolaunch_checkpoints_total", static_cast<double>(facts.checkpoints));
}

void add_gpu(const GpuCounters& gpu, Book& book) {
    const std::vector<std::string> name = {gpu.bdf};
    book.add("autolaunch_gpu_info", {gpu.bdf, gpu.uuid, gpu.model}, 1);
    book.add_if("autolaunch_gpu_busy_ratio", name, gpu.busy_ratio);
    book.add_if("autolaunch_gpu_memory_busy_ratio", name, gpu.memory_busy_ratio);
    book.add_if("autolaunch_gpu_memory_used_bytes", name, gpu.memory_used_bytes);
    book.add_if("autolaunch_gpu_memory_size_bytes", name, gpu.memory_total_bytes);
    book.add_if("autolaunch_gpu_temperature_celsius", name, gpu.celsius);
    book.add_if("autolaunch_gpu_memory_temperature_celsius", name, gpu.memory_celsius);
    book.add_if("autolaunch_gpu_power_watts", name, gpu.watts);
    book.add_if("autolaunch_gpu_power_limit_watts", name, gpu.watts_limit);
    book.add_if("autolaunch_gpu_energy_joules_total", name, gpu.joules);
    book.add_if("autolaunch_gpu_sm_clock_hertz", name, gpu.sm_hertz);
    book.add_if("autolaunch_gpu_memory_clock_hertz", name, gpu.memory_hertz);
    book.add_if("autolaunch_gpu_nvlink_bytes_total", name, gpu.nvlink_bytes);
    book.add_if("autolaunch_gpu_ecc_uncorrected_errors_total", name, gpu.ecc_errors);
    book.add_if("autolaunch_gpu_processes", name, gpu.processes);
    if (!gpu.slowed_by)
        return;
    for (const char* reason : {"thermal", "power", "hardware", "power_cap"}) {
        const bool is_slowed =
            std::find(gpu.slowed_by->begin(), gpu.slowed_by->end(), reason) != gpu.slowed_by->end();
        book.add("autolaunch_gpu_slowed", {gpu.bdf, reason}, is_slowed ? 1 : 0);
    }
}

void add_node(const NodeReading& reading, Book& book) {
    const CgroupCounters& cgroup = reading.cgroup;
    book.add_if("autolaunch_cgroup_cpu_seconds_total", cgroup.cpu_seconds);
    book.add_if("autolaunch_cgroup_throttled_seconds_total", cgroup.throttled_seconds);
    book.add_if("autolaunch_cgroup_memory_bytes", cgroup.memory_bytes);
    book.add_if("autolaunch_cgroup_memory_limit_bytes", cgroup.memory_limit_bytes);
    book.add_if("autolaunch_cgroup_oom_kills_total", cgroup.oom_kills);
    if (const auto& cpu = reading.cpu) {
        const std::pair<const char*, double> modes[] = {
            {"user", cpu->user},       {"nice", cpu->nice},     {"system", cpu->system},
            {"idle", cpu->idle},       {"iowait", cpu->iowait}, {"irq", cpu->irq},
            {"softirq", cpu->softirq}, {"steal", cpu->steal}};
        for (const auto& [mode, seconds] : modes)
            book.add("autolaunch_node_cpu_seconds_total", {mode}, seconds);
    }
    book.add_if("autolaunch_node_memory_available_bytes", reading.memory.available_bytes);
    book.add_if("autolaunch_node_memory_size_bytes", reading.memory.total_bytes);
    book.add_if("autolaunch_node_load1", reading.load1);
    const PressureCounters& waits = reading.pressure;
    const auto stalls = [&](const char* resource, const char* share, const auto& us) {
        book.add_if("autolaunch_node_pressure_seconds_total", {resource, share}, us, kMicro);
    };
    stalls("cpu", "some", waits.cpu_some);
    stalls("memory", "some", waits.memory_some);
    stalls("memory", "full", waits.memory_full);
    stalls("io", "some", waits.io_some);
    stalls("io", "full", waits.io_full);
}

void add_devices(const NodeReading& reading, Book& book) {
    const auto as_double = [](std::uint64_t number) { return static_cast<double>(number); };
    for (const NetworkCounters& net : reading.networks) {
        const std::vector<std::string> name = {net.device};
        book.add("autolaunch_network_receive_bytes_total", name, as_double(net.received_bytes));
        book.add("autolaunch_network_transmit_bytes_total", name, as_double(net.sent_bytes));
        book.add("autolaunch_network_drops_total", name, as_double(net.dropped));
        book.add("autolaunch_network_errors_total", name, as_double(net.errors));
    }
    for (const InfinibandCounters& port : reading.infiniband) {
        const std::vector<std::string> name = {port.device, std::to_string(port.port)};
        book.add_if("autolaunch_infiniband_receive_bytes_total", name, port.received_bytes);
        book.add_if("autolaunch_infiniband_transmit_bytes_total", name, port.sent_bytes);
        book.add_if("autolaunch_infiniband_transmit_wait_ticks_total", name, port.wait_ticks);
        book.add_if("autolaunch_infiniband_errors_total", name, port.errors);
        book.add_if("autolaunch_infiniband_link_downs_total", name, port.link_downs);
        book.add("autolaunch_infiniband_active", name, port.state == "ACTIVE" ? 1 : 0);
        book.add_if("autolaunch_infiniband_rate_bytes_per_second", name, port.link_bytes);
    }
    for (const DiskCounters& disk : reading.disks) {
        const std::vector<std::string> name = {disk.device};
        book.add("autolaunch_disk_read_bytes_total", name, as_double(disk.read_bytes));
        book.add("autolaunch_disk_written_bytes_total", name, as_double(disk.written_bytes));
        book.add("autolaunch_disk_busy_seconds_total", name, as_double(disk.busy_ms) * kMilli);
    }
}

void add_file_systems(const NodeReading& reading, const std::map<std::string, std::string>& uses,
                      Book& book) {
    for (const FileSystemSample& file_system : reading.file_systems) {
        const auto use = uses.find(file_system.path);
        if (use == uses.end())
            continue;
        const std::vector<std::string> name = {use->second};
        book.add_if("autolaunch_filesystem_size_bytes", name, file_system.total_bytes);
        book.add_if("autolaunch_filesystem_available_bytes", name, file_system.available_bytes);
        book.add_if("autolaunch_filesystem_files_free", name, file_system.free_files);
        book.add("autolaunch_filesystem_silent_seconds", name,
                 file_system.silent_seconds.value_or(0));
    }
}

void add_job(const JobFacts& job, const std::string& job_name, Book& book) {
    book.add("autolaunch_job_info", {job_name}, 1);
    book.add("autolaunch_job_nodes", job.nodes);
    book.add("autolaunch_job_world_size", job.world_size);
    for (const std::string& state : job_states())
        book.add("autolaunch_job_state", {state}, state == job.state ? 1 : 0);
    for (const auto& [cause, count] : job.restarts)
        book.add("autolaunch_job_restarts_total", {cause}, static_cast<double>(count));
    for (const auto& [kind, ms] : job.unit_ms)
        book.add("autolaunch_job_time_seconds", {kind}, static_cast<double>(ms) * kMilli);
    if (!job.measured)
        return;
    const JobSample& all = *job.measured;
    book.add("autolaunch_job_nodes_heard", all.nodes_heard);
    book.add("autolaunch_job_gpus", all.gpus);
    book.add_if("autolaunch_job_gpu_busy_ratio", all.gpu_busy_ratio);
    book.add_if("autolaunch_job_gpu_busy_least_ratio", all.gpu_busy_least_ratio);
    book.add_if("autolaunch_job_gpu_hottest_celsius", all.gpu_hottest_celsius);
    book.add_if("autolaunch_job_gpu_power_watts", all.gpu_watts);
    book.add("autolaunch_job_odd_nodes", static_cast<double>(all.odd.size()));
}

}  // namespace

std::vector<std::string> job_states() {
    return {"starting", "running", "stopping", "restarting", "ended"};
}

std::vector<Metric> node_metrics(const NodeReading& reading, const AgentFacts& facts,
                                 const std::map<std::string, std::string>& uses,
                                 const std::string& version, const std::string& job_name) {
    Book book;
    book.add("autolaunch_build_info", {version}, 1);
    book.add("autolaunch_node_measured_timestamp_seconds",
             static_cast<double>(reading.time_ms) * kMilli);
    book.add("autolaunch_generation", facts.generation);
    book.add("autolaunch_sampler_restarts_total", facts.sampler_restarts);
    add_ranks(reading, facts, book);
    add_steps(facts.steps, book);
    add_checkpoints(facts, book);
    for (const GpuCounters& gpu : reading.gpus)
        add_gpu(gpu, book);
    add_node(reading, book);
    add_devices(reading, book);
    add_file_systems(reading, uses, book);
    if (facts.job)
        add_job(*facts.job, job_name, book);
    return book.take();
}

}  // namespace autolaunch::launcher
