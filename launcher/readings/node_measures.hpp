#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace autolaunch::launcher {

struct NodeSample;

/// What a node says of a sample to the job's head, small: 4,096 nodes say it to one.
struct NodeMeasures {
    std::uint32_t span_ms = 0;
    std::uint32_t cpu_busy = kUnknown;  ///< in millionths
    std::uint32_t memory_free = kUnknown, throttled = kUnknown,
                  io_stalled = kUnknown;                    ///< the same
    std::uint64_t network_bytes = 0, infiniband_bytes = 0;  ///< a second, sent
    std::uint32_t silent_file_systems = 0, troubles = 0, sampler_restarts = 0;
    struct Gpu {
        std::uint16_t busy = kUnknown16;  ///< in thousandths
        std::uint16_t celsius = 0;        ///< 0: not told
        std::uint32_t milliwatts = 0;
        std::uint32_t memory_used_mib = 0, memory_total_mib = 0;
        bool slowed = false;  ///< by heat or its power supply
        bool operator==(const Gpu&) const = default;
    };
    std::vector<Gpu> gpus = {};  ///< kMostGpus at most
    static constexpr std::uint32_t kUnknown = 0xffffffff;
    static constexpr std::uint16_t kUnknown16 = 0xffff;
    static constexpr std::size_t kMostGpus = 16;
    bool operator==(const NodeMeasures&) const = default;
};
/// Pure.
NodeMeasures measures_of(const NodeSample& sample, int sampler_restarts);

}  // namespace autolaunch::launcher
