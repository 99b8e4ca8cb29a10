#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace autolaunch::launcher {

/// What a process has used until now, of CPU, page faults and files together, and how it is.
struct ImportSample {
    char state = '?';  ///< as in /proc/PID/stat; '?': it could not be read
    std::uint64_t work = 0;
};
ImportSample sample_import(pid_t pid);

/// Whether an interpreter that imports gets on. Pure, but for the sample.
class ImportWatch {
public:
    struct Limits {
        std::chrono::milliseconds all{300'000};
        std::chrono::milliseconds idle{60'000};  ///< without any work, as a lock keeps it
    };
    using Clock = std::chrono::steady_clock;

    ImportWatch(Limits limits, Clock::time_point now)
        : limits_(limits), begun_at_(now), moved_at_(now) {}
    /// Why nobody waits for it any longer; empty: wait. Asked about once a second.
    std::string why_given_up(const ImportSample& sample, Clock::time_point now);

private:
    Limits limits_;
    Clock::time_point begun_at_, moved_at_;
    std::uint64_t work_ = 0;
    int stopped_ = 0;  ///< looks in a row
};

}  // namespace autolaunch::launcher
