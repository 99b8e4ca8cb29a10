#pragma once
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// What is known of the time that a stop has. All pure below.
struct StopTimes {
    /// SaveTimes::p99(); nothing: no save was measured.
    std::optional<std::chrono::milliseconds> save = {};
    std::size_t saves = 0;
    std::chrono::milliseconds grace_period{15'000};  ///< restart.grace_period
    /// Between SIGTERM and SIGKILL of whoever runs the job; nothing: not known, or nobody.
    std::optional<std::chrono::milliseconds> kill_wait = {};
    /// storage.stage_out_time: for copies of what ranks have written, once these have ended.
    std::chrono::milliseconds copies{0};
    enum class Killer { nobody, slurm, kubernetes, other } killer = Killer::nobody;
};

/// What a stop needs for a save: its time and a fifth of it, 2 s at least.
std::chrono::milliseconds needed_for(std::chrono::milliseconds save);

/// How long ranks may take where nothing limits them: restart.grace_period, and where that was left
/// at its 15 s, as long as their own saves need.
std::chrono::milliseconds grace_wanted(const StopTimes& times);

/// Of the time until somebody sends SIGKILL, what the ranks may have: the rest is for the end after
/// SIGKILL, the last lines of output, the screen and the other nodes.
std::chrono::milliseconds grace_within(std::chrono::milliseconds left);

/// What ranks may have of the time until somebody sends SIGKILL. Copies have theirs of it, but of
/// what a measured save needs, or half of the whole where none was measured, they take nothing: a
/// file that is not copied stays on its node, and a state that is not saved is lost.
std::chrono::milliseconds ranks_within(const StopTimes& times, std::chrono::milliseconds left);

/// "a save takes 41 s, KillWait is 30 s: use --signal=TERM@120"; empty: it fits with the copies
/// behind it, or nothing was measured and nothing is to be copied.
std::string budget_warning(const StopTimes& times);
/// "a save takes 4.1 s (12 measured) and fits into the 27 s after SIGTERM"; empty: it does not, or
/// nothing was measured.
std::string budget_note(const StopTimes& times);

/// N of --signal=TERM@N for a save and the copies behind it: Slurm's polling may make it up to a
/// minute late.
std::chrono::seconds signal_lead(std::chrono::milliseconds save, std::chrono::milliseconds copies);

/// How long before the end the ranks must be asked at the latest. `step`: until they hear of it.
/// Ranks of which no save was measured may take what they have at any stop.
std::chrono::milliseconds last_moment_before_end(const StopTimes& times,
                                                 std::chrono::milliseconds step);

}  // namespace autolaunch::launcher
