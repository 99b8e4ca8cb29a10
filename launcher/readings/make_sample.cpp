#include "readings/node_reading.hpp"

#include <algorithm>
#include <cstddef>

namespace autolaunch::launcher {
namespace {

/// Of what is counted: the increase over the time between two readings.
class Span {
public:
    explicit Span(double seconds) : seconds_(seconds) {}

    template <class Number>
    std::optional<double> rate(Number before, Number now) const {
        if (seconds_ <= 0 || now < before)
            return std::nullopt;
        return static_cast<double>(now - before) / seconds_;
    }
    template <class Number>
    std::optional<double> rate(const std::optional<Number>& before,
                               const std::optional<Number>& now) const {
        return before && now ? rate(*before, *now) : std::nullopt;
    }
    /// Of a time that was counted in `unit` seconds: the part of the span.
    template <class Number>
    std::optional<double> ratio(const std::optional<Number>& before,
                                const std::optional<Number>& now, double unit) const {
        const auto found = rate(before, now);
        return found ? std::optional(std::clamp(*found * unit, 0.0, 1.0)) : std::nullopt;
    }

private:
    double seconds_;
};

/// The one of the same name in the reading before; null: there is none.
template <class Item, class Same>
const Item* same_in(const std::vector<Item>* items, Same same) {
    if (items == nullptr)
        return nullptr;
    const auto found = std::find_if(items->begin(), items->end(), same);
    return found == items->end() ? nullptr : &*found;
}

CpuSample cpu_sample(const NodeReading* before, const NodeReading& now) {
    CpuSample cpu{.load1 = now.load1};
    if (!now.cpu)
        return cpu;
    cpu.cpus = now.cpu->cpus;
    if (before == nullptr || !before->cpu)
        return cpu;
    const CpuCounters &a = *before->cpu, &b = *now.cpu;
    const auto grown = [](double from, double to) { return std::max(to - from, 0.0); };
    const double user = grown(a.user + a.nice, b.user + b.nice);
    const double system = grown(a.system + a.irq + a.softirq, b.system + b.irq + b.softirq);
    const double steal = grown(a.steal, b.steal), iowait = grown(a.iowait, b.iowait);
    const double all = user + system + steal + iowait + grown(a.idle, b.idle);
    if (all <= 0)
        return cpu;
    cpu.busy_ratio = (user + system + steal) / all;
    cpu.user_ratio = user / all;
    cpu.system_ratio = system / all;
    cpu.iowait_ratio = iowait / all;
    cpu.steal_ratio = steal / all;
    return cpu;
}

PressureSample pressure_sample(const Span& span, const PressureCounters& a,
                               const PressureCounters& b) {
    constexpr double kMicro = 1e-6;
    return {.cpu_some_ratio = span.ratio(a.cpu_some, b.cpu_some, kMicro),
            .memory_some_ratio = span.ratio(a.memory_some, b.memory_some, kMicro),
            .memory_full_ratio = span.ratio(a.memory_full, b.memory_full, kMicro),
            .io_some_ratio = span.ratio(a.io_some, b.io_some, kMicro),
            .io_full_ratio = span.ratio(a.io_full, b.io_full, kMicro)};
}

void add_ranks(const NodeReading* before, const NodeReading& now, const Span& span,
               const AgentFacts& facts, NodeSample& sample) {
    for (const RankFacts& fact : facts.ranks) {
        if (sample.ranks.size() == kSampleRanks) {
            ++sample.ranks_left_out;
            continue;
        }
        RankSample rank{.rank = fact.rank};
        if (fact.pid > 0)
            rank.pid = fact.pid;
        if (!fact.gpu.empty())
            rank.gpu = fact.gpu;
        rank.step = fact.step;
        rank.step_seconds = fact.step_seconds;
        rank.loss = fact.loss;
        rank.tokens_per_second = fact.tokens_per_second;
        rank.input_ratio = fact.input_ratio;
        const auto is_it = [&](const RankCounters& other) {
            return other.rank == fact.rank && other.pid == fact.pid;
        };
        if (const RankCounters* used = same_in(&now.ranks, is_it)) {
            rank.resident_bytes = used->resident_bytes;
            rank.threads = used->threads;
            if (const auto* old = same_in(before ? &before->ranks : nullptr, is_it)) {
                rank.cpu_cores = span.rate(old->cpu_seconds, used->cpu_seconds);
                rank.read_bytes = span.rate(old->read_bytes, used->read_bytes);
                rank.written_bytes = span.rate(old->written_bytes, used->written_bytes);
            }
        }
        sample.ranks.push_back(std::move(rank));
    }
}

GpuSample gpu_sample(const GpuCounters* old, const GpuCounters& now, const Span& span) {
    GpuSample gpu{.bdf = now.bdf,
                  .busy_ratio = now.busy_ratio,
                  .memory_busy_ratio = now.memory_busy_ratio,
                  .memory_used_bytes = now.memory_used_bytes,
                  .memory_total_bytes = now.memory_total_bytes,
                  .celsius = now.celsius,
                  .memory_celsius = now.memory_celsius,
                  .watts = now.watts,
                  .watts_limit = now.watts_limit,
                  .sm_hertz = now.sm_hertz,
                  .memory_hertz = now.memory_hertz,
                  .ecc_errors = now.ecc_errors,
                  .processes = now.processes};
    if (old != nullptr)
        gpu.nvlink_bytes = span.rate(old->nvlink_bytes, now.nvlink_bytes);
    gpu.slowed_by = now.slowed_by.value_or(std::vector<std::string>());
    return gpu;
}

void add_devices(const NodeReading* before, const NodeReading& now, const Span& span,
                 NodeSample& sample) {
    for (const GpuCounters& gpu : now.gpus)
        sample.gpus.push_back(
            gpu_sample(same_in(before ? &before->gpus : nullptr,
                               [&](const GpuCounters& other) { return other.bdf == gpu.bdf; }),
                       gpu, span));
    for (const NetworkCounters& net : now.networks) {
        NetworkSample added{.device = net.device};
        if (const auto* old = same_in(before ? &before->networks : nullptr,
                                      [&](const auto& o) { return o.device == net.device; })) {
            added.received_bytes = span.rate(old->received_bytes, net.received_bytes);
            added.sent_bytes = span.rate(old->sent_bytes, net.sent_bytes);
            added.dropped = span.rate(old->dropped, net.dropped);
            added.errors = span.rate(old->errors, net.errors);
        }
        sample.networks.push_back(std::move(added));
    }
    for (const InfinibandCounters& port : now.infiniband) {
        InfinibandSample added{.device = port.device, .port = port.port};
        if (!port.state.empty())
            added.state = port.state;
        added.link_bytes = port.link_bytes;
        added.link_downs = port.link_downs;
        if (const auto* old =
                same_in(before ? &before->infiniband : nullptr, [&](const auto& other) {
                    return other.device == port.device && other.port == port.port;
                })) {
            added.received_bytes = span.rate(old->received_bytes, port.received_bytes);
            added.sent_bytes = span.rate(old->sent_bytes, port.sent_bytes);
            added.errors = span.rate(old->errors, port.errors);
            added.waits = span.rate(old->wait_ticks, port.wait_ticks);
        }
        sample.infiniband.push_back(std::move(added));
    }
    constexpr double kMilli = 1e-3;
    for (const DiskCounters& disk : now.disks) {
        DiskSample added{.device = disk.device};
        if (const auto* old = same_in(before ? &before->disks : nullptr,
                                      [&](const auto& o) { return o.device == disk.device; })) {
            added.read_bytes = span.rate(old->read_bytes, disk.read_bytes);
            added.written_bytes = span.rate(old->written_bytes, disk.written_bytes);
            added.busy_ratio =
                span.ratio(std::optional(old->busy_ms), std::optional(disk.busy_ms), kMilli);
        }
        sample.disks.push_back(std::move(added));
    }
    sample.file_systems = now.file_systems;
}

}  // namespace

void StepDurations::add(int rank, double seconds, std::int64_t time_ms) {
    const auto bucket = static_cast<std::size_t>(
        std::lower_bound(std::begin(kBounds), std::end(kBounds), seconds) - std::begin(kBounds));
    ++counts[bucket];
    newest[bucket] = {rank, seconds, time_ms};
    constexpr double kMicro = 1e6;
    sum_us += static_cast<std::uint64_t>(std::max(seconds, 0.0) * kMicro);
}

NodeSample make_sample(const NodeReading* before, const NodeReading& now, const AgentFacts& facts) {
    constexpr double kMilli = 1e-3;
    const double seconds =
        before == nullptr ? 0 : static_cast<double>(now.boot_ms - before->boot_ms) * kMilli;
    const Span span(seconds);
    NodeSample sample{
        .time_ms = now.time_ms, .boot_ms = now.boot_ms, .span_seconds = std::max(seconds, 0.0)};
    sample.generation = facts.generation;
    sample.cpu = cpu_sample(before, now);
    sample.memory = now.memory;
    sample.pressure =
        pressure_sample(span, before ? before->pressure : PressureCounters{}, now.pressure);
    const CgroupCounters old = before ? before->cgroup : CgroupCounters{};
    sample.cgroup = {
        .cpu_cores = span.rate(old.cpu_seconds, now.cgroup.cpu_seconds),
        .throttled_ratio = span.ratio(old.throttled_seconds, now.cgroup.throttled_seconds, 1),
        .memory_bytes = now.cgroup.memory_bytes,
        .memory_limit_bytes = now.cgroup.memory_limit_bytes,
        .oom_kills = now.cgroup.oom_kills};
    sample.checkpoint = {.step = facts.checkpoint_step,
                         .stall_seconds = facts.checkpoint_stall_seconds,
                         .save_seconds = facts.checkpoint_save_seconds};
    if (facts.checkpoint_time_ms)  // a clock that was set back makes none younger than new
        sample.checkpoint.age_seconds =
            std::max(static_cast<double>(now.time_ms - *facts.checkpoint_time_ms) * kMilli, 0.0);
    add_ranks(before, now, span, facts, sample);
    add_devices(before, now, span, sample);
    if (facts.job)
        sample.job = facts.job->measured;
    sample.troubles = now.troubles;
    return sample;
}

}  // namespace autolaunch::launcher
