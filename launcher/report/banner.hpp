#pragma once
#include "report/event.hpp"
#include "report/text_style.hpp"

#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// The lines at the start of a job. Pure.
std::string banner(const JobStarted& job, std::string_view version, const TextStyle& style);
/// The line that all ranks of all nodes run: "placed    32/32 ranks as planned in 0.2 s · binding
/// exclusive on 8 NUMA nodes · 32 GPUs". A restart's is short. Pure.
std::string preload_line(const PythonPreloaded& imports);
std::string staging_line(const DataStaging& staging);
std::string coming_line(const DataComes& data);
std::string staged_line(const DataStaged& staged);
std::string staging_out_line(const DataStagingOut& staging);
std::string staged_out_line(const DataStagedOut& staged);
/// Two lines: what stays where and why, and what finishes it.
std::string left_line(const DataLeft& left);
std::string placement_line(const JobStarted& job, const GenerationStarted& started,
                           bool is_restart);
/// The line at its end: "done in 63 s · 1 restart · runs/4711". Pure.
std::string closing_line(const JobEnded& job, std::string_view run_dir, const TextStyle& style);

}  // namespace autolaunch::launcher
