#include "supervise/job_end_time.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr milliseconds kQueryTime = 30s;  // a busy slurmctld; nobody waits
constexpr milliseconds kRounding = 2s;    // squeue's are whole seconds
constexpr milliseconds kShortestPause = 15s, kLongestPause = 5min;

}  // namespace

milliseconds time_until_next_look(const std::optional<system_clock::time_point>& ends_at,
                                  system_clock::time_point now) {
    if (!ends_at)
        return kLongestPause;
    return std::clamp(std::chrono::duration_cast<milliseconds>((*ends_at - now) / 10),
                      kShortestPause, kLongestPause);
}

std::optional<system_clock::time_point> end_told(
    const std::optional<std::chrono::seconds>& left, const std::string& limit,
    const std::optional<system_clock::time_point>& known, system_clock::time_point now) {
    const bool has_passed = known && *known <= now + kRounding && limit != "UNLIMITED";
    const bool is_over = !left || left->count() <= 0;
    if (has_passed && is_over)
        return known;
    return left ? std::optional(now + *left) : std::nullopt;
}

JobEndTime::JobEndTime(asio::io_context& io, const LaunchPlan& plan, Handler on_known)
    : plan_(plan), on_known_(std::move(on_known)), wait_(io), next_look_(io) {}

void JobEndTime::find_out() {
    if (std::exchange(asked_, true))
        return;
    if (plan_.slurm_job_id.empty())
        return on_known_({plan_.ends_at, {}, plan_.ends_at.has_value()});
    if (!plan_.ends_at)
        return ask(kQueryTime);
    ends_at_ = plan_.ends_at;
    look_later();
    on_known_({plan_.ends_at, {}, true});
}

void JobEndTime::look_now(milliseconds patience) {
    next_look_.cancel();
    if (plan_.slurm_job_id.empty())
        return on_known_({plan_.ends_at, {}, plan_.ends_at.has_value()});
    ask(patience);
}

void JobEndTime::ask(milliseconds patience) {
    query_.emplace(plan_.slurm_job_id);
    wait_.begin(
        query_->fd(), [this] { return query_->advance(); }, patience,
        [this](bool answered) {
            JobTimes times;
            if (answered && !query_->time_limit().empty()) {
                times = {{}, query_->time_limit(), true};
                times.ends_at = end_told(query_->time_left(), query_->time_limit(), ends_at_,
                                         system_clock::now());
                ends_at_ = times.ends_at;
            }
            query_.reset();
            look_later();
            on_known_(times);
        });
}

void JobEndTime::look_later() {
    next_look_.expires_after(time_until_next_look(ends_at_, system_clock::now()));
    next_look_.async_wait([this](const std::error_code& cancelled) {
        if (!cancelled)
            ask(kQueryTime);
    });
}

void JobEndTime::stop() {
    wait_.stop();
    query_.reset();
    next_look_.cancel();
}

}  // namespace autolaunch::launcher
