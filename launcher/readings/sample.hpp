#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace autolaunch::launcher {

// What a node measured of itself at one moment, and its line in RUN_DIR/samples/NODE.jsonl.
// docs/samples.md has every key. What nobody told is nothing, never 0. Rates are per second, over
// NodeSample::span_seconds; ratios are 0 to 1.

/// The whole node's CPUs, those of other jobs too.
struct CpuSample {
    std::optional<double> busy_ratio = {};  ///< of all CPUs: what is neither idle nor iowait
    std::optional<double> user_ratio = {}, system_ratio = {}, iowait_ratio = {}, steal_ratio = {};
    std::optional<double> load1 = {};
    std::optional<int> cpus = {};  ///< that are online
    bool operator==(const CpuSample&) const = default;
};
struct MemorySample {
    std::optional<std::uint64_t> total_bytes = {}, available_bytes = {}, shared_bytes = {},
                                 dirty_bytes = {};
    std::optional<std::uint64_t> swap_used_bytes = {};
    bool operator==(const MemorySample&) const = default;
};
/// Share of the time in which some, or all, that wanted to run waited for it (the kernel's PSI).
struct PressureSample {
    std::optional<double> cpu_some_ratio = {}, memory_some_ratio = {}, memory_full_ratio = {},
                          io_some_ratio = {}, io_full_ratio = {};
    bool operator==(const PressureSample&) const = default;
};
/// The agent's cgroup, which is the job's under Slurm.
struct CgroupSample {
    std::optional<double> cpu_cores = {};        ///< used, in CPUs
    std::optional<double> throttled_ratio = {};  ///< of the time its CPU quota held it back
    std::optional<std::uint64_t> memory_bytes = {}, memory_limit_bytes = {}, oom_kills = {};
    bool operator==(const CgroupSample&) const = default;
};
/// A rank of this node: its process with all that it has started.
struct RankSample {
    int rank = 0;
    std::optional<int> pid = {};
    std::optional<double> cpu_cores = {};  ///< used, in CPUs
    std::optional<std::uint64_t> resident_bytes = {};
    std::optional<int> threads = {};
    std::optional<double> read_bytes = {}, written_bytes = {};  ///< per second, from and to disks
    std::optional<std::string> gpu = {};  ///< its PCI address, as in GpuSample
    // As the rank reported it:
    std::optional<std::int64_t> step = {};
    std::optional<double> step_seconds = {}, loss = {}, tokens_per_second = {};
    std::optional<double> input_ratio =
        {};  ///< of the time between its reports it waited for input
    bool operator==(const RankSample&) const = default;
};
struct GpuSample {
    std::string bdf = {};  ///< PCI address: 0000:17:00.0
    std::optional<double> busy_ratio = {},
                          memory_busy_ratio = {};  ///< a kernel ran; its memory was used
    std::optional<std::uint64_t> memory_used_bytes = {}, memory_total_bytes = {};
    std::optional<double> celsius = {}, memory_celsius = {}, watts = {}, watts_limit = {};
    std::optional<double> sm_hertz = {}, memory_hertz = {};
    std::optional<double> nvlink_bytes = {};       ///< per second, both ways
    std::optional<std::uint64_t> ecc_errors = {};  ///< uncorrected, since the driver was loaded
    std::vector<std::string> slowed_by = {};       ///< "thermal", "power", …
    std::optional<int> processes = {};             ///< that have a context on it, anybody's
    bool operator==(const GpuSample&) const = default;
};
struct NetworkSample {
    std::string device = {};
    std::optional<double> received_bytes = {}, sent_bytes = {}, dropped = {}, errors = {};
    bool operator==(const NetworkSample&) const = default;
};
/// A port of an HCA.
struct InfinibandSample {
    std::string device = {};
    int port = 0;
    std::optional<std::string> state = {};  ///< "ACTIVE"
    std::optional<double> link_bytes = {};  ///< per second, what the link could carry
    std::optional<double> received_bytes = {}, sent_bytes = {};
    std::optional<double> waits = {};  ///< per second: ticks in which it had data and no credit
    std::optional<double> errors = {};
    std::optional<std::uint64_t> link_downs = {};  ///< since the driver was loaded
    bool operator==(const InfinibandSample&) const = default;
};
struct DiskSample {
    std::string device = {};
    std::optional<double> read_bytes = {}, written_bytes = {}, busy_ratio = {};
    bool operator==(const DiskSample&) const = default;
};
struct FileSystemSample {
    std::string path = {};
    std::optional<std::string> type = {};  ///< "nfs4"
    std::optional<std::uint64_t> total_bytes = {}, available_bytes = {}, total_files = {},
                                 free_files = {};
    std::optional<double> silent_seconds = {};  ///< it has not answered for that long
    bool operator==(const FileSystemSample&) const = default;
};
/// The job's checkpoints, as this node's ranks reported them.
struct CheckpointSample {
    std::optional<std::int64_t> step = {};  ///< the newest that was published
    std::optional<double> age_seconds = {}, stall_seconds = {}, save_seconds = {};
    bool operator==(const CheckpointSample&) const = default;
};

