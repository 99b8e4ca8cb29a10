#pragma once
#include "spec/job_spec.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// When a job that stands still is ended.
struct HangLimit {
    std::chrono::milliseconds after{0};
    /// By the spec: also where ranks work and come to no step. Else by us, and only where it is
    /// sure that nobody will go on.
    bool told = false;
    bool operator==(const HangLimit&) const = default;
};

/// restart.hang_after as it applies to this job; nothing: it is never ended. A rank that is
/// debugged may take its time. Pure.
std::optional<HangLimit> hang_limit(const JobSpec& spec);
/// For `autolaunch plan`, one line: "a job that stands still: …". Pure.
std::string describe_hang_limit(const JobSpec& spec);

}  // namespace autolaunch::launcher
