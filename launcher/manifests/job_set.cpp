#include "manifests/jobs.hpp"
#include "manifests/pod_failures.hpp"

#include <chrono>

namespace autolaunch::launcher {

namespace {

/// What its Job gives up at once, the JobSet does not begin anew.
Value jobset_failures(const PodFacts& facts) {
    const MapNode rule = MapNode()
                             .text("name", "programfailed")
                             .text("action", "FailJobSet")
                             .add("onJobFailureReasons", text_list_node({"PodFailurePolicy"}));
    return MapNode().number("maxRestarts", facts.retries).add("rules", list_node({rule}));
}

}  // namespace

// The JobSet begins anew with all pods once all of one try have failed; fewer come back one by one.
std::vector<Value> job_set(const JobSpec& spec, const PodFacts& facts) {
    const int limit = facts.may_lose_pods() ? failures_of_retries(facts)
                      : facts.retries > 0   ? facts.pods - 1
                                            : 0;
    const MapNode replicated =
        MapNode()
            .text("name", kWorkers)
            .number("replicas", 1)
            .add("template", MapNode().add("spec", job_spec_node(spec, facts, limit, "")));
    MapNode set;
    set.add("network",
            MapNode().boolean("enableDNSHostnames", true).boolean("publishNotReadyAddresses", true))
        .add("failurePolicy", jobset_failures(facts))
        .add("successPolicy", MapNode().text("operator", "All"));
    if (spec.kubernetes.ttl.count() > 0)
        set.number("ttlSecondsAfterFinished",
                   std::chrono::ceil<std::chrono::seconds>(spec.kubernetes.ttl).count());
    set.add("replicatedJobs", list_node({replicated}));
    return {MapNode()
                .text("apiVersion", "jobset.x-k8s.io/v1alpha2")
                .text("kind", "JobSet")
                .add("metadata", admitted_metadata(spec, facts))
                .add("spec", set)};
}

}  // namespace autolaunch::launcher
