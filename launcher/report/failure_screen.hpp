#pragma once
#include "report/event.hpp"
#include "report/text_style.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// "was killed by SIGSEGV (core dumped)", "exited with code 3". Pure.
std::string describe_exit(const RankExited& exit);
/// "7 other ranks were stopped in 8 ms · rank 21 exited with code 1 0.4 s later · ranks 2-3 had
/// finished"; empty when there were no others. Pure.
std::string describe_others(const GenerationFailed& failure);
/// The first-failure screen: whole lines, safe for a terminal whatever the rank wrote. Pure.
std::string failure_screen(const GenerationFailed& failure, const TextStyle& style);
/// The same for a node that was lost. Pure.
std::string failure_screen(const NodeLost& lost, const TextStyle& style);

/// The same for a job that stood still, and was ended. Pure.
std::string failure_screen(const JobHung& hung, const TextStyle& style);

/// Where the ranks were, indented, and the file that says more. Pure.
std::string flight_screen(const std::vector<std::string>& lines, const std::string& path);

}  // namespace autolaunch::launcher
