#include "progress/step_watch.hpp"

#include <algorithm>

namespace autolaunch::launcher {

using Time = StepWatch::Time;

void StepWatch::step(int rank, Moment now) {
    Rank& it = ranks_[rank];
    if (it.has_step && !it.had_phase) {
        const auto time = std::chrono::duration_cast<Time>(now - it.last_step);
        if (knows_enough() && time > near_limit())
            longest_pause_ = std::max(longest_pause_, time);
        if (times_.size() < kRemembered)
            times_.push_back(time);
        else
            times_[oldest_] = time, oldest_ = (oldest_ + 1) % kRemembered;
        usual_ = quantile(50);
        slowest_ = quantile(99);
    }
    it.last_step = it.last = now;
    it.has_step = true;
    it.had_phase = it.in_phase;
}

void StepWatch::alive(int rank, Moment now) {
    if (const auto it = ranks_.find(rank); it != ranks_.end())
        it->second.last = now;
}

void StepWatch::phase(int rank, bool begins, Moment now) {
    Rank& it = ranks_[rank];
    it.last = now;
    it.in_phase = begins;
    it.had_phase = true;
}

void StepWatch::forgive(Time time) {
    for (auto& [rank, it] : ranks_)
        it.last += time, it.last_step += time;
}

std::optional<StepWatch::Overdue> StepWatch::look(Moment now) const {
    if (!knows_enough() && !told_)
        return std::nullopt;
    std::optional<Overdue> longest;
    for (const auto& [rank, it] : ranks_) {
        if (!it.has_step || it.in_phase)
            continue;
        const auto silence = std::chrono::duration_cast<Time>(now - it.last);
        if (!longest || silence > longest->silence)
            longest = Overdue{.rank = rank, .silence = silence};
    }
    if (!longest || longest->silence <= near_limit())
        return std::nullopt;
    longest->usual = usual();
    longest->far = longest->silence > far_limit();
    return longest;
}

std::optional<Time> StepWatch::quiet(Moment now) const {
    std::optional<Time> least;
    for (const auto& [rank, it] : ranks_) {
        const auto time = std::chrono::duration_cast<Time>(now - it.last);
        least = std::min(time, least.value_or(time));
    }
    return least;
}

Time StepWatch::near_limit() const {
    if (!knows_enough())
        return told_.value_or(Time::max());
    if (patience_.only_far)
        return far_limit();
    const Time learned =
        std::max({3 * usual_ + Time(500), slowest_ * 3 / 2, longest_pause_ * 3 / 2});
    return std::min(learned, told_.value_or(learned));
}

Time StepWatch::far_limit() const {
    const Time learned =
        std::max({patience_.shortest_far, 20 * usual_, 10 * slowest_, 3 * longest_pause_});
    return std::min(learned, told_.value_or(learned));
}

Time StepWatch::quantile(int percent) const {
    std::vector<Time> sorted = times_;
    const std::size_t at = (sorted.size() - 1) * static_cast<std::size_t>(percent) / 100;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(at),
                     sorted.end());
    return sorted[at];
}

}  // namespace autolaunch::launcher
