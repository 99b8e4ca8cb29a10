#pragma once
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <vector>

namespace autolaunch::launcher {

/// How often ranks called write(2) since their logs take nothing any more: a bound on what they
/// printed in vain, which the kernel counts nowhere. Calls for other files are among them.
///
/// From /proc/PID/io (proc(5), syscw), which counts a call also where it fails. Threads: one.
class MissedWrites {
public:
    /// Of these from the first look at each on. Who has ended keeps the number of his last look.
    void look(const std::vector<pid_t>& ranks);
    std::uint64_t calls() const;

private:
    struct Calls {
        std::uint64_t first = 0, last = 0;
    };
    std::map<pid_t, Calls> calls_;
};

}  // namespace autolaunch::launcher
