#include "top/run_replay.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <iterator>
#include <optional>

namespace autolaunch::launcher {

RunReplay::RunReplay(RunSource& source, JobModel model) : follower_(source, std::move(model)) {
    const auto span = span_of_run(source);
    if (!span)
        throw Error(ErrorCode::corrupt, "the run has no events that can be understood",
                    "name a run directory, such as runs/latest: it has an events.jsonl");
    first_ = span->first;
    last_ = span->second;
    follower_.look();
    now_ = first_ - std::chrono::milliseconds(1);
    places_.emplace(now_, follower_.place());
}

JobView RunReplay::at(ViewTime moment) {
    moment = std::clamp(moment, first_, last_);
    const auto kept = std::prev(places_.upper_bound(moment));
    if (moment < now_ || kept->first > now_) {
        follower_.go_to(kept->second);
        now_ = kept->first;
    }
    const auto every = std::max((last_ - first_) / kPlaces, std::chrono::milliseconds(1));
    while (now_ < moment) {
        const auto boundary = std::max(first_, first_ + (now_ - first_) / every * every + every);
        now_ = std::min(boundary, moment);
        // What a clock that was set back has written later counts when the end is reached.
        const auto until = now_ >= last_ ? std::nullopt : std::optional(now_);
        while (!follower_.advance(until))
            ;
        if (now_ == boundary)
            places_.try_emplace(now_, follower_.place());
    }
    return follower_.model().view(moment);
}

}  // namespace autolaunch::launcher
