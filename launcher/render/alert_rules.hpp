#pragma once
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// A series and its values, one a minute, as promtool's tests write them: "0+10x60 600+0x30".
struct TestSeries {
    std::string series, values;
};

/// What an alert is for, shown by numbers: promtool runs it.
struct AlertExample {
    std::vector<TestSeries> broken = {};  ///< it fires
    std::vector<TestSeries> sound = {};   ///< the same things as they should be: it does not
    int minute = 0;                       ///< when both are looked at
    /// Of the alert that fires, beside its severity.
    std::vector<std::pair<std::string, std::string>> labels = {};
    std::string value = {};  ///< what {value} comes to
};

struct AlertRule {
    std::string name;
    std::string expression;
    std::string pending = {};  ///< for how long it has to hold: "5m"; empty: at once
    std::string severity;
    /// {label} stands for the label's value, {value} for the expression's.
    std::string summary, description;
    std::string value_form = {};  ///< of {value}, behind a `|`: "humanizeDuration"
    AlertExample example = {};
};

struct AlertGroup {
    std::string name;
    std::vector<AlertRule> rules;
};

struct RecordingRule {
    std::string name, expression;
};

/// What several panels and alerts ask for: LEVEL:METRIC:OPERATIONS.
std::vector<RecordingRule> recording_rules();

/// About jobs: autolaunch's own metrics.
AlertGroup job_alerts();
/// About GPUs (dcgm-exporter), nodes (node_exporter) and Slurm (vpenso's exporter, or slurmctld's
/// own since 25.11).
std::vector<AlertGroup> machine_alerts();

/// All of them. An alert belongs to one job (label job_id), one node (label node), both or neither.
std::vector<AlertGroup> alert_groups();

}  // namespace autolaunch::launcher
