#pragma once
#include "alerts/condition.hpp"

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher::alerts {

using WallTime = std::chrono::system_clock::time_point;

enum class Severity { info, warning, critical };
std::string_view name_of(Severity severity);
std::optional<Severity> severity_named(std::string_view name);

struct AlertRule {
    std::string name;
    Condition condition;
    std::chrono::milliseconds hold{0};
    Severity severity = Severity::warning;
    std::vector<std::string> notify = {};  ///< names of channels; empty: all
};

/// An alert that is firing, or was.
struct FiringAlert {
    std::string name;
    Severity severity = Severity::warning;
    std::string condition;
    std::vector<Match> matches;          ///< when it began, and those that came since
    WallTime since;                      ///< the condition held first
    std::optional<WallTime> until = {};  ///< it does not hold any more
    std::vector<std::string> notify = {};
    int incident = 0;
};

/// Something to tell: alerts that began at one look are one incident, the gravest first, what
/// became of the job before all; and so are they when all of them are over.
struct Notice {
    enum class Kind { began, over };
    Kind kind = Kind::began;
    int incident = 0;  ///< counted from 1, over the job's whole life
    std::vector<FiringAlert> alerts;
    WallTime at;
    int held_back = 0;     ///< earlier incidents that nobody was told of: too many in one day
    bool is_last = false;  ///< of this day: no other one is told of before tomorrow
};

/// Which alerts are pending, firing and over, and what is told of it. One message an incident and
/// one when it is over; an alert that comes and goes is over only after a pause, which doubles each
/// time within an hour (1 minute to 32). Pure: it knows no clock but what it is given, and one that
/// goes backwards only delays.
class IncidentBook {
public:
    IncidentBook(std::vector<AlertRule> rules, int messages_a_day);

    /// One look: of each rule, in their order, what its condition holds of.
    std::vector<Notice> look(WallTime now, const std::vector<std::vector<Match>>& matches);
    /// The job is over: what fires and is not about that is over, too.
    std::vector<Notice> finish(WallTime now);

    const std::vector<AlertRule>& rules() const { return rules_; }
    std::vector<FiringAlert> firing() const;

    /// For the next head, and for the job's next start: open incidents, and what the day has left.
    std::string to_json() const;
    /// Takes over what to_json() wrote of rules of the same names. False: it is none of that.
    bool restore(std::string_view json);

private:
    struct State {
        std::optional<WallTime> pending_since, last_seen;
        std::optional<FiringAlert> firing;
        std::vector<WallTime> begun;  ///< of the last hour
    };

    static void see(State& state, const std::vector<Match>& matches, WallTime now);
    static bool is_over(State& state, WallTime now);
    void take_over(const nlohmann::json& all);
    std::vector<FiringAlert> begin(const std::vector<std::vector<Match>>& matches, WallTime now);
    void tell_begun(std::vector<FiringAlert> begun, WallTime now, std::vector<Notice>& notices);
    void tell_over(WallTime now, std::vector<Notice>& notices);

    struct Incident {
        bool told = false;
        std::vector<FiringAlert> over;
    };

    std::vector<AlertRule> rules_;
    std::vector<State> states_;
    std::map<int, Incident> open_;
    int messages_a_day_;
    int incidents_ = 0, held_back_ = 0;
    std::vector<WallTime> told_;  ///< of the last 24 hours
};

}  // namespace autolaunch::launcher::alerts
