#include "exit_codes/exit_codes.hpp"
#include "manifests/jobs.hpp"
#include "manifests/pod_failures.hpp"
#include "manifests/pod_template.hpp"

#include <chrono>
#include <cstdint>
#include <limits>
#include <utility>

namespace autolaunch::launcher {

namespace {

Value policy(const char* event, const char* action) {
    return MapNode().text("event", event).text("action", action);
}

/// Volcano has one count for all that begins anew: with none, 75 and evictions may do so as often
/// as they come, and nothing else does. Each is asked in this order.
int counted_restarts(const JobSpec& spec) { return spec.kubernetes.retries.value_or(0); }

Value begins_anew(int code) {
    return MapNode().number("exitCode", code).text("action", "RestartJob");
}

/// Where the job can do without a lost pod, nothing follows from its end.
Value policies_of(const JobSpec& spec, const PodFacts& facts) {
    std::vector<Value> policies = {begins_anew(exit_code::kRequeue)};
    if (!facts.may_lose_pods()) {
        if (counted_restarts(spec) > 0)
            for (const int code : kCountedCodes)
                policies.push_back(begins_anew(code));
        policies.push_back(policy("PodEvicted", "RestartJob"));
        policies.push_back(policy("PodFailed", "TerminateJob"));
    }
    policies.push_back(policy("TaskCompleted", "CompleteJob"));
    return list_node(std::move(policies));
}

/// 0 would be taken for Volcano's default.
std::int64_t most_restarts(const JobSpec& spec) {
    const int counted = counted_restarts(spec);
    return counted > 0 ? counted : std::numeric_limits<std::int32_t>::max();
}

}  // namespace

std::vector<Value> volcano_job(const JobSpec& spec, const PodFacts& facts) {
    const KubernetesSpec& pods = spec.kubernetes;
    const MapNode task = MapNode()
                             .text("name", kWorkers)
                             .number("replicas", facts.pods)
                             .number("minAvailable", facts.least)
                             .add("template", pod_template(spec, facts, {.deadline_here = true}));
    MapNode job;
    job.text("schedulerName", "volcano")
        .add_if_any("queue", text_leaf(pods.queue))
        .add_if_any("priorityClassName", text_leaf(pods.priority_class))
        .number("minAvailable", facts.least)
        .number("maxRetry", most_restarts(spec));
    if (pods.ttl.count() > 0)
        job.number("ttlSecondsAfterFinished",
                   std::chrono::ceil<std::chrono::seconds>(pods.ttl).count());
    job.add("plugins", MapNode()
                           .add("svc", text_list_node({"--publish-not-ready-addresses=true"}))
                           .add("env", list_node({})))
        .add("policies", policies_of(spec, facts))
        .add("tasks", list_node({task}));
    return {MapNode()
                .text("apiVersion", "batch.volcano.sh/v1alpha1")
                .text("kind", "Job")
                .add("metadata", metadata_of(spec, facts, facts.name))
                .add("spec", job)};
}

}  // namespace autolaunch::launcher
