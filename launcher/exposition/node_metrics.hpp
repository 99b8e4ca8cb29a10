#pragma once
#include "exposition/metric.hpp"
#include "readings/node_reading.hpp"

#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What a node's agent and what was read of it are as metrics, in the order of metric_kinds().
/// `uses` names the file systems, by path: a path is no label. Pure.
std::vector<Metric> node_metrics(const NodeReading& reading, const AgentFacts& facts,
                                 const std::map<std::string, std::string>& uses,
                                 const std::string& version, const std::string& job_name);

/// States that autolaunch_job_state tells.
std::vector<std::string> job_states();

}  // namespace autolaunch::launcher
