#pragma once
#include "manifests/pod_facts.hpp"
#include "manifests/tree.hpp"

#include <vector>

namespace autolaunch::launcher {

/// Exit codes after which another try may go well, and which count: the nodes did not come together
/// or one was lost (68), something was not there (69), the system refused (71), an agent was killed
/// (137) or stopped (143). Any other is the job's own end.
extern const std::vector<int> kCountedCodes;

/// Fields of a Job's spec: what follows from how a pod ends. 75 and evictions count for nothing; of
/// what counts there may be `limit`; all else fails the Job at once.
void add_failure_policy(MapNode& job, const PodFacts& facts, int limit);

/// How many pods may fail of what counts: a try loses all of them at worst.
int failures_of_retries(const PodFacts& facts);

}  // namespace autolaunch::launcher
