#include "placement_watch/gpu_gauges.hpp"

#include "base/file_io.hpp"
#include "base/read_at_most.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

namespace autolaunch::launcher {

std::string encode_gpu_gauge(const NvmlGauge& gauge) {
    return fmt::format("{} {} {}\n", gauge.bdf,
                       gauge.nvlink_bytes ? std::to_string(*gauge.nvlink_bytes) : "-",
                       gauge.slowed_reasons);
}

std::vector<NvmlGauge> decode_gpu_gauges(std::string_view text) {
    std::vector<NvmlGauge> gauges;
    for (std::size_t end = 0; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
        const auto words = split(std::string(text.substr(0, end)), ' ');
        long long bytes = -1, reasons = 0;
        if (words.size() != 3 || !parse_integer(words[2], reasons) || reasons < 0)
            continue;
        if (words[1] != "-" && (!parse_integer(words[1], bytes) || bytes < 0))
            continue;
        NvmlGauge gauge{.bdf = words[0],
                        .nvlink_bytes = {},
                        .slowed_reasons = static_cast<std::uint64_t>(reasons)};
        if (bytes >= 0)
            gauge.nvlink_bytes = static_cast<std::uint64_t>(bytes);
        gauges.push_back(std::move(gauge));
    }
    return gauges;
}

int pcie_lanes_of(const std::string& bdf, const std::filesystem::path& sys) try {
    constexpr std::size_t kLongest = 16;
    long long lanes = 0;
    const std::string text =
        read_at_most(sys / "bus/pci/devices" / bdf / "current_link_width", kLongest);
    return parse_integer(std::string(trim(text)), lanes) && lanes > 0 && lanes <= 64
               ? static_cast<int>(lanes)
               : 0;
} catch (const Error&) {
    return 0;
}

GpuGauges::GpuGauges(std::vector<std::string> bdfs, const Options& options) try {
    if (bdfs.empty())
        return;
    child_ = HelperProcess([&](int output) {
        std::string why;
        const auto nvml = Nvml::load(why, options.library);
        for (; nvml; std::this_thread::sleep_for(options.pause)) {
            std::string lines;
            for (const NvmlGauge& gauge : nvml->gauges(bdfs))
                lines += encode_gpu_gauge(gauge);
            write_all(output, lines, "the pipe");
        }
    });
} catch (const std::exception&) {  // no process is left: the ranks need them more
}

const std::vector<NvmlGauge>& GpuGauges::newest() {
    child_.read_some(text_);
    const std::size_t whole = text_.rfind('\n');
    if (whole == std::string::npos)
        return newest_;
    for (NvmlGauge& gauge : decode_gpu_gauges(text_.substr(0, whole + 1))) {
        const auto known =
            std::find_if(newest_.begin(), newest_.end(),
                         [&](const NvmlGauge& other) { return other.bdf == gauge.bdf; });
        if (known != newest_.end())
            *known = std::move(gauge);
        else
            newest_.push_back(std::move(gauge));
    }
    text_.erase(0, whole + 1);
    return newest_;
}

}  // namespace autolaunch::launcher
