#pragma once
#include "alerts/message.hpp"
#include "alerts/metric.hpp"
#include "readings/sample.hpp"
#include "top/job_view.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher::alerts {

/// The newest that a node has measured.
struct NodeNow {
    std::string node;
    NodeSample sample;
};

/// What a job's events and samples say of each metric at `now`. What they do not tell is left out:
/// a node that is silent has its sample_age and nothing else, as old figures are no news. Pure.
std::vector<Observation> observe(const JobView& job, const std::vector<NodeNow>& nodes,
                                 ViewTime now);

/// "running", "restarting", …: job_status' word. Pure.
std::string status_word(const JobView& job);

}  // namespace autolaunch::launcher::alerts
