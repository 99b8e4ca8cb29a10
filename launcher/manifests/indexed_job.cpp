#include "manifests/jobs.hpp"
#include "manifests/pod_failures.hpp"
#include "manifests/pod_template.hpp"

#include <chrono>

namespace autolaunch::launcher {

namespace {

/// Pods are found before they are ready: they are ready once they have met.
Value headless_service(const JobSpec& spec, const PodFacts& facts) {
    const MapNode service =
        MapNode()
            .text("clusterIP", "None")
            .boolean("publishNotReadyAddresses", true)
            .add("selector", MapNode().text("batch.kubernetes.io/job-name", facts.name));
    return MapNode()
        .text("apiVersion", "v1")
        .text("kind", "Service")
        .add("metadata", metadata_of(spec, facts, facts.name))
        .add("spec", service);
}

}  // namespace

MapNode admitted_metadata(const JobSpec& spec, const PodFacts& facts) {
    JobSpec labelled = spec;
    if (!spec.kubernetes.queue.empty())
        labelled.kubernetes.labels["kueue.x-k8s.io/queue-name"] = spec.kubernetes.queue;
    return metadata_of(labelled, facts, facts.name);
}

Value job_spec_node(const JobSpec& spec, const PodFacts& facts, int limit,
                    const std::string& subdomain) {
    const KubernetesSpec& pods = spec.kubernetes;
    MapNode job;
    job.text("completionMode", "Indexed")
        .number("completions", facts.pods)
        .number("parallelism", facts.pods);
    add_failure_policy(job, facts, limit);
    if (pods.active_deadline.count() > 0)
        job.number("activeDeadlineSeconds",
                   std::chrono::ceil<std::chrono::seconds>(pods.active_deadline).count());
    job.add("template", pod_template(spec, facts, {.subdomain = subdomain}));
    return job;
}

std::vector<Value> indexed_job(const JobSpec& spec, const PodFacts& facts) {
    Value job = job_spec_node(spec, facts, failures_of_retries(facts), facts.name);
    if (spec.kubernetes.ttl.count() > 0)
        job.entries.insert(
            job.entries.begin() + 3,
            Entry{
                "ttlSecondsAfterFinished",
                {},
                number_leaf(std::chrono::ceil<std::chrono::seconds>(spec.kubernetes.ttl).count())});
    const MapNode object = MapNode()
                               .text("apiVersion", "batch/v1")
                               .text("kind", "Job")
                               .add("metadata", admitted_metadata(spec, facts))
                               .add("spec", job);
    return {headless_service(spec, facts), object};
}

}  // namespace autolaunch::launcher
