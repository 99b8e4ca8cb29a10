#pragma once
#include "spawn/helper_process.hpp"
#include "topology/nvml.hpp"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// What NVIDIA's driver tells of the GPUs of a generation while it runs, kept until somebody wants
/// to know why a rank ended. A child process listens: the library may crash, or hang in the kernel.
///
/// Owner: Generation. Threads: the agent's one. Blocks: for a fork, and in the destructor 50 ms at
/// most.
class GpuEvents {
public:
    struct Options {
        std::chrono::milliseconds pause{1000};  ///< how often it is looked for what has no events
        std::string library = {};               ///< as in Nvml::load; for tests
    };

    /// Addresses as in Gpu::bdf. Where no process can be had, nothing is known.
    explicit GpuEvents(std::vector<std::string> bdfs) : GpuEvents(std::move(bdfs), Options()) {}
    GpuEvents(std::vector<std::string> bdfs, const Options& options);

    /// Of this GPU, oldest first, as far as they have come.
    std::vector<NvmlEvent> of(const std::string& bdf);
    /// The child; -1: there is none.
    pid_t pid() const { return child_.pid(); }

private:
    HelperProcess child_;
    std::string text_;
};

/// A line of the child's, and back; what is no such line is nothing. Pure.
std::string encode_gpu_event(const NvmlEvent& event);
std::vector<NvmlEvent> decode_gpu_events(std::string_view text);

}  // namespace autolaunch::launcher
