#include "alerts/incident_book.hpp"

#include "base/clock_time.hpp"
#include "base/json_nesting.hpp"
#include "base/whole_number.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace autolaunch::launcher::alerts {

namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::array<std::string_view, 3> kSeverities = {"info", "warning", "critical"};
constexpr auto kShortestQuiet = 1min;
constexpr int kMostDoublings = 5;
// What is kept of one alert: a thousand ranks make no message of a megabyte.
constexpr std::size_t kMostMatches = 4096;

bool is_of_the_job(const AlertRule& rule) {
    const auto& any = rule.condition.any;
    return std::any_of(any.begin(), any.end(), [](const auto& all) {
        return std::any_of(all.begin(), all.end(),
                           [](const Comparison& one) { return one.metric->name == "job_status"; });
    });
}

void forget_before(std::vector<WallTime>& times, WallTime when) {
    std::erase_if(times, [&](WallTime one) { return one <= when; });
}

long long seconds_of(WallTime when) {
    return std::chrono::duration_cast<std::chrono::seconds>(when.time_since_epoch()).count();
}
// Of a file that anybody may have written: within what the clock can hold, and one more of a count
// is a number, too.
WallTime time_of(const json& value) { return clock_time(whole_number<std::int64_t>(value)); }
int count_of(const json& value) {
    constexpr int kMost = 1'000'000'000;
    return std::clamp(whole_number<int>(value), 0, kMost);
}

json open_json(const FiringAlert& alert) {
    json matches = json::array();
    for (const Match& one : alert.matches)
        matches.push_back({{"subject", one.subject}, {"value", one.value}});
    return {{"incident", alert.incident}, {"since", seconds_of(alert.since)}, {"of", matches}};
}

}  // namespace

std::string_view name_of(Severity severity) {
    return kSeverities.at(static_cast<std::size_t>(severity));
}
std::optional<Severity> severity_named(std::string_view name) {
    const auto found = std::find(kSeverities.begin(), kSeverities.end(), name);
    if (found == kSeverities.end())
        return std::nullopt;
    return static_cast<Severity>(found - kSeverities.begin());
}

IncidentBook::IncidentBook(std::vector<AlertRule> rules, int messages_a_day)
    : rules_(std::move(rules)), states_(rules_.size()), messages_a_day_(messages_a_day) {}

void IncidentBook::see(State& state, const std::vector<Match>& matches, WallTime now) {
    if (matches.empty()) {
        state.pending_since.reset();
        return;
    }
    if (!state.pending_since || now < *state.pending_since)
        state.pending_since = now;
    state.last_seen = now;
    if (!state.firing)
        return;
    auto& known = state.firing->matches;
    for (const Match& one : matches) {
        const bool is_new = std::none_of(known.begin(), known.end(), [&](const Match& other) {
            return other.subject == one.subject;
        });
        if (is_new && known.size() < kMostMatches)
            known.push_back(one);
    }
}

bool IncidentBook::is_over(State& state, WallTime now) {
    if (!state.firing || state.pending_since)
        return false;
    forget_before(state.begun, now - 1h);
    const auto doublings =
        std::clamp<int>(static_cast<int>(state.begun.size()) - 1, 0, kMostDoublings);
    return !state.last_seen || now - *state.last_seen >= kShortestQuiet * (1 << doublings);
}

std::vector<FiringAlert> IncidentBook::begin(const std::vector<std::vector<Match>>& matches,
                                             WallTime now) {
    std::vector<FiringAlert> begun;
    for (std::size_t i = 0; i < rules_.size(); ++i) {
        State& state = states_[i];
        if (state.firing || !state.pending_since || now - *state.pending_since < rules_[i].hold)
            continue;
        FiringAlert alert{.name = rules_[i].name,
                          .severity = rules_[i].severity,
                          .condition = rules_[i].condition.text,
                          .matches = matches[i],
                          .since = *state.pending_since,
                          .notify = rules_[i].notify,
                          .incident = incidents_ + 1};
        if (alert.matches.size() > kMostMatches)
            alert.matches.resize(kMostMatches);
        state.firing = alert;
        state.begun.push_back(now);
        begun.push_back(std::move(alert));
    }
    // What became of the job explains the rest.
    std::stable_sort(
        begun.begin(), begun.end(), [this](const FiringAlert& a, const FiringAlert& b) {
            const auto of_job = [this](const FiringAlert& alert) {
                return std::any_of(rules_.begin(), rules_.end(), [&](const AlertRule& rule) {
                    return rule.name == alert.name && is_of_the_job(rule);
                });
            };
            return std::pair(of_job(a), a.severity) > std::pair(of_job(b), b.severity);
        });
    return begun;
}

