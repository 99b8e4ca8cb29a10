#include "generation/stop_notice.hpp"

#include "report/units.hpp"

#include <ctime>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kNamedRanks = 3;

std::string name_ranks(const std::vector<LiveRank>& ranks, std::size_t of) {
    if (ranks.size() > kNamedRanks)
        return std::to_string(ranks.size()) + " of " + std::to_string(of) + " ranks";
    std::string text;
    for (const LiveRank& one : ranks)
        text += (text.empty() ? "rank " : ", rank ") + std::to_string(one.rank) + " (pid " +
                std::to_string(one.pid) + ")";
    return text;
}

std::string clock_time(std::chrono::system_clock::time_point at) {
    const std::time_t seconds = std::chrono::system_clock::to_time_t(at);
    std::tm local{};
    ::localtime_r(&seconds, &local);
    char text[16];
    std::strftime(text, sizeof text, "%H:%M:%S", &local);
    return text;
}

// Those that cannot act, whatever they are told.
std::string name_held_up(const std::vector<LiveRank>& ranks) {
    std::string text;
    std::size_t named = 0;
    for (const LiveRank& one : ranks)
        if (!one.condition.empty() && named++ < kNamedRanks)
            text += "; rank " + std::to_string(one.rank) + " (pid " + std::to_string(one.pid) +
                    ") " + one.condition;
    return named > kNamedRanks ? text + "; and " + std::to_string(named - kNamedRanks) + " more"
                               : text;
}

std::chrono::milliseconds whole(std::chrono::steady_clock::duration time) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(time);
}

}  // namespace

std::string waiting_notice(const std::vector<LiveRank>& alive, std::size_t of,
                           std::chrono::milliseconds asked_ago, std::chrono::milliseconds left,
                           std::chrono::system_clock::time_point now) {
    return "still waiting for " + name_ranks(alive, of) + ", asked to stop " +
           format_duration(asked_ago) + " ago; SIGKILL at " + clock_time(now + left) + ", in " +
           format_duration(left) + name_held_up(alive);
}

std::string killed_notice(const std::vector<LiveRank>& alive, std::size_t of,
                          std::chrono::milliseconds asked_ago) {
    return name_ranks(alive, of) + " did not end within " + format_duration(asked_ago) +
           " after the request to stop (SIGTERM), and " + (alive.size() == 1 ? "was" : "were") +
           " killed by SIGKILL" + name_held_up(alive);
}

std::string hung_notice(const std::vector<LiveRank>& ranks) {
    std::string text = "these processes did not end long after SIGKILL, and hang in the kernel:";
    for (const LiveRank& one : ranks)
        text += " " + std::to_string(one.pid) + " (rank " + std::to_string(one.rank) + ")";
    return text + name_held_up(ranks);
}

StopNotice::StopNotice(asio::io_context& io, LookUp look_up, Report report,
                       std::chrono::milliseconds patience)
    : look_up_(std::move(look_up)), report_(std::move(report)), patience_(patience), timer_(io) {}

void StopNotice::begin_generation() {
    timer_.cancel();
    asked_at_.reset();
}

void StopNotice::asked_to_end(std::chrono::milliseconds grace) {
    const auto now = std::chrono::steady_clock::now();
    kill_at_ = now + grace;
    if (asked_at_ || look_up_().alive.empty())
        return;
    asked_at_ = now;
    if (grace >= 2 * patience_)
        look_after(patience_);
}

void StopNotice::look_after(std::chrono::milliseconds time) {
    timer_.expires_after(time);
    timer_.async_wait([this](const std::error_code& error) {
        if (!error)
            say_who_is_waited_for();
    });
}

void StopNotice::say_who_is_waited_for() {
    const Ranks ranks = look_up_();
    if (ranks.alive.empty() || !asked_at_)
        return;
    const auto now = std::chrono::steady_clock::now();
    const auto asked_ago = whole(now - *asked_at_), left = whole(kill_at_ - now);
    if (left <= std::chrono::milliseconds(0))
        return;
    report_(
        waiting_notice(ranks.alive, ranks.of, asked_ago, left, std::chrono::system_clock::now()));
    if (left > 4 * asked_ago && patience_ >= std::chrono::seconds(1))
        look_after(4 * asked_ago);
}

void StopNotice::killed(bool tell) {
    timer_.cancel();
    if (!tell || !asked_at_)
        return;
    const Ranks ranks = look_up_();
    if (ranks.alive.empty())
        return;
    const auto asked_ago = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - *std::exchange(asked_at_, std::nullopt));
    report_(killed_notice(ranks.alive, ranks.of, asked_ago));
}

}  // namespace autolaunch::launcher
