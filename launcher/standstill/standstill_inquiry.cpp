#include "standstill/standstill_inquiry.hpp"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::chrono::milliseconds kLeastWait{1000};  // shorter calls may be many that pass
constexpr std::size_t kMostStacks = 4;
constexpr auto kStacksTime = std::chrono::seconds(10);
constexpr auto kInquiryTime = std::chrono::seconds(4);  // one of them passes between a node's looks

}  // namespace

StandstillInquiry::StandstillInquiry(asio::io_context& io, Head& head, FlightInquiry& flight,
                                     std::optional<HangLimit> limit, Report report, End end)
    : head_(head),
      flight_(flight),
      limit_(limit),
      report_(std::move(report)),
      end_(std::move(end)),
      timer_(io),
      stacks_timer_(io) {}

void StandstillInquiry::begin_generation(int generation, int node_count) {
    stop();
    generation_ = generation;
    nodes_.clear();
    for (int node = 0; node < node_count; ++node)
        nodes_.insert(node);
}

void StandstillInquiry::stop() {
    timer_.cancel();
    stacks_timer_.cancel();
    overdue_nodes_.clear();
    missing_.clear();
    stacks_missing_.clear();
    ending_.reset();
    is_asking_ = is_named_ = stacks_wanted_ = false;
}

void StandstillInquiry::overdue(int node, const control::StepsOverdue& overdue) {
    if (overdue.generation != generation_)
        return;
    overdue_nodes_.insert(node);
    overdue_ = {overdue.rank, overdue.silence, overdue.usual, overdue.far, overdue.by_signs};
    since_ = Clock::now() - overdue.silence;
    const bool may_end = limit_ && !ending_ && overdue.silence >= limit_->after;
    if (!is_asking_ && (!is_named_ || may_end))
        ask(false);
}

void StandstillInquiry::again(int node, const control::StepsAgain& again) {
    if (again.generation != generation_ || overdue_nodes_.erase(node) == 0)
        return;
    if (!overdue_nodes_.empty())
        return;
    ending_.reset();
    stacks_wanted_ = false;
    if (!std::exchange(is_named_, false))
        return;
    report_(StandstillOver{
        .lasted = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since_)});
}

// A signal to ranks of which some may still go on is only sent where it matters.
void StandstillInquiry::ask(bool with_stacks) {
    is_asking_ = true;
    with_stacks_ = with_stacks;
    missing_ = nodes_;
    activities_.clear();
    quiet_.reset();
    head_.command(control::AskActivity{
        .generation = generation_, .request = ++request_, .with_stacks = with_stacks});
    timer_.expires_after(kInquiryTime);
    timer_.async_wait([this](const std::error_code& error) {
        if (!error)
            all_have_answered();
    });
}

void StandstillInquiry::heard(int node, control::ActivityRead&& read) {
    if (read.generation != generation_ || read.request != request_ || !is_asking_ ||
        missing_.erase(node) == 0)
        return;
    if (read.quiet)
        quiet_ = std::min(*read.quiet, quiet_.value_or(*read.quiet));
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
         .silent_nodes = silent_nodes_,
         .quiet = quiet_});
    if (found.moves_elsewhere)
        return;
    if (!found.sure && !overdue_.far)
        return;
    const bool ends = limit_ && ends_generation(found, overdue_, limit_->after, limit_->told);
    if (is_named_ && !ends)
        return;
    if (!with_stacks_)
        return ask(true);
    StandstillNoticed noticed = describe(found, picture);
    // While a debugger holds a rank, less is seen of it than before.
    if (!stacks_missing_.empty() && noticed.ranks == named_.ranks)
        noticed.lines = named_.lines;
    named_ = noticed;
    if (!std::exchange(is_named_, true))
        report_(noticed);
    if (found.sure || ends)  // a debugger would stop a rank that works
        want_stacks(found.ranks);
    if (ends)
        end_when_written(std::move(noticed));
}

StandstillNoticed StandstillInquiry::describe(const Standstill& found,
                                              const FlightPicture& picture) {
    FlightFindings flight;
    if (!picture.groups.empty())
        flight = flight_.write_picture(picture, found.headline);
    return {.headline = found.headline,
            .silence = overdue_.silence,
            .usual = overdue_.usual,
            .sure = found.sure,
            .ranks = found.ranks,
            .lines = found.lines,
            .flight = std::move(flight.lines),
            .path = std::move(flight.path)};
}

void StandstillInquiry::want_stacks(const std::vector<int>& ranks) {
    if (std::exchange(stacks_wanted_, true) || ranks.empty())
        return;
    const auto end =
        ranks.begin() + static_cast<std::ptrdiff_t>(std::min(ranks.size(), kMostStacks));
    stacks_missing_ = {ranks.begin(), end};
    head_.command(control::WriteStacks{generation_, std::vector<int>(ranks.begin(), end)});
}

void StandstillInquiry::heard(const control::StacksWritten& written) {
    if (written.generation == generation_ && stacks_missing_.erase(written.rank) > 0 &&
        stacks_missing_.empty())
        end();
}

void StandstillInquiry::end_when_written(StandstillNoticed&& found) {
    ending_ = std::move(found);
    if (stacks_missing_.empty())
        return end();
    stacks_timer_.expires_after(kStacksTime);
    stacks_timer_.async_wait([this](const std::error_code& error) {
        if (!error)
            end();
    });
}

void StandstillInquiry::end() {
    stacks_timer_.cancel();
    if (const auto found = std::exchange(ending_, std::nullopt))
        end_(*found);
}

}  // namespace autolaunch::launcher
