#pragma once
#include <chrono>
#include <string>

namespace autolaunch::launcher {

/// What becomes of something that a job has left, and why, in words.
struct RetentionVerdict {
    bool goes = false;
    std::string why;
};

/// "used last 12 d ago, kept for 7 d", and whether that is over. Pure.
RetentionVerdict judge_age(const char* what_happened_last, std::chrono::seconds age,
                           std::chrono::seconds keep);

}  // namespace autolaunch::launcher
