#include "supervise/standstill_inquiry.hpp"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::chrono::milliseconds kLeastWait{1000};  // shorter calls may be many that pass
constexpr std::size_t kMostStacks = 4;
constexpr auto kAnswerTime = std::chrono::seconds(4);  // one of them passes between a node's looks

}  // namespace

StandstillInquiry::StandstillInquiry(asio::io_context& io, Head& head, FlightInquiry& flight,
                                     Report report)
    : head_(head), flight_(flight), report_(std::move(report)), timer_(io) {}

void StandstillInquiry::begin_generation(int generation, int node_count) {
    stop();
    generation_ = generation;
    nodes_.clear();
    for (int node = 0; node < node_count; ++node)
        nodes_.insert(node);
}

void StandstillInquiry::stop() {
    timer_.cancel();
    overdue_nodes_.clear();
    missing_.clear();
    is_asking_ = is_named_ = false;
}

void StandstillInquiry::overdue(int node, const control::StepsOverdue& overdue) {
    if (overdue.generation != generation_)
        return;
    overdue_nodes_.insert(node);
    overdue_ = {overdue.rank, overdue.silence, overdue.usual, overdue.far};
    since_ = Clock::now() - overdue.silence;
    if (!is_named_ && !is_asking_)
        ask();
}

void StandstillInquiry::again(int node, const control::StepsAgain& again) {
    if (again.generation != generation_ || overdue_nodes_.erase(node) == 0)
        return;
    if (!overdue_nodes_.empty() || !std::exchange(is_named_, false))
        return;
    report_(StandstillOver{
        .lasted = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since_)});
}

void StandstillInquiry::ask() {
    is_asking_ = true;
    missing_ = nodes_;
    activities_.clear();
    head_.command(control::AskActivity{.generation = generation_, .request = ++request_});
    timer_.expires_after(kAnswerTime);
    timer_.async_wait([this](const std::error_code& error) {
        if (!error)
            all_have_answered();
    });
}

void StandstillInquiry::heard(int node, control::ActivityRead&& read) {
    if (read.generation != generation_ || read.request != request_ || !is_asking_ ||
        missing_.erase(node) == 0)
        return;
    activities_.insert(activities_.end(), std::make_move_iterator(read.ranks.begin()),
                       std::make_move_iterator(read.ranks.end()));
    if (missing_.empty())
        all_have_answered();
}

void StandstillInquiry::node_lost(int node) {
    nodes_.erase(node);
    overdue_nodes_.erase(node);
    if (missing_.erase(node) > 0 && missing_.empty() && is_asking_)
        all_have_answered();
}

void StandstillInquiry::all_have_answered() {
    timer_.cancel();
    silent_nodes_ = static_cast<int>(missing_.size());
    missing_.clear();
    const int generation = generation_;
    flight_.ask([this, generation](std::vector<flight::RecordedRank>&& ranks, std::size_t) {
        if (generation == generation_ && is_asking_)
            judge(std::move(ranks));
    });
}

void StandstillInquiry::judge(std::vector<flight::RecordedRank>&& ranks) {
    is_asking_ = false;
    if (overdue_nodes_.empty())
        return;  // it goes on
    overdue_.silence = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since_);
    drop_impossible_calls(ranks);
    const FlightPicture picture = draw_flight_picture(ranks);
    const Standstill found = judge_standstill(
        {.overdue = overdue_,
         .activities = activities_,
         .in_collective = ranks_in_calls(picture, std::max(kLeastWait, overdue_.silence / 2)),
         .silent_nodes = silent_nodes_});
    if (!found.sure && !overdue_.far)
        return;
    is_named_ = true;
    FlightFindings flight;
    if (!picture.groups.empty())
        flight = flight_.write_picture(picture, found.headline);
    report_(StandstillNoticed{.headline = found.headline,
                              .silence = overdue_.silence,
                              .usual = overdue_.usual,
                              .sure = found.sure,
                              .ranks = found.ranks,
                              .lines = found.lines,
                              .flight = std::move(flight.lines),
                              .path = std::move(flight.path)});
    if (!found.sure)
        return;  // a debugger would stop a rank that works
    std::vector<int> ranks_shown(
        found.ranks.begin(), found.ranks.begin() + static_cast<std::ptrdiff_t>(
                                                       std::min(found.ranks.size(), kMostStacks)));
    head_.command(control::WriteStacks{generation_, std::move(ranks_shown)});
}

}  // namespace autolaunch::launcher
