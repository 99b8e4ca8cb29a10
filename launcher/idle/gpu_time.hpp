#pragma once
#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What a GPU did with a moment for which the job held it. docs/gpu-time.md has the rules.
enum class GpuUse {
    used,         ///< a kernel ran, in steps that count, at its usual clock
    input,        ///< idle: its rank waited for input
    checkpoint,   ///< training stood still for a checkpoint
    peer,         ///< its rank waited for another one in a collective
    throttled,    ///< busy, and less was done: heat or its power supply held its clock down
    start,        ///< before the first step
    recovery,     ///< from a failure until all ranks ran again
    lost_work,    ///< steps that were done again, or are gone
    ended,        ///< its rank had ended, and others went on; or nothing ran any more
    nobody,       ///< idle, and nobody's process had it
    unexplained,  ///< idle while its rank ran, and nothing says why
    unmeasured,   ///< nobody knows
};
inline constexpr std::size_t kGpuUses = 12;

/// "lost_work": in JSON and in CSS.
const char* gpu_use_key(GpuUse use);
/// "lost work": for people.
const char* gpu_use_words(GpuUse use);

/// Seconds by use.
struct GpuUseSeconds {
    std::array<double, kGpuUses> seconds{};

    double& of(GpuUse use) { return seconds.at(static_cast<std::size_t>(use)); }
    double of(GpuUse use) const { return seconds.at(static_cast<std::size_t>(use)); }
    double held() const;
    /// Of what was measured while ranks took steps; 0 where nothing was.
    double share_of_steps(GpuUse use) const;
    void add(const GpuUseSeconds& other);
};

struct GpuTime {
    std::string node = {}, bdf = {}, model = {};
    std::vector<int> ranks = {};  ///< that have had it
    bool input_told = false;      ///< its rank reports how long it waits for input
    GpuUseSeconds time = {};
    std::map<int, double> waited_for = {};             ///< seconds by rank: of `peer`
    std::map<std::string, double> throttled_by = {};   ///< seconds by reason: of `throttled`
    std::vector<GpuUseSeconds> course = {};            ///< the job's time in equal parts
    std::map<std::string, double> clock_unknown = {};  ///< seconds in which it was slowed, where
                                                       ///< nobody knows by how much: in no sum

    /// Used for a twentieth of the time in steps: nothing where that was not measured.
    bool is_busy() const;
    bool is_measured() const;
};

/// A job's GPUs.
struct JobGpuTime {
    std::vector<GpuTime> gpus = {};      ///< by node and address
    std::vector<std::string> gaps = {};  ///< what is not known, a sentence each

    GpuUseSeconds total() const;
    std::map<int, double> waited_for() const;
    int busy() const;
    int measured() const;
};

/// Into a record of JSON: docs/gpu-time.md has the keys.
std::string gpu_time_json(const JobGpuTime& job);

}  // namespace autolaunch::launcher
