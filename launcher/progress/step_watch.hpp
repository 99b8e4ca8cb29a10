#pragma once
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

namespace autolaunch::launcher {

/// How long the steps of a node's ranks take in this generation, and whose next one is overdue.
/// What is usual is learned, so nothing is overdue before kLeastSteps of them; the first step of
/// each rank (loading, compiling) does not count, nor does one with a phase of its own in it.
/// Pure: moments are given.
class StepWatch {
public:
    using Moment = std::chrono::steady_clock::time_point;
    using Time = std::chrono::milliseconds;

    static constexpr std::size_t kLeastSteps = 5;
    static constexpr std::size_t kRemembered = 256;  ///< of the newest steps, over all ranks
    static constexpr Time kShortestFar{60'000};

    /// What it takes before something is said.
    struct Patience {
        std::size_t least_steps = kLeastSteps;  ///< that must be known
        Time shortest_far = kShortestFar;
        bool only_far = false;  ///< nobody looks before that
    };

    struct Overdue {
        int rank = 0;
        Time silence{0};   ///< since it last got on
        Time usual{0};     ///< the median step
        bool far = false;  ///< so long that it is said also of ranks that are busy
        /// It reports no steps: these are signs of life (output, bytes that were moved).
        bool by_signs = false;
        bool operator==(const Overdue&) const = default;
    };

    StepWatch() = default;
    explicit StepWatch(const Patience& patience) : patience_(patience) {}

    void step(int rank, Moment now);
    /// Something else that shows that it moves: a checkpoint, a message.
    void alive(int rank, Moment now);
    /// While a phase of its own lasts (an evaluation), a rank owes no step.
    void phase(int rank, bool begins, Moment now);
    void ended(int rank) { ranks_.erase(rank); }
    /// Nobody looked for so long: the agent was stopped, and its ranks perhaps with it.
    void forgive(Time time);
    /// A limit by the user's word: no silence may be longer, busy or not, from each rank's first
    /// step on.
    void tell_limit(Time limit) { told_ = limit; }

    /// Of the rank that is silent longest; nothing: all is as usual, or too little is known.
    std::optional<Overdue> look(Moment now) const;
    /// The silence from which on a rank is looked at: 3 medians and half a second, and half as much
    /// again as the slowest hundredth and as any pause that ended by itself.
    Time near_limit() const;
    /// The silence from which on one that is busy is named, too.
    Time far_limit() const;
    Time usual() const { return usual_; }
    std::size_t known() const { return times_.size(); }
    bool knows_enough() const { return known() >= patience_.least_steps; }
    /// Since a rank moved last; nothing: none ever did.
    std::optional<Time> quiet(Moment now) const;

private:
    struct Rank {
        Moment last_step{}, last{};
        bool has_step = false, in_phase = false, had_phase = false;
    };

    Time quantile(int percent) const;

    Patience patience_{};
    std::map<int, Rank> ranks_;
    std::vector<Time> times_;  ///< a ring
    std::size_t oldest_ = 0;
    Time usual_{0}, slowest_{0};  ///< of them: the median, and what 99 of 100 keep
    Time longest_pause_{0};       ///< that was overdue, and ended by itself
    std::optional<Time> told_;
};

}  // namespace autolaunch::launcher
