#pragma once
#include "report/event.hpp"
#include "report/text_style.hpp"

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What a rank said before it failed, read from its files.
struct FailureEvidence {
    std::vector<std::string> last_lines;  ///< raw, oldest first
    bool from_stdout = false;             ///< its stderr was empty, these are of its stdout
    std::string log_path;                 ///< the file that has more
    std::string error_message;            ///< of its error file; empty: none
    std::vector<std::string> callstack;   ///< of its error file
};

/// "was killed by SIGSEGV (core dumped)", "exited with code 3". Pure.
std::string describe_exit(const RankExited& exit);
/// What the exit most likely means, where that is known; else empty. Pure.
std::string exit_hint(const RankExited& exit, std::optional<std::int64_t> oom_kills);
/// "7 other ranks were stopped in 8 ms · rank 21 exited with code 1 0.4 s later · ranks 2-3 had finished"; empty when
/// there were no others. Pure.
std::string describe_others(const GenerationFailed& failure);
/// The first-failure screen: whole lines, safe for a terminal whatever the rank wrote. Pure.
std::string failure_screen(const GenerationFailed& failure, const FailureEvidence& evidence, const TextStyle& style);

/// Reads the evidence from the files that the event names; what cannot be read is left out. Reads at most a bounded
/// part from the end of each.
FailureEvidence collect_evidence(const GenerationFailed& failure);

}  // namespace autolaunch::launcher
