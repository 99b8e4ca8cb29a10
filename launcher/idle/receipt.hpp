#pragma once
#include "idle/gpu_time.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What is said of a job's GPUs at its end.
struct Receipt {
    std::string asked;   ///< "asked 8 GPUs for 2 h 10 min, 5 busy · used 61% of 17.3 GPU hours"
    std::string idle;    ///< "31% input · 4% checkpoint"
    std::string change;  ///< "input held 31% of the steps: more loader workers, …"
    /// One after the other, each with what it is, for a terminal; empty: the job held no GPU.
    std::vector<std::string> lines() const;
    /// In one line of at most so many bytes, for a scheduler's field of it.
    std::string comment(std::size_t most) const;
};

/// Parts below this share are not worth a change.
inline constexpr double kWorthAChange = 0.05;

/// Pure.
Receipt receipt_of(const JobGpuTime& job);

}  // namespace autolaunch::launcher
