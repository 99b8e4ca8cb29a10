#include "alerts/delivery.hpp"

#include "secrets/secrets.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <utility>

namespace autolaunch::launcher::alerts {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostWaiting = 100;
constexpr auto kAnswerTime = 30s;
constexpr auto kAnswerTimeOfDead = 5s;
constexpr auto kShortestSilence = 10s;
constexpr auto kLongestSilence = 10min;
// An Alertmanager ends what is not posted again; ours are posted for five minutes each.
constexpr auto kSaidAgainAfter = 1min;

}  // namespace

Delivery::Delivery(std::vector<std::unique_ptr<MessageChannel>> channels,
                   std::function<void(const std::string&)> say)
    : say_(std::move(say)) {
    for (auto& channel : channels) {
        ways_.emplace_back();
        ways_.back().channel = std::move(channel);
    }
}

bool Delivery::is_for(const FiringAlert& alert, const AlertChannelSpec& channel) {
    if (channel.only_critical && alert.severity != Severity::critical)
        return false;
    return alert.notify.empty() ||
           std::find(alert.notify.begin(), alert.notify.end(), channel.name) != alert.notify.end();
}

void Delivery::add(const Notice& notice, const AlertedJob& job) {
    for (Way& way : ways_) {
        Message message{notice, job};
        std::erase_if(message.notice.alerts, [&](const FiringAlert& alert) {
            return !is_for(alert, way.channel->spec());
        });
        if (message.notice.alerts.empty())
            continue;
        way.waiting.push_back(std::move(message));
        if (way.waiting.size() > kMostWaiting) {
            way.waiting.pop_front();
            ++way.lost;
        }
    }
}

void Delivery::send(const std::vector<FiringAlert>& firing, const AlertedJob& job, Time now) {
    std::stable_sort(ways_.begin(), ways_.end(),
                     [](const Way& a, const Way& b) { return a.dead < b.dead; });
    for (Way& way : ways_) {
        if (now < way.next_try)
            continue;
        tell_waiting(way, now, Deadline::after(way.dead ? kAnswerTimeOfDead : kAnswerTime));
        if (way.waiting.empty())
            keep_alive(way, firing, job, now);
    }
}

void Delivery::tell_waiting(Way& way, Time now, const Deadline& deadline) {
    while (!way.waiting.empty()) {
        const Message& next = way.waiting.front();
        try {
            way.channel->tell(next.notice, next.job, deadline);
        } catch (const Error& error) {
            return failed(way, error, now);
        }
        way.waiting.pop_front();
        way.kept_alive = now;
        succeeded(way);
    }
}

void Delivery::keep_alive(Way& way, const std::vector<FiringAlert>& firing, const AlertedJob& job,
                          Time now) {
    std::vector<FiringAlert> mine;
    for (const FiringAlert& alert : firing)
        if (is_for(alert, way.channel->spec()))
            mine.push_back(alert);
    if (mine.empty() || now - way.kept_alive < kSaidAgainAfter)
        return;
    try {
        way.channel->keep_alive(mine, job, Deadline::after(kAnswerTime));
        way.kept_alive = now;
        succeeded(way);
    } catch (const Error& error) {
        failed(way, error, now);
    }
}

void Delivery::failed(Way& way, const Error& error, Time now) {
    if (!way.dead)
        say_("alerting: nobody is told by " + way.channel->spec().name + ": " +
             mask_secrets(error.what()) + (error.hint().empty() ? "" : "; " + error.hint()));
    way.dead = true;
    way.pause = std::clamp<std::chrono::seconds>(way.pause * 2, kShortestSilence, kLongestSilence);
    way.next_try = now + way.pause;
}

void Delivery::succeeded(Way& way) {
    if (way.dead)
        say_("alerting: " + way.channel->spec().name + " works again" +
             (way.lost == 0 ? "" : "; " + std::to_string(way.lost) + " messages were lost"));
    way.dead = false;
    way.pause = 0s;
    way.next_try = {};
    way.lost = 0;
}

void Delivery::finish(const Deadline& deadline) {
    std::stable_sort(ways_.begin(), ways_.end(),
                     [](const Way& a, const Way& b) { return a.dead < b.dead; });
    for (Way& way : ways_) {
        const auto now = std::chrono::steady_clock::now();
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline.remaining());
        tell_waiting(
            way, now,
            Deadline::after(way.dead ? std::min<std::chrono::milliseconds>(left, kAnswerTimeOfDead)
                                     : left));
        if (const std::size_t untold = way.waiting.size() + way.lost; untold > 0)
            say_("alerting: " + std::to_string(untold) + (untold == 1 ? " message" : " messages") +
                 " could not be told by " + way.channel->spec().name);
    }
}

}  // namespace autolaunch::launcher::alerts