void IncidentBook::tell_begun(std::vector<FiringAlert> begun, WallTime now,
                              std::vector<Notice>& notices) {
    if (begun.empty())
        return;
    ++incidents_;
    forget_before(told_, now - 24h);
    const bool has_room = static_cast<int>(told_.size()) < messages_a_day_;
    open_[incidents_].told = has_room;
    if (!has_room) {
        ++held_back_;
        return;
    }
    told_.push_back(now);
    notices.push_back({.kind = Notice::Kind::began,
                       .incident = incidents_,
                       .alerts = std::move(begun),
                       .at = now,
                       .held_back = std::exchange(held_back_, 0),
                       .is_last = static_cast<int>(told_.size()) == messages_a_day_});
}

void IncidentBook::tell_over(WallTime now, std::vector<Notice>& notices) {
    for (auto it = open_.begin(); it != open_.end();) {
        const bool goes_on = std::any_of(states_.begin(), states_.end(), [&](const State& state) {
            return state.firing && state.firing->incident == it->first;
        });
        if (goes_on) {
            ++it;
            continue;
        }
        if (it->second.told && !it->second.over.empty())
            notices.push_back({.kind = Notice::Kind::over,
                               .incident = it->first,
                               .alerts = std::move(it->second.over),
                               .at = now});
        it = open_.erase(it);
    }
}

std::vector<Notice> IncidentBook::look(WallTime now,
                                       const std::vector<std::vector<Match>>& matches) {
    std::vector<Notice> notices;
    for (std::size_t i = 0; i < rules_.size(); ++i) {
        see(states_[i], matches[i], now);
        if (!is_over(states_[i], now))
            continue;
        states_[i].firing->until = now;
        open_[states_[i].firing->incident].over.push_back(*states_[i].firing);
        states_[i].firing.reset();
    }
    tell_begun(begin(matches, now), now, notices);
    tell_over(now, notices);
    return notices;
}

std::vector<Notice> IncidentBook::finish(WallTime now) {
    std::vector<Notice> notices;
    for (std::size_t i = 0; i < rules_.size(); ++i) {
        if (!states_[i].firing || is_of_the_job(rules_[i]))
            continue;
        states_[i].firing->until = now;
        open_[states_[i].firing->incident].over.push_back(*states_[i].firing);
        states_[i].firing.reset();
    }
    tell_over(now, notices);
    return notices;
}

std::vector<FiringAlert> IncidentBook::firing() const {
    std::vector<FiringAlert> result;
    for (const State& state : states_)
        if (state.firing)
            result.push_back(*state.firing);
    return result;
}

std::string IncidentBook::to_json() const {
    json rules = json::object(), told = json::array();
    for (std::size_t i = 0; i < rules_.size(); ++i) {
        const State& state = states_[i];
        if (!state.firing)
            continue;
        json entry = open_json(*state.firing);
        entry["told"] =
            open_.contains(state.firing->incident) && open_.at(state.firing->incident).told;
        entry["seen"] = seconds_of(state.last_seen.value_or(state.firing->since));
        rules[rules_[i].name] = entry;
    }
    for (const WallTime when : told_)
        told.push_back(seconds_of(when));
    return json{{"incidents", incidents_},
                {"held_back", held_back_},
                {"told", told},
                {"firing", rules}}
               .dump(-1, ' ', false, json::error_handler_t::replace) +
           '\n';
}

bool IncidentBook::restore(std::string_view text) {
    if (!nests_at_most(text, 8))
        return false;
    const json all = json::parse(text, nullptr, false);
    IncidentBook restored(rules_, messages_a_day_);
    try {
        restored.take_over(all);
    } catch (const json::exception&) {
        return false;
    }
    *this = std::move(restored);
    return true;
}

// Throws json::exception where something is missing or another kind of thing.
void IncidentBook::take_over(const json& all) {
    incidents_ = count_of(all.at("incidents"));
    held_back_ = count_of(all.at("held_back"));
    for (const json& when : all.at("told"))
        told_.push_back(time_of(when));
    for (std::size_t i = 0; i < rules_.size(); ++i) {
        const auto found = all.at("firing").find(rules_[i].name);
        if (found == all.at("firing").end())
            continue;
        FiringAlert alert{.name = rules_[i].name,
                          .severity = rules_[i].severity,
                          .condition = rules_[i].condition.text,
                          .matches = {},
                          .since = time_of(found->at("since")),
                          .notify = rules_[i].notify,
                          .incident = std::max(1, count_of(found->at("incident")))};
        incidents_ = std::max(incidents_, alert.incident);
        for (const json& one : found->at("of"))
            if (alert.matches.size() < kMostMatches)
                alert.matches.push_back(
                    {one.at("subject").get<std::string>(), one.at("value").get<std::string>()});
        states_[i].last_seen = time_of(found->at("seen"));
        open_[alert.incident].told = found->at("told").get<bool>();
        states_[i].firing = std::move(alert);
    }
}

}  // namespace autolaunch::launcher::alerts
