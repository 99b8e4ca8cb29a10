#pragma once
#include "report/event.hpp"
#include "report/text_style.hpp"

#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// The lines at the start of a job. Pure.
std::string banner(const JobStarted& job, std::string_view version, const TextStyle& style);
/// The line at its end: "done in 63 s · 1 restart · runs/4711". Pure.
std::string closing_line(const JobEnded& job, std::string_view run_dir, const TextStyle& style);

}  // namespace autolaunch::launcher
