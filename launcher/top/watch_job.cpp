#include "top/watch_job.hpp"

#include "top/run_follower.hpp"
#include "top/run_replay.hpp"
#include "top/terminal.hpp"
#include "top/top_screen.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kRefresh = 1000ms;
constexpr auto kReplayFrame = 200ms;  // while it plays
constexpr auto kDoubtInterval = 5s;
constexpr std::size_t kLogLines = 16;

ViewTime now() {
    return std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
}

/// Of a job that is over its end; of another one now, but not before what was heard of it: the
/// other machine's clock may be ahead.
ViewTime moment_of(const JobModel& model) {
    const ViewTime heard = model.last_heard().value_or(ViewTime::min());
    return model.has_ended() ? heard : std::max(now(), heard);
}

/// Where the views come from: the files as they grow, or a moment of them.
class Moments {
public:
    Moments(RunSource& source, JobModel model, const WatchOptions& options)
        : source_(source), options_(options) {
        if (options.replay)
            replay_.emplace(source, std::move(model));
        else
            follower_.emplace(source, std::move(model));
    }

    std::optional<ReplayState> replay() const {
        if (!replay_)
            return std::nullopt;
        return ReplayState{
            .first = replay_->first(), .last = replay_->last(), .at = replay_->first()};
    }

    /// What cannot be read any more is said, and what was read before is shown on.
    JobView at(const TopState& state) {
        if (replay_)
            return replay_->at(state.replay->at);
        if (broken_.empty())
            try {
                follower_->look();
                has_more_ = !follower_->advance();
                follower_->take_newest_samples();
            } catch (const Error& error) {
                broken_ = error.what();
                has_more_ = false;
            }
        JobView view = follower_->model().view(moment_of(follower_->model()));
        view.doubt = doubt(view);
        return view;
    }
    std::vector<std::string> log(const JobView& view, const TopState& state, std::size_t lines) {
        const auto found =
            std::find_if(view.ranks.begin(), view.ranks.end(),
                         [&](const RankView& rank) { return rank.rank == state.rank; });
        if (found == view.ranks.end() || !broken_.empty())
            return {};
        try {
            return log_tail(source_, found->generation, found->rank, state.stream, lines);
        } catch (const Error& error) {
            return {error.what()};
        }
    }
    bool has_more() const { return has_more_; }
    std::string message() const {
        return has_more_ ? fmt::format("reading {:.0f} %", follower_->share_read() * 100) : "";
    }

private:
    std::string doubt(const JobView& view) {
        if (!broken_.empty())
            return broken_;
        if (view.ended)
            return {};
        if (Clock::now() >= ask_at_) {
            doubt_ = options_.doubt();
            ask_at_ = Clock::now() + kDoubtInterval;
        }
        return doubt_;
    }

    RunSource& source_;
    const WatchOptions& options_;
    std::optional<RunFollower> follower_;
    std::optional<RunReplay> replay_;
    bool has_more_ = false;
    std::string broken_, doubt_;
    Clock::time_point ask_at_{};
};

/// The screen, and what was chosen on it.
class Watch {
public:
    Watch(RunSource& source, JobModel model, const WatchOptions& options)
        : options_(options),
          moments_(source, std::move(model), options),
          terminal_(options.colours, options.charset) {
        state_.replay = moments_.replay();
    }

    void run() {
        auto refreshed = Clock::now();
        take_view();
        while (!state_.quits) {
            draw();
            const auto every = state_.replay && state_.replay->plays ? kReplayFrame : kRefresh;
            const bool hurries = moments_.has_more() && !state_.paused;
            const auto due = hurries ? refreshed : refreshed + every;
            const auto input = terminal_.wait(std::chrono::ceil<std::chrono::milliseconds>(
                std::max<Clock::duration>(due - Clock::now(), 0ms)));
            if (input.key != TopKey::none)
                take_key(input.key);
            if (Clock::now() < due)
                continue;
            const auto passed =
                std::chrono::floor<std::chrono::milliseconds>(Clock::now() - refreshed);
            refreshed = Clock::now();
            if (state_.replay)
                state_.replay = played(*state_.replay, passed);
            if (!state_.paused)
                take_view();
        }
    }

private:
    int seen_rows() const { return layout_of(terminal_.rows(), state_).table; }

    void take_view() {
        view_ = moments_.at(state_);
        sort();
        read_log();
    }
    void sort() { rows_ = rows_of(view_, state_.order, state_.by_node); }
    void read_log() {
        state_ = settled(std::move(state_), rows_, seen_rows());
        log_ = state_.log ? moments_.log(view_, state_, kLogLines) : std::vector<std::string>();
    }
    void take_key(TopKey key) {
        const TopState before = state_;
        state_ = on_key(std::move(state_), key, rows_, seen_rows());
        if (state_.replay && state_.replay->at != before.replay->at)
            return take_view();
        sort();
        read_log();
    }
    void draw() {
        state_ = settled(std::move(state_), rows_, seen_rows());
        terminal_.show(draw_top({view_, state_, rows_, log_, moments_.message()}, terminal_.rows(),
                                terminal_.columns(), options_.charset));
    }

    const WatchOptions& options_;
    Moments moments_;
    Terminal terminal_;
    TopState state_;
    JobView view_;
    std::vector<TopRow> rows_;
    std::vector<std::string> log_;
};

}  // namespace

JobView look_at_job(RunSource& source, JobModel model, const WatchOptions& options) {
    RunFollower follower(source, std::move(model));
    follower.look();
    while (!follower.advance())
        ;
    follower.take_newest_samples();
    JobView view = follower.model().view(moment_of(follower.model()));
    if (!view.ended)
        view.doubt = options.doubt();
    return view;
}

void watch_job(RunSource& source, JobModel model, const WatchOptions& options) {
    Watch(source, std::move(model), options).run();
}

}  // namespace autolaunch::launcher
