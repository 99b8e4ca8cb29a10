#include "readings/node_measures.hpp"

#include "readings/sample.hpp"

#include <algorithm>
#include <optional>

namespace autolaunch::launcher {
namespace {

std::uint32_t in_millionths(const std::optional<double>& ratio) {
    constexpr double kMillion = 1e6;
    return ratio ? static_cast<std::uint32_t>(std::clamp(*ratio, 0.0, 1.0) * kMillion)
                 : NodeMeasures::kUnknown;
}

std::uint64_t whole(const std::optional<double>& value) {
    constexpr double kMost = 1e15;
    return value ? static_cast<std::uint64_t>(std::clamp(*value, 0.0, kMost)) : 0;
}

NodeMeasures::Gpu measures_of(const GpuSample& gpu) {
    constexpr double kThousand = 1000;
    constexpr int kMebi = 20;
    NodeMeasures::Gpu told;
    if (gpu.busy_ratio)
        told.busy = static_cast<std::uint16_t>(std::clamp(*gpu.busy_ratio, 0.0, 1.0) * kThousand);
    told.celsius = static_cast<std::uint16_t>(std::min<std::uint64_t>(whole(gpu.celsius), 999));
    told.milliwatts = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(whole(gpu.watts.value_or(0) * kThousand), 100'000'000));
    told.memory_used_mib = static_cast<std::uint32_t>(gpu.memory_used_bytes.value_or(0) >> kMebi);
    told.memory_total_mib = static_cast<std::uint32_t>(gpu.memory_total_bytes.value_or(0) >> kMebi);
    told.slowed = std::any_of(gpu.slowed_by.begin(), gpu.slowed_by.end(), [](const auto& why) {
        return why == "thermal" || why == "power" || why == "hardware";
    });
    return told;
}

}  // namespace

NodeMeasures measures_of(const NodeSample& sample, int sampler_restarts) {
    constexpr double kMilli = 1000;
    NodeMeasures told;
    told.span_ms = static_cast<std::uint32_t>(std::clamp(sample.span_seconds, 0.0, 1e6) * kMilli);
    told.cpu_busy = in_millionths(sample.cpu.busy_ratio);
    const MemorySample& memory = sample.memory;
    if (memory.total_bytes && memory.available_bytes && *memory.total_bytes > 0)
        told.memory_free = in_millionths(static_cast<double>(*memory.available_bytes) /
                                         static_cast<double>(*memory.total_bytes));
    told.throttled = in_millionths(sample.cgroup.throttled_ratio);
    told.io_stalled = in_millionths(sample.pressure.io_full_ratio);
    for (const NetworkSample& net : sample.networks)
        told.network_bytes += whole(net.sent_bytes);
    for (const InfinibandSample& port : sample.infiniband)
        told.infiniband_bytes += whole(port.sent_bytes);
    for (const FileSystemSample& file_system : sample.file_systems)
        told.silent_file_systems += file_system.silent_seconds ? 1 : 0;
    told.troubles = static_cast<std::uint32_t>(sample.troubles.size());
    told.sampler_restarts = static_cast<std::uint32_t>(std::max(sampler_restarts, 0));
    for (const GpuSample& gpu : sample.gpus)
        if (told.gpus.size() < NodeMeasures::kMostGpus)
            told.gpus.push_back(measures_of(gpu));
    return told;
}

}  // namespace autolaunch::launcher
