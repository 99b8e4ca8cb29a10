#include "spec/restart_rules.hpp"

#include "base/text.hpp"
#include "spec/scalar.hpp"
#include "spec/units.hpp"

#include <cmath>
#include <cstdint>
#include <variant>

namespace autolaunch::launcher {

namespace {

// Why a cause cannot be answered so; empty: it can.
std::string why_refused(Cause cause, RestartAction action, bool elsewhere) {
    const bool is_restart = action == RestartAction::restart;
    switch (cause) {
        case Cause::node_lost:
            return is_restart && !elsewhere
                       ? "a restart would need the node; restart_elsewhere, requeue or stop"
                       : "";
        case Cause::straggler:
            return "restart.straggler says what follows: warn, replace or off";
        case Cause::preempted:
        case Cause::time_limit:
            return is_restart ? "the nodes are gone by then; requeue or stop" : "";
        case Cause::cancelled:
            return action != RestartAction::stop ? "who cancels a job wants it stopped" : "";
        case Cause::agent_killed:
            return action != RestartAction::stop ? "nobody is left who could do it; stop" : "";
        default:
            return {};
    }
}

class RuleReader {
public:
    RuleReader(Cause cause, std::string path, CauseRules& rules, std::vector<SpecError>& errors)
        : cause_(cause), path_(std::move(path)), rules_(rules), errors_(errors) {}

    void read(const Value& value) {
        if (!value.is_mapping())
            return complain(
                value.at, path_,
                "expected a mapping with " + join(kNames, ", ") + "; found " + describe(value));
        for (const Entry& entry : value.entries)
            read(entry);
    }

private:
    static inline const std::vector<std::string> kNames = {"budget", "window", "delay", "backoff",
                                                           "action"};

    void complain(const Origin& at, const std::string& key, const std::string& message) {
        errors_.push_back(error_at(at, key, message));
    }

    void read(const Entry& entry) {
        const std::string path = path_ + '.' + entry.key;
        const Value& value = entry.value;
        const auto expected = [&](const char* what) {
            complain(value.at, path,
                     std::string("expected ") + what + "; found " + describe(value));
        };
        if (entry.key == "budget") {
            const auto number = number_of(value);
            if (!number || *number < 0 || *number > 1'000'000 || *number != std::floor(*number))
                return expected("a whole number >= 0");
            rules_.budget = static_cast<int>(*number);
        } else if (entry.key == "window") {
            rules_.window = value.is_scalar() ? window_from(value.text) : std::nullopt;
            if (!rules_.window)
                expected("so many in a time, such as 3 per 6h");
        } else if (entry.key == "delay") {
            rules_.delay = value.is_scalar() ? duration_from(value.text) : std::nullopt;
            if (!rules_.delay)
                expected("a duration such as 15s, 500ms, 2m, 1h, or a number of seconds");
        } else if (entry.key == "backoff") {
            rules_.backoff = number_of(value);
            if (!rules_.backoff || *rules_.backoff < 1 || *rules_.backoff > 100)
                expected("a number from 1 to 100, by which each further pause is longer");
        } else if (entry.key == "action") {
            read_action(value, path);
        } else {
            const std::string near = nearest(entry.key, kNames);
            complain(entry.key_at, path,
                     "unknown key; " + (near.empty() ? "there are " + join(kNames, ", ")
                                                     : "did you mean \"" + near + "\"?"));
        }
    }

    void read_action(const Value& value, const std::string& path) {
        const std::string word = value.is_scalar() ? value.text : "";
        rules_.elsewhere = word == "restart_elsewhere";
        if (word == "restart" || rules_.elsewhere)
            rules_.action = RestartAction::restart;
        else if (word == "requeue")
            rules_.action = RestartAction::requeue;
        else if (word == "stop")
            rules_.action = RestartAction::stop;
        else
            return complain(
                value.at, path,
                "expected restart, restart_elsewhere, requeue or stop; found " + describe(value));
        if (const std::string why = why_refused(cause_, *rules_.action, rules_.elsewhere);
            !why.empty())
            complain(value.at, path, why);
    }

    static std::optional<double> number_of(const Value& value) {
        if (!value.is_scalar() || (!value.plain && !value.interpolated))
            return std::nullopt;
        const Scalar scalar = resolve_scalar(value.text);
        if (const auto* whole = std::get_if<std::int64_t>(&scalar))
            return static_cast<double>(*whole);
        const auto* real = std::get_if<double>(&scalar);
        return real != nullptr && std::isfinite(*real) ? std::optional(*real) : std::nullopt;
    }

    Cause cause_;
    std::string path_;
    CauseRules& rules_;
    std::vector<SpecError>& errors_;
};

}  // namespace

std::optional<WindowLimit> window_from(std::string_view text) {
    constexpr std::string_view kPer = " per ";
    const auto per = text.find(kPer);
    if (per == text.npos)
        return std::nullopt;
    long long times = 0;
    const auto within = duration_from(trim(text.substr(per + kPer.size())));
    if (!parse_integer(trim(text.substr(0, per)), times) || times < 0 || times > 1'000'000 ||
        !within || within->count() == 0)
        return std::nullopt;
    return WindowLimit{static_cast<int>(times), *within};
}

bool read_restart_rules(const Value& value, const std::string& path, RestartRules& rules,
                        std::vector<SpecError>& errors) {
    if (!value.is_mapping())
        return false;
    std::vector<std::string> names;
    for (const Cause cause : all_causes())
        names.emplace_back(name_of(cause));
    for (const Entry& entry : value.entries) {
        const std::string entry_path = path + '.' + entry.key;
        const auto cause = cause_named(entry.key);
        if (!cause) {
            const std::string near = nearest(entry.key, names);
            errors.push_back(
                error_at(entry.key_at, entry_path,
                         "is no cause; " + (near.empty() ? "there are " + join(names, ", ")
                                                         : "did you mean \"" + near + "\"?")));
            continue;
        }
        RuleReader(*cause, entry_path, rules[*cause], errors).read(entry.value);
    }
    return true;
}

}  // namespace autolaunch::launcher
