#pragma once
#include "spawn/helper_process.hpp"
#include "topology/nvml.hpp"

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// What moves over the NVLinks of a generation's GPUs, and what slows them down, by NVIDIA's
/// driver: read again and again in a child process, for the library may crash, or hang in the
/// kernel.
///
/// Owner: Generation. Threads: the agent's one. Blocks: for a fork, and in the destructor 50 ms at
/// most.
class GpuGauges {
public:
    struct Options {
        std::chrono::milliseconds pause{2000};
        std::string library = {};  ///< as in Nvml::load; for tests
    };

    /// Addresses as in Gpu::bdf. Where no process can be had, nothing is known.
    explicit GpuGauges(std::vector<std::string> bdfs) : GpuGauges(std::move(bdfs), Options()) {}
    GpuGauges(std::vector<std::string> bdfs, const Options& options);

    /// The newest of each GPU; none: nothing has come yet, or nothing is known.
    const std::vector<NvmlGauge>& newest();
    /// The child; -1: there is none.
    pid_t pid() const { return child_.pid(); }

private:
    HelperProcess child_;
    std::string text_;
    std::vector<NvmlGauge> newest_;
};

/// That its PCIe link uses now; 0: not told. `sys` is for tests.
int pcie_lanes_of(const std::string& bdf, const std::filesystem::path& sys = "/sys");

/// A line of the child's, and back; what is no such line is nothing. Pure.
std::string encode_gpu_gauge(const NvmlGauge& gauge);
std::vector<NvmlGauge> decode_gpu_gauges(std::string_view text);

}  // namespace autolaunch::launcher
