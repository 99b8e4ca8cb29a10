#pragma once
#include "readings/sample.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

// What the kernel, drivers and file systems of a node say at one moment: counters as they are, of
// which two make a sample, and gauges. What nobody told is nothing.

/// Seconds since the node was started, summed over its CPUs.
struct CpuCounters {
    double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
    int cpus = 0;
};
/// Microseconds for which some, or all, have waited.
struct PressureCounters {
    std::optional<std::uint64_t> cpu_some = {}, memory_some = {}, memory_full = {}, io_some = {},
                                 io_full = {};
};
struct CgroupCounters {
    std::optional<double> cpu_seconds = {}, throttled_seconds = {};
    std::optional<std::uint64_t> memory_bytes = {}, memory_limit_bytes = {}, oom_kills = {};
};
/// A rank's process and all that it has started, as far as that is there.
struct RankCounters {
    int rank = 0, pid = 0;
    double cpu_seconds = 0;
    std::uint64_t resident_bytes = 0;
    int threads = 0;
    std::optional<std::uint64_t> read_bytes = {}, written_bytes = {};
};
struct GpuCounters {
    std::string bdf, uuid = {}, model = {};
    std::optional<double> busy_ratio = {}, memory_busy_ratio = {};
    std::optional<std::uint64_t> memory_used_bytes = {}, memory_total_bytes = {};
    std::optional<double> celsius = {}, memory_celsius = {}, watts = {}, watts_limit = {};
    std::optional<double> sm_hertz = {}, memory_hertz = {}, joules = {};
    std::optional<std::uint64_t> nvlink_bytes = {}, ecc_errors = {};
    std::optional<std::vector<std::string>> slowed_by = {};
    std::optional<int> processes = {};
};
struct NetworkCounters {
    std::string device;
    std::uint64_t received_bytes = 0, sent_bytes = 0, dropped = 0, errors = 0;
};
struct InfinibandCounters {
    std::string device;
    int port = 0;
    std::string state = {};
    std::optional<double> link_bytes = {};  ///< per second
    std::optional<std::uint64_t> received_bytes = {}, sent_bytes = {}, wait_ticks = {}, errors = {},
                                 link_downs = {};
};
struct DiskCounters {
    std::string device;
    std::uint64_t read_bytes = 0, written_bytes = 0, busy_ms = 0;
};

struct NodeReading {
    std::int64_t time_ms = 0, boot_ms = 0;
    std::optional<CpuCounters> cpu = {};
    std::optional<double> load1 = {};
    MemorySample memory = {};
    PressureCounters pressure = {};
    CgroupCounters cgroup = {};
    std::vector<RankCounters> ranks = {};
    std::vector<GpuCounters> gpus = {};
    std::vector<NetworkCounters> networks = {};
    std::vector<InfinibandCounters> infiniband = {};
    std::vector<DiskCounters> disks = {};
    std::vector<FileSystemSample> file_systems = {};
    std::vector<std::string> troubles = {};
};

/// What a rank of this node reported to its agent.
struct RankFacts {
    int rank = 0, pid = 0;
    std::string gpu = {};  ///< PCI address; empty: it has none
    std::optional<std::int64_t> step = {};
    std::optional<double> step_seconds = {}, loss = {}, tokens_per_second = {};
    std::optional<double> input_ratio = {};  ///< of the time since the facts before
    bool operator==(const RankFacts&) const = default;
};
/// How long steps took, of all ranks of this node, since the job's start here.
struct StepDurations {
    /// Upper bounds, in seconds; above the last one there is one more bucket.
    static constexpr double kBounds[] = {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60};
    static constexpr std::size_t kBuckets = std::size(kBounds) + 1;
    struct Newest {
        int rank = 0;
        double seconds = 0;
        std::int64_t time_ms = 0;  ///< 0: there is none
        bool operator==(const Newest&) const = default;
    };
    std::vector<std::uint64_t> counts = std::vector<std::uint64_t>(kBuckets);
    std::vector<Newest> newest = std::vector<Newest>(kBuckets);
    std::uint64_t sum_us = 0;
    void add(int rank, double seconds, std::int64_t time_ms);
    bool operator==(const StepDurations&) const = default;
};
/// What concerns the whole job: its head alone knows it.
struct JobFacts {
    int nodes = 0, world_size = 0;
    std::string state = {};                              ///< "running"
    std::map<std::string, std::uint64_t> restarts = {};  ///< by cause
    std::string unit = {};                               ///< the ledger's: "gpu", "rank"
    std::map<std::string, std::int64_t> unit_ms = {};    ///< the ledger's, by kind
    std::optional<JobSample> measured = {};
    bool operator==(const JobFacts&) const = default;
};
/// What this node's agent knows, and its sampler cannot read anywhere.
struct AgentFacts {
    int generation = 0;
    std::vector<RankFacts> ranks = {};
    StepDurations steps = {};
    std::optional<std::int64_t> checkpoint_step = {};
    std::optional<double> checkpoint_stall_seconds = {}, checkpoint_save_seconds = {};
    std::optional<std::int64_t> checkpoint_time_ms = {};
    std::uint64_t checkpoints = 0;  ///< that were published
    int sampler_restarts = 0;
    std::optional<JobFacts> job = {};
    bool operator==(const AgentFacts&) const = default;
};

/// Rates between two readings; `before` null: there are none. A counter that went back, as when a
/// driver was loaded anew, has no rate. Clocks that were set change nothing but time_ms. Pure.
NodeSample make_sample(const NodeReading* before, const NodeReading& now, const AgentFacts& facts);

}  // namespace autolaunch::launcher
