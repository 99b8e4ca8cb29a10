#pragma once
#include "alerts/incident_book.hpp"
#include "alerts/message.hpp"
#include "require.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace autolaunch::launcher::alerts {

namespace incidents {

inline AlertRule rule_of(std::string name, std::string_view condition) {
    return {.name = std::move(name), .condition = std::get<Condition>(parse_condition(condition))};
}

/// All that is told of what fires can be sent.
inline void check_notices(const std::vector<Notice>& notices, WallTime now) {
    const AlertedJob job{.name = "gpt",
                         .job_id = "4711",
                         .run_id = "r",
                         .run_dir = "runs/1",
                         .user = "ann",
                         .host = "node1",
                         .cause = {}};
    for (const Notice& notice : notices) {
        fuzz::require(notice.incident > 0 && !notice.alerts.empty());
        mail_of(notice, job, "a@b", {});
        fuzz::require(nlohmann::json::accept(slack_json(notice, job)) &&
                      nlohmann::json::accept(notice_json(notice, job)) &&
                      nlohmann::json::accept(alertmanager_json(notice.alerts, job, now)));
    }
}

}  // namespace incidents

/// An alerts.json of an earlier start, whoever wrote it: incidents that go on and are kept as a
/// text that reads the same, or none. Aborts where that is not so. Whether it was one.
inline bool check_incident_bytes(std::string_view bytes) {
    using namespace incidents;
    static const std::vector<AlertRule> rules = {rule_of("hot", "gpu_temperature > 85"),
                                                 rule_of("job_failure", "job_status == 'failed'")};
    IncidentBook book(rules, 20);
    if (!book.restore(bytes))
        return false;
    const std::string text = book.to_json();
    IncidentBook again(rules, 20);
    fuzz::require(again.restore(text) && again.to_json() == text);
    const WallTime now{std::chrono::seconds(1'795'866'582)};
    check_notices(book.look(now, {{{"GPU 1 of node1", "gpu_temperature is 90"}}, {}}), now);
    check_notices(book.look(now + std::chrono::hours(1), {{}, {{"", "job_status is failed"}}}),
                  now);
    check_notices(book.look(now + std::chrono::hours(3), {{}, {}}), now);
    check_notices(book.finish(now + std::chrono::hours(3)), now);
    return true;
}

}  // namespace autolaunch::launcher::alerts
