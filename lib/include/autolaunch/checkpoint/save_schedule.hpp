#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/export.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace autolaunch {

/// When Checkpointer::should_save() says yes. Whatever of it is set counts; nothing set: only on
/// demand and before the end. Seconds are counted from the last save, or from the start.
struct SaveSchedule {
    std::optional<std::int64_t> every_steps = {};  ///< at multiples of it
    std::optional<double> every_seconds = {};
    /// At the interval that loses the least time by saving and by repeating what a failure undid:
    /// optimal_save_interval() of what saves cost here.
    bool optimal = false;
    /// Of the whole job, for `optimal`. Nothing: 6300 hours by the number of nodes, from 419
    /// unexpected interruptions in 54 days on 2048 nodes ("The Llama 3 Herd of Models", 2024).
    std::optional<double> seconds_between_failures = {};
    /// When the job ends whatever it does. Nothing: Slurm's SLURM_JOB_END_TIME, where it is set.
    std::optional<std::chrono::system_clock::time_point> deadline = {};
};

/// Seconds from the end of a save to the start of the next one, by J. T. Daly, "A higher order
/// estimate of the optimum checkpoint interval for restart dumps", 2006, (37): sqrt(2dM) (1 +
/// sqrt(d/2M)/3 + (d/2M)/9) - d, and M when a save costs d >= 2M. `cost_seconds` is d, how long
/// training stands still; `seconds_between_failures` is M > 0.
AUTOLAUNCH_API double optimal_save_interval(double cost_seconds, double seconds_between_failures);

enum class SaveReason : std::uint8_t {
    none,
    steps,      ///< SaveSchedule::every_steps
    seconds,    ///< SaveSchedule::every_seconds, or optimal
    requested,  ///< Session::checkpoint_requested()
    deadline,   ///< the job ends before another step and a save would fit; asked to stop, it ends
                ///< with the grace period
    stop,       ///< Session::stop_requested()
};
AUTOLAUNCH_API std::string_view name_of(SaveReason reason) noexcept;

/// What should_save() says, the same on every rank.
struct SaveDecision {
    SaveReason reason = SaveReason::none;

    explicit operator bool() const noexcept { return reason != SaveReason::none; }
    /// Save, finish, and leave the training loop.
    bool stop() const noexcept {
        return reason == SaveReason::deadline || reason == SaveReason::stop;
    }
};

}  // namespace autolaunch
