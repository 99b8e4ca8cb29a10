#pragma once
#include "alerts/incident_book.hpp"
#include "alerts/message.hpp"
#include "spec/alert_spec.hpp"

#include <chrono>
#include <filesystem>
#include <map>
#include <string>

namespace autolaunch::launcher::alerts {

/// All that the process of a job's alerts needs to know.
struct AlertTask {
    AlertSpec spec;
    std::filesystem::path run_dir;
    std::chrono::milliseconds interval{10'000};
    AlertedJob job;
    std::map<std::string, std::string> environment;  ///< for a webhook's variable, and HOME
};

/// Looks at the run directory again and again, tells of what its alerts say, and returns once the
/// job has ended and everybody was told, or could not be; or once another node's head has begun to
/// look. Each line that it writes to `output` is a warning of the job. What is open is in
/// RUN_DIR/alerts.json. The last line is kAlertsDone. Blocks: as long as the job runs.
void run_alerts(const AlertTask& task, int output);
inline constexpr char kAlertsDone[] = ".";

/// How long it takes at most to tell of a job's end.
inline constexpr std::chrono::seconds kAlertsLastWords{30};

}  // namespace autolaunch::launcher::alerts
