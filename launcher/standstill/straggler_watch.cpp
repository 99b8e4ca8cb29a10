#include "standstill/straggler_watch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr double kWindowSeconds = 60;   // where monitoring.interval_seconds has none
constexpr double kSecondsARank = 0.25;  // what the head hears in a window is bounded by it
constexpr std::size_t kMostNamed = 4;
constexpr auto kAnswersIn = std::chrono::seconds(3);

std::chrono::milliseconds window_of(const LaunchPlan& plan) {
    const double seconds = std::max(plan.spec.monitoring.interval_seconds.value_or(kWindowSeconds),
                                    kSecondsARank * plan.world_size);
    return std::chrono::milliseconds(std::llround(std::min(seconds, 1e6) * 1000));
}

std::string percent(double share) { return std::to_string(std::lround(share * 100)) + " %"; }

}  // namespace

StragglerWatch::StragglerWatch(asio::io_context& io, const LaunchPlan& plan, Head& head,
                               FlightInquiry& flight, Report report, Lasts lasts)
    : plan_(plan),
      head_(head),
      flight_(flight),
      report_(std::move(report)),
      lasts_(std::move(lasts)),
      timer_(io),
      answer_timer_(io),
      window_(window_of(plan)) {}

void StragglerWatch::begin_generation(int generation) {
    stop();
    generation_ = generation;
    book_ = {};
    is_on_ = plan_.spec.restart.straggler != "off" && plan_.world_size > 1;
    if (is_on_)
        wait();
}

void StragglerWatch::stop() {
    is_on_ = false;
    timer_.cancel();
    answer_timer_.cancel();
    found_.clear();
    lasting_.reset();
}

void StragglerWatch::wait() {
    timer_.expires_after(window_);
    timer_.async_wait([this](const std::error_code& error) {
        if (error || !is_on_)
            return;
        const int generation = generation_;
        flight_.ask([this, generation](std::vector<flight::RecordedRank>&& ranks, std::size_t) {
            if (is_on_ && generation == generation_)
                look(ranks);
        });
        wait();
    });
}

// What share of the time each rank has waited, for whoever watches the job.
void StragglerWatch::tell_waits(const std::vector<flight::RecordedRank>& ranks) const {
    WaitsMeasured waits;
    std::map<int, double> shares;
    for (const flight::RecordedRank& rank : ranks)
        if (const auto share = share_in_calls(rank))
            shares[rank.rank] = *share;
    for (const auto& [rank, share] : shares) {
        waits.ranks.push_back(rank);
        waits.shares.push_back(share);
    }
    if (!waits.ranks.empty())
        report_(std::move(waits));
}

void StragglerWatch::look(const std::vector<flight::RecordedRank>& ranks) {
    tell_waits(ranks);
    if (!found_.empty() || lasting_)
        return;  // the nodes are still asked of the window before
    found_ = book_.see(ranks);
    lasting_.reset();
    if (plan_.spec.restart.straggler == kReplaceStragglers)
        lasting_ = book_.lasting();
    if (found_.empty() && !lasting_)
        return;
    activities_.clear();
    head_.command(control::AskActivity{.generation = generation_, .request = --request_});
    answer_timer_.expires_after(kAnswersIn);
    answer_timer_.async_wait([this](const std::error_code& error) {
        if (!error && is_on_)
            say();
    });
}

void StragglerWatch::heard(const control::ActivityRead& read) {
    if (read.generation != generation_ || read.request != request_ || !is_on_)
        return;
    activities_.insert(activities_.end(), read.ranks.begin(), read.ranks.end());
    const auto is_told = [this](const Straggler& straggler) {
        return std::any_of(
            activities_.begin(), activities_.end(),
            [&](const RankActivity& activity) { return activity.rank == straggler.rank; });
    };
    const bool is_open = !found_.empty() || lasting_;
    if (is_open && std::all_of(found_.begin(), found_.end(), is_told) &&
        (!lasting_ || is_told(*lasting_))) {
        answer_timer_.cancel();
        say();
    }
}

void StragglerWatch::say() {
    StragglersSeen seen;
    for (const Straggler& straggler : std::exchange(found_, {})) {
        seen.ranks.push_back(straggler.rank);
        if (seen.lines.size() < kMostNamed)
            seen.lines.push_back(describe(straggler));
    }
    if (seen.ranks.size() > kMostNamed)
        seen.lines.back() =
            "and " + std::to_string(seen.ranks.size() - kMostNamed + 1) + " other ranks";
    if (!seen.ranks.empty())
        report_(std::move(seen));
    if (const auto lasting = std::exchange(lasting_, std::nullopt))
        lasts_(lasting->rank, describe(*lasting));
}

std::string StragglerWatch::describe(const Straggler& straggler) const {
    std::string line = "rank " + std::to_string(straggler.rank) + " is busy for " +
                       percent(straggler.busy) + " of the time, the others for " +
                       percent(straggler.others) + ", and then they wait for it";
    for (const RankActivity& activity : activities_)
        if (activity.rank == straggler.rank && !activity.what.empty())
            line += "; it " + activity.what;
    return line;
}

}  // namespace autolaunch::launcher
