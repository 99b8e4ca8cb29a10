#include "manifests/pod_failures.hpp"

#include "exit_codes/exit_codes.hpp"

#include <csignal>

namespace autolaunch::launcher {

// In ascending order, as the API wants them; 75 among them is told apart before.
const std::vector<int> kCountedCodes = {exit_code::kNoHost, exit_code::kUnavailable,
                                        exit_code::kSystem, exit_code::kSignalBase + SIGKILL,
                                        exit_code::kSignalBase + SIGTERM};

namespace {

Value exit_code_rule(const char* action, const char* op, const std::vector<int>& codes) {
    std::vector<Value> values;
    for (const int code : codes)
        values.push_back(number_leaf(code));
    return MapNode()
        .text("action", action)
        .add("onExitCodes", MapNode()
                                .text("containerName", kContainer)
                                .text("operator", op)
                                .add("values", list_node(std::move(values))));
}

/// Evicted, preempted, or its node was taken away.
Value disruption_rule() {
    return MapNode()
        .text("action", "Ignore")
        .add("onPodConditions",
             list_node({MapNode().text("type", "DisruptionTarget").text("status", "True")}));
}

/// A pod that was lost for good never succeeds: pod 0 speaks for the job, or so many that they were
/// not all taken out while it ran (autolaunch drain ends a node's agent with 0).
Value success_policy(const PodFacts& facts) {
    return MapNode().add(
        "rules", list_node({MapNode().text("succeededIndexes", "0"),
                            MapNode().number("succeededCount", facts.pods - facts.least + 1)}));
}

}  // namespace

int failures_of_retries(const PodFacts& facts) {
    const int tries = facts.retries + (facts.may_lose_pods() ? 1 : 0);
    return tries * facts.pods;
}

void add_failure_policy(MapNode& job, const PodFacts& facts, int limit) {
    std::vector<int> retried = kCountedCodes;
    retried.insert(retried.begin() + 3, exit_code::kRequeue);
    job.number("backoffLimit", limit)
        .add(
            "podFailurePolicy",
            MapNode().add("rules", list_node({disruption_rule(),
                                              exit_code_rule("Ignore", "In", {exit_code::kRequeue}),
                                              exit_code_rule("FailJob", "NotIn", retried)})))
        .text("podReplacementPolicy", "Failed");
    if (facts.may_lose_pods())
        job.add("successPolicy", success_policy(facts));
}

}  // namespace autolaunch::launcher
