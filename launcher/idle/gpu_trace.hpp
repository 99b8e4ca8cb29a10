#pragma once
#include "idle/job_course.hpp"
#include "readings/sample_file.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What a sample says of one GPU, and of the rank that has it.
struct GpuMoment {
    JobTime at;
    std::optional<float> busy = {};      ///< share of the driver's last second or so
    std::optional<float> sm_hertz = {};  ///< its clock
    std::optional<float> input = {};  ///< share of its rank's steps in which that waited for input
    std::optional<int> processes = {};  ///< anybody's, that have a context on it
    std::optional<int> rank = {};       ///< whose GPU it is: the first one, where several share it
    std::string slowed_by = {};  ///< "thermal", "power", "hardware"; empty: nothing that counts
};

struct GpuTrace {
    std::string bdf = {}, model = {};
    std::vector<int> ranks = {};          ///< that have had it, ascending
    std::vector<GpuMoment> moments = {};  ///< in the order of time
};

/// The GPUs of a node that the job held, as its samples and its plan tell them.
struct NodeTrace {
    std::string node = {};
    std::chrono::milliseconds interval{10'000};  ///< between two samples, as it was meant
    std::vector<GpuTrace> gpus = {};             ///< by address

    /// One that the plan gives to that rank, or to nobody. No samples tell of some.
    void add_gpu(const std::string& bdf, std::optional<int> rank, const std::string& model);
};

/// Pure.
NodeTrace trace_of(const SampleHistory& history);

/// Of what holds a clock down, what counts as a loss: "thermal", "power", "hardware", the first
/// that is there. A limit of power that software has set is how GPUs work under load.
std::string loss_of_clock(const std::vector<std::string>& slowed_by);

}  // namespace autolaunch::launcher
