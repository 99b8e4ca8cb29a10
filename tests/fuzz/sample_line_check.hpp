#pragma once
#include "readings/kernel_texts.hpp"
#include "readings/node_measures.hpp"
#include "readings/sample.hpp"
#include "readings/sample_file.hpp"
#include "require.hpp"

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace autolaunch::launcher {

namespace sample_line {

using fuzz::require;

inline std::string text_of(const SampleLine& line) {
    const auto* sample = std::get_if<NodeSample>(&line);
    return sample != nullptr ? to_json_line(*sample) : to_json_line(std::get<SampleHeader>(line));
}

/// What was read is written as one line that reads the same.
inline void check_line(std::string_view bytes) {
    const SampleLine line = parse_sample_line(bytes);
    if (std::holds_alternative<std::monostate>(line))
        return;
    const std::string text = text_of(line);
    require(text.find('\n') == text.size() - 1);
    const SampleLine again = parse_sample_line(std::string_view(text).substr(0, text.size() - 1));
    require(again.index() == line.index() && text_of(again) == text);
    if (const auto* sample = std::get_if<NodeSample>(&line))
        require(measures_of(*sample, 0).gpus.size() <= NodeMeasures::kMostGpus);
}

/// Figures of the kernel's texts are numbers.
inline void check_kernel_texts(std::string_view bytes) {
    const auto finite = [](const std::optional<double>& value) {
        require(!value || std::isfinite(*value));
    };
    constexpr double kTicks = 100;
    parse_proc_stat(bytes, kTicks);
    finite(parse_load1(bytes));
    parse_meminfo(bytes);
    parse_pressure(bytes);
    CgroupCounters counters;
    parse_cpu_stat(bytes, counters);
    cgroup_path(bytes, "");
    cgroup_path(bytes, "cpu");
    parse_net_dev(bytes);
    parse_diskstats(bytes, {"sda", "nvme0n1"});
    parse_process_stat(bytes);
    finite(parse_link_rate(bytes));
}

}  // namespace sample_line

/// A file of samples, whoever wrote it, and texts of the kernel. Aborts where it is not so that
/// what was read is written to read the same, and what is thinned is as small as it has to be. How
/// many samples there were.
inline std::size_t check_sample_bytes(std::string_view bytes) {
    std::size_t lines = 0;
    for (std::string_view rest = bytes; !rest.empty(); ++lines) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(line.size() == rest.size() ? line.size() : line.size() + 1);
        sample_line::check_line(line);
    }
    const SampleHistory history = parse_samples(bytes);
    fuzz::require(history.samples.size() + history.damaged <= lines);
    for (const std::size_t limit : {bytes.size() / 2, bytes.size() / 16})
        fuzz::require(thin_samples(bytes, limit).size() <= limit);
    sample_line::check_kernel_texts(bytes);
    return history.samples.size();
}

}  // namespace autolaunch::launcher