/// The whole job, in the samples of its head alone: of the nodes that it has heard lately.
struct JobSample {
    int nodes = 0, nodes_heard = 0, gpus = 0;
    std::optional<double> cpu_busy_ratio = {};  ///< mean
    std::optional<double> gpu_busy_ratio = {}, gpu_busy_least_ratio = {};
    std::optional<double> gpu_hottest_celsius = {}, gpu_watts = {};
    std::optional<std::uint64_t> gpu_memory_used_bytes = {}, gpu_memory_total_bytes = {};
    std::optional<double> network_bytes = {}, infiniband_bytes = {};  ///< per second, sent
    std::vector<std::string> odd = {};  ///< nodes that are unlike the others: a sentence each
    bool operator==(const JobSample&) const = default;
};

struct NodeSample {
    std::int64_t time_ms = 0;            ///< since 1970, by the node's clock, which may be set
    std::int64_t boot_ms = 0;            ///< since the node was started: never goes back
    double span_seconds = 0;             ///< since the sample before; 0: there is none, nor a rate
    std::optional<int> generation = {};  ///< whose ranks these are
    CpuSample cpu = {};
    MemorySample memory = {};
    PressureSample pressure = {};
    CgroupSample cgroup = {};
    CheckpointSample checkpoint = {};
    /// At most kSampleRanks; `ranks_left_out` says how many more there are.
    std::vector<RankSample> ranks = {};
    int ranks_left_out = 0;
    std::vector<GpuSample> gpus = {};
    std::vector<NetworkSample> networks = {};
    std::vector<InfinibandSample> infiniband = {};
    std::vector<DiskSample> disks = {};
    std::vector<FileSystemSample> file_systems = {};
    std::optional<JobSample> job = {};
    std::vector<std::string> troubles = {};  ///< what could not be read, and why: a sentence each
    bool operator==(const NodeSample&) const = default;
};
inline constexpr std::size_t kSampleRanks = 128;

/// First of what one sampler writes: another follows where one was started anew.
struct SampleHeader {
    int format = 1;
    std::string node = {}, run_id = {};
    std::int64_t time_ms = 0, boot_ms = 0;
    double interval_seconds = 0;
    int restarts = 0;  ///< of the sampler
    std::string boot_id = {};
    struct Gpu {
        std::string bdf = {}, uuid = {}, model = {};
        bool operator==(const Gpu&) const = default;
    };
    std::vector<Gpu> gpus = {};
    bool operator==(const SampleHeader&) const = default;
};
inline constexpr int kSampleFormat = 1;

/// A line, with its end.
std::string to_json_line(const NodeSample& sample);
std::string to_json_line(const SampleHeader& header);

using SampleLine = std::variant<std::monostate, SampleHeader, NodeSample>;
/// A line of the file, whoever wrote it. Nothing for what is none: torn, damaged, of another
/// format. Keys that are not known are passed over, as are values of another kind. Pure.
SampleLine parse_sample_line(std::string_view line);

/// The file's name in RUN_DIR/samples. A node's name is a word of the scheduler's; what would lead
/// elsewhere becomes "_".
std::string sample_file_name(std::string_view node);

}  // namespace autolaunch::launcher
