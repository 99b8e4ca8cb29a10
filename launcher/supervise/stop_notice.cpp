#include "supervise/stop_notice.hpp"

#include "report/units.hpp"

#include <ctime>

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

}  // namespace

std::string waiting_notice(const std::vector<LiveRank>& alive, std::size_t of,
                           std::chrono::milliseconds asked_ago, std::chrono::milliseconds left,
                           std::chrono::system_clock::time_point now) {
    return "still waiting for " + name_ranks(alive, of) + ", asked to stop " +
           format_duration(asked_ago) + " ago; SIGKILL at " + clock_time(now + left) + ", in " +
           format_duration(left);
}

std::string killed_notice(const std::vector<LiveRank>& alive, std::size_t of,
                          std::chrono::milliseconds asked_ago) {
    return name_ranks(alive, of) + " did not end within " + format_duration(asked_ago) +
           " after the request to stop (SIGTERM), and " + (alive.size() == 1 ? "was" : "were") +
           " killed by SIGKILL";
}

}  // namespace autolaunch::launcher
