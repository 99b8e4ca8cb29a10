#include "readings/gpu_reader.hpp"

#include "readings/kernel_texts.hpp"
#include "topology/nvml.hpp"
#include "topology/system_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {
namespace {

constexpr double kOfPercent = 0.01, kOfMilli = 1e-3, kOfMicro = 1e-6, kOfMega = 1e6;

template <class Number>
std::optional<double> scaled(const std::optional<Number>& value, double unit) {
    return value ? std::optional(static_cast<double>(*value) * unit) : std::nullopt;
}

GpuCounters to_counters(const NvmlReading& told) {
    GpuCounters gpu{.bdf = told.bdf, .uuid = told.uuid, .model = told.name};
    gpu.busy_ratio = scaled(told.busy_percent, kOfPercent);
    gpu.memory_busy_ratio = scaled(told.memory_busy_percent, kOfPercent);
    gpu.memory_used_bytes = told.memory_used_bytes;
    gpu.memory_total_bytes = told.memory_total_bytes;
    gpu.celsius = scaled(told.celsius, 1);
    gpu.memory_celsius = scaled(told.memory_celsius, 1);
    gpu.watts = scaled(told.milliwatts, kOfMilli);
    gpu.watts_limit = scaled(told.milliwatts_limit, kOfMilli);
    gpu.sm_hertz = scaled(told.sm_megahertz, kOfMega);
    gpu.memory_hertz = scaled(told.memory_megahertz, kOfMega);
    gpu.joules = scaled(told.millijoules, kOfMilli);
    gpu.nvlink_bytes = told.nvlink_bytes;
    gpu.processes = told.compute_processes;
    gpu.ecc_errors = told.uncorrected_ecc_errors;
    if (told.clock_event_reasons)
        gpu.slowed_by = slowed_by(*told.clock_event_reasons);
    return gpu;
}

std::optional<std::uint64_t> count_in(const std::string& path) {
    const auto number = read_number(path);
    return number && *number >= 0 ? std::optional(static_cast<std::uint64_t>(*number))
                                  : std::nullopt;
}

}  // namespace

struct GpuReader::Driver {
    std::unique_ptr<Nvml> nvml;
};

GpuReader::GpuReader(std::vector<WatchedGpu> gpus, Options options) : options_(std::move(options)) {
    for (WatchedGpu& gpu : gpus) {
        auto& list = gpu.vendor == "amd" ? amd_ : nvidia_;
        if (!gpu.bdf.empty() && std::find(list.begin(), list.end(), gpu.bdf) == list.end())
            list.push_back(std::move(gpu.bdf));
    }
}

GpuReader::~GpuReader() = default;

GpuReader::Answer GpuReader::read() {
    Answer answer;
    if (!nvidia_.empty())
        read_nvidia(answer);
    for (const std::string& bdf : amd_) {
        if (auto gpu = read_amd_gpu(bdf, options_.sys))
            answer.gpus.push_back(std::move(*gpu));
        else
            answer.troubles.push_back(
                fmt::format("GPU {}: amdgpu tells nothing of it in {}/bus/pci/devices", bdf,
                            options_.sys.string()));
    }
    return answer;
}

void GpuReader::read_nvidia(Answer& answer) {
    if (!options_.asks_nvidia) {
        answer.troubles.emplace_back(
            "NVIDIA's GPUs are not measured: reading them has ended the sampler too often");
        return;
    }
    if (!driver_ && why_none_.empty()) {
        driver_ = std::make_unique<Driver>();
        driver_->nvml = Nvml::load(why_none_, options_.library);
    }
    if (!driver_->nvml) {
        answer.troubles.push_back("NVIDIA's GPUs are not measured: " + why_none_);
        return;
    }
    const auto readings = driver_->nvml->readings(nvidia_);
    for (const NvmlReading& told : readings) {
        answer.gpus.push_back(to_counters(told));
        if (!told.trouble.empty())
            answer.troubles.push_back(fmt::format("GPU {}: {}", told.bdf, told.trouble));
    }
    for (const std::string& bdf : nvidia_)
        if (std::none_of(readings.begin(), readings.end(),
                         [&](const NvmlReading& told) { return told.bdf == bdf; }))
            answer.troubles.push_back(fmt::format("GPU {}: the driver does not know it", bdf));
}

std::optional<GpuCounters> read_amd_gpu(const std::string& bdf, const std::filesystem::path& sys) {
    const std::string folder = (sys / "bus/pci/devices" / bdf).string();
    const auto total = count_in(folder + "/mem_info_vram_total");
    if (!total)
        return std::nullopt;
    GpuCounters gpu{.bdf = bdf};
    gpu.uuid = read_small(folder + "/unique_id").value_or("");
    gpu.memory_total_bytes = total;
    gpu.memory_used_bytes = count_in(folder + "/mem_info_vram_used");
    gpu.busy_ratio = scaled(count_in(folder + "/gpu_busy_percent"), kOfPercent);
    gpu.memory_busy_ratio = scaled(count_in(folder + "/mem_busy_percent"), kOfPercent);
    const auto monitors = list_directory(folder + "/hwmon");
    if (monitors.empty())
        return gpu;
    const std::string monitor = folder + "/hwmon/" + monitors.front() + "/";
    // temp1 is its edge, temp2 the junction, temp3 the memory.
    for (const char* sensor : {"temp2_input", "temp1_input"})
        if (!gpu.celsius)
            gpu.celsius = scaled(read_number(monitor + sensor), kOfMilli);
    gpu.memory_celsius = scaled(read_number(monitor + "temp3_input"), kOfMilli);
    for (const char* power : {"power1_average", "power1_input"})  // by kernel and GPU
        if (!gpu.watts)
            gpu.watts = scaled(count_in(monitor + power), kOfMicro);
    gpu.watts_limit = scaled(count_in(monitor + "power1_cap"), kOfMicro);
    gpu.sm_hertz = scaled(count_in(monitor + "freq1_input"), 1);
    gpu.memory_hertz = scaled(count_in(monitor + "freq2_input"), 1);
    return gpu;
}

}  // namespace autolaunch::launcher
