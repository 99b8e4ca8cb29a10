#pragma once
#include "run_report/run_record.hpp"

#include <string>

namespace autolaunch::launcher {

/// The part of a page that tells where the time of GPUs went: the receipt, of each GPU a bar of its
/// causes and a row of how busy it was over time, and the same as a table. HTML; empty where the
/// job held no GPU. From kMostGpuRows GPUs on a row is a node, or several. Pure.
std::string gpu_time_part(const RunRecord& record);
inline constexpr std::size_t kMostGpuRows = 64;

/// Colours of the uses, for the page's style.
std::string gpu_use_styles();

}  // namespace autolaunch::launcher
