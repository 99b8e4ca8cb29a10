#pragma once
#include "readings/node_reading.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A GPU that is to be read.
struct WatchedGpu {
    std::string bdf, vendor, uuid = {}, model = {};  ///< as in Gpu; vendors: "nvidia", "amd"
    bool operator==(const WatchedGpu&) const = default;
};

/// Reads NVIDIA's GPUs through the driver's library, and AMD's in sysfs, where their driver tells
/// the same without one.
///
/// Owner: the sampler's thread for it. Threads: one. Blocks: as long as the driver likes, perhaps
/// for ever; and the library may end the process.
class GpuReader {
public:
    struct Options {
        std::string library = {};  ///< as in Nvml::load; for tests
        std::filesystem::path sys = "/sys";
        bool asks_nvidia = true;  ///< false: its library has ended the process too often
    };
    GpuReader(std::vector<WatchedGpu> gpus, Options options);
    ~GpuReader();

    struct Answer {
        std::vector<GpuCounters> gpus;
        std::vector<std::string> troubles;
    };
    Answer read();

private:
    struct Driver;
    void read_nvidia(Answer& answer);

    std::vector<std::string> nvidia_, amd_;
    Options options_;
    std::unique_ptr<Driver> driver_;
    std::string why_none_;
};

/// One of AMD's; nothing where amdgpu does not drive it.
std::optional<GpuCounters> read_amd_gpu(const std::string& bdf, const std::filesystem::path& sys);

}  // namespace autolaunch::launcher
