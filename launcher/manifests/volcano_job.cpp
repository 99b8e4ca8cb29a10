#include "exit_codes/exit_codes.hpp"
#include "manifests/jobs.hpp"
#include "manifests/pod_template.hpp"

#include <chrono>
#include <limits>

namespace autolaunch::launcher {

namespace {

Value policy(const char* event, const char* action) {
    return MapNode().text("event", event).text("action", action);
}

/// 75 begins anew, and so does an eviction, where the job cannot go on without the pod. Else the
/// job ends: nothing tells Volcano a lost node from a program that fails.
Value policies_of(const PodFacts& facts) {
    std::vector<Value> policies = {
        MapNode().number("exitCode", exit_code::kRequeue).text("action", "RestartJob")};
    if (!facts.may_lose_pods()) {
        policies.push_back(policy("PodEvicted", "RestartJob"));
        policies.push_back(policy("PodFailed", "TerminateJob"));
    }
    policies.push_back(policy("TaskCompleted", "CompleteJob"));
    return list_node(std::move(policies));
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
        .number("maxRetry", std::numeric_limits<std::int32_t>::max());
    if (pods.ttl.count() > 0)
        job.number("ttlSecondsAfterFinished",
                   std::chrono::ceil<std::chrono::seconds>(pods.ttl).count());
    job.add("plugins", MapNode()
                           .add("svc", text_list_node({"--publish-not-ready-addresses=true"}))
                           .add("env", list_node({})))
        .add("policies", policies_of(facts))
        .add("tasks", list_node({task}));
    return {MapNode()
                .text("apiVersion", "batch.volcano.sh/v1alpha1")
                .text("kind", "Job")
                .add("metadata", metadata_of(spec, facts, facts.name))
                .add("spec", job)};
}

}  // namespace autolaunch::launcher
