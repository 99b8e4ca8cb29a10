#include "idle/job_course.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr double kLongestSeconds = 1e6;
constexpr auto kLongestWindow = std::chrono::minutes(30);

std::chrono::milliseconds milliseconds_of(double seconds) {
    if (!std::isfinite(seconds) || seconds <= 0)
        return std::chrono::milliseconds(0);
    return std::chrono::milliseconds(std::llround(std::min(seconds, kLongestSeconds) * 1000));
}

// Every second one goes, and the one after it stands for both.
void thin(std::vector<JobCourse::Waits>& waits) {
    std::vector<JobCourse::Waits> fewer;
    for (std::size_t at = 1; at < waits.size(); at += 2) {
        waits[at].from = std::min(waits[at - 1].from, waits[at].from);
        fewer.push_back(std::move(waits[at]));
    }
    waits = std::move(fewer);
}

}  // namespace

void JobCourse::add_stall(JobTime published, double stall_seconds,
                          std::optional<double> save_seconds) {
    const auto stall = milliseconds_of(stall_seconds);
    if (stall.count() == 0 || stalls.size() >= kMostStalls)
        return;
    const auto save = std::max(milliseconds_of(save_seconds.value_or(0)), stall);
    stalls.push_back({published - save, published - save + stall});
}

void JobCourse::add_waits(JobTime at, JobTime begin, std::vector<int> ranks,
                          const std::vector<double>& shares) {
    if (ranks.empty() || ranks.size() != shares.size())
        return;
    if (!waits.empty() && waits.back().to <= at)
        begin = std::max(begin, waits.back().to);
    Waits window{.from = std::max(begin, at - kLongestWindow), .to = at, .ranks = std::move(ranks)};
    for (const double share : shares)
        window.shares.push_back(
            std::isfinite(share) ? static_cast<float>(std::clamp(share, 0.0, 1.0)) : 0);
    if (window.from >= window.to)
        return;
    if ((waits.size() + 1) * window.ranks.size() > kMostWaitNumbers)
        thin(waits);
    waits.push_back(std::move(window));
}

}  // namespace autolaunch::launcher
