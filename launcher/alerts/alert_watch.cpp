#include "alerts/alert_watch.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace autolaunch::launcher::alerts {

namespace {

constexpr int kMostDeaths = 5;
constexpr auto kPauseAfterDeath = std::chrono::seconds(5);

}  // namespace

AlertWatch::AlertWatch(asio::io_context& io, AlertTask task,
                       std::function<void(const std::string&)> say)
    : task_(std::move(task)), say_(std::move(say)), output_(io), pause_(io) {}

void AlertWatch::begin() {
    if (started_ || task_.spec.rules.empty())
        return;
    started_ = true;
    if (task_.spec.channels.empty())
        return say_("alerting: there are alerts and no channels: nobody is told");
    start();
}

void AlertWatch::start() {
    try {
        process_ = HelperProcess([this](int output) { run_alerts(task_, output); },
                                 HelperProcess::Lifetime::job);
    } catch (const Error& error) {
        return say_(std::string("alerting: nobody is told: ") + error.what());
    }
    // The descriptor stays the process's; a copy is what the context waits at.
    const int copy = ::fcntl(process_.output(), F_DUPFD_CLOEXEC, 3);
    if (copy < 0)
        return say_("alerting: its warnings cannot be read: " +
                    std::generic_category().message(errno));
    output_.assign(copy);
    await();
}

void AlertWatch::await() {
    output_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [this](const std::error_code& error) {
                           if (error)
                               return;
                           const bool more = process_.read_some(text_);
                           take_lines(!more);
                           more ? await() : died();
                       });
}

void AlertWatch::take_lines(bool all) {
    std::size_t end = 0;
    while ((end = text_.find('\n')) != std::string::npos || (all && !text_.empty())) {
        const std::string line = text_.substr(0, end);
        text_.erase(0, end == std::string::npos ? text_.size() : end + 1);
        if (line == kAlertsDone)
            done_ = true;
        else
            finishing_ ? last_words_.push_back(line) : say_(line);
    }
}

// Before the job's end nothing ends it but its own fault, a stranger, or another head.
void AlertWatch::died() {
    output_.close();
    process_.end();
    if (finishing_ || done_)
        return;
    if (++deaths_ > kMostDeaths)
        return say_("alerting: its process has died " + std::to_string(deaths_) +
                    " times: nobody is told any more");
    pause_.expires_after(kPauseAfterDeath);
    pause_.async_wait([this](const std::error_code& cancelled) {
        if (cancelled || finishing_)
            return;
        say_("alerting: its process had died, and was started anew (" + std::to_string(deaths_) +
             " of " + std::to_string(kMostDeaths) + ")");
        start();
    });
}

bool AlertWatch::finish(const Deadline& deadline) {
    finishing_ = true;
    pause_.cancel();
    if (output_.is_open())
        output_.close();
    bool more = process_.output() >= 0;
    while (more && !deadline.passed()) {
        pollfd look{process_.output(), POLLIN, 0};
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline.remaining()).count();
        ::poll(&look, 1, static_cast<int>(std::min<long long>(left, 1000)));
        more = process_.read_some(text_);
        take_lines(!more);
    }
    process_.end();
    return done_;
}

}  // namespace autolaunch::launcher::alerts
