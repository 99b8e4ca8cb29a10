#pragma once
#include "spawn/helper_process.hpp"
#include "topology/node_topology.hpp"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// Who has a GPU, or a MIG device, before the ranks come to it.
struct GpuClaim {
    std::string bdf;
    std::string uuid;      ///< of the MIG device, where it is one; else empty
    int compute_mode = 0;  ///< NVML's: 0 default, 2 prohibited, 3 exclusive process
    struct Process {
        int pid = 0;
        std::uint64_t memory_bytes = 0;  ///< 0: not told
        std::string program = {};        ///< empty: not of this PID namespace, or gone
    };
    std::vector<Process> processes = {};
};

/// A rank and the GPU that it is to have.
struct GpuOfRank {
    int rank = 0;
    int number = 0;  ///< by which the rank knows it
    Gpu gpu;
};

/// Asks the driver, here and now; it may take seconds, crash or hang. Empty where there is none.
/// `library` as in Nvml::load.
std::vector<GpuClaim> read_gpu_claims(const std::string& library = {},
                                      const std::string& proc_root = "/proc");

/// A sentence for each planned GPU that somebody else has, or that will refuse its ranks. Pure.
std::vector<std::string> describe_gpu_claims(const std::vector<GpuOfRank>& planned,
                                             const std::vector<GpuClaim>& claims);

/// For the way through a pipe: lines, the last one `end`.
std::string encode_gpu_claims(const std::vector<GpuClaim>& claims);
/// Nothing of what is not whole.
std::vector<GpuClaim> decode_gpu_claims(std::string_view text);

/// The question, asked in a process of its own while the nodes meet.
///
/// Owner: who plans. Threads: one. Blocks: warnings(), as long as it is given.
class GpuClaimsInquiry {
public:
    /// Starts it where the machine shows NVIDIA GPUs, else does nothing.
    explicit GpuClaimsInquiry(const NodeTopology& topology, const std::string& library = {});
    /// What is known by then; a driver that has not answered is named.
    std::vector<std::string> warnings(const std::vector<GpuOfRank>& planned,
                                      std::chrono::milliseconds wait);

private:
    HelperProcess child_;
    std::string trouble_;
};

}  // namespace autolaunch::launcher
