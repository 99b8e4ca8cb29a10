#pragma once
#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace autolaunch::launcher {

struct LiveRank {
    int rank = 0;
    pid_t pid = 0;
};

/// "still waiting for rank 3 (pid 812), asked to stop 2 s ago; SIGKILL at 12:00:15, in 13 s". Many
/// are counted, so that the texts of alike nodes are equal. Pure, but for the time zone.
std::string waiting_notice(const std::vector<LiveRank>& alive, std::size_t of,
                           std::chrono::milliseconds asked_ago, std::chrono::milliseconds left,
                           std::chrono::system_clock::time_point now);
/// "rank 3 (pid 812) did not end within 15 s after it was asked to stop, and was killed by
/// SIGKILL". Pure.
std::string killed_notice(const std::vector<LiveRank>& alive, std::size_t of,
                          std::chrono::milliseconds asked_ago);

}  // namespace autolaunch::launcher
