#include "supervise/console_watchers.hpp"

#include <chrono>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr auto kStatusInterval = std::chrono::seconds(1);
constexpr int kStatus = 3;

}  // namespace

void ConsoleWatchers::add(const std::shared_ptr<Caller>& caller,
                          std::function<std::string()> status) {
    status_ = std::move(status);
    const auto place = watchers_.insert(watchers_.end(), caller);
    caller->when_gone([this, place] { watchers_.erase(place); });
    tick();
}

void ConsoleWatchers::show(int to, std::string_view text) {
    for (const auto& watcher : std::list(watchers_))
        watcher->send(
            control::ConsoleText{.to = static_cast<std::uint8_t>(to), .text = std::string(text)});
}

void ConsoleWatchers::tick() {
    if (watchers_.empty())
        return timer_.cancel(), void();
    show(kStatus, status_());
    timer_.expires_after(kStatusInterval);
    timer_.async_wait([this](const std::error_code& error) {
        if (!error)
            tick();
    });
}

void ConsoleWatchers::finish(int exit_code, const std::string& outcome) {
    timer_.cancel();
    for (const auto& watcher : std::exchange(watchers_, {})) {
        watcher->when_gone({});
        watcher->send(control::Answer{
            .exit_code = exit_code, .text = "the job has ended: " + outcome, .hint = {}});
        watcher->close();
    }
}

}  // namespace autolaunch::launcher
