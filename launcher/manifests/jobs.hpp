#pragma once
#include "manifests/pod_facts.hpp"
#include "manifests/tree.hpp"

#include <vector>

namespace autolaunch::launcher {

// One a kind: the objects besides the ConfigMap.

/// A headless Service, by which pods find pod 0, and a Job whose pods have numbers.
std::vector<Value> indexed_job(const JobSpec& spec, const PodFacts& facts);
/// A JobSet, which makes the Service itself.
std::vector<Value> job_set(const JobSpec& spec, const PodFacts& facts);
/// A Job of Volcano, whose plugins svc and env tell each pod all of them.
std::vector<Value> volcano_job(const JobSpec& spec, const PodFacts& facts);

/// The spec of an indexed Job, of which `limit` pods may fail.
Value job_spec_node(const JobSpec& spec, const PodFacts& facts, int limit,
                    const std::string& subdomain);
/// The metadata of what Kueue admits: with its queue.
MapNode admitted_metadata(const JobSpec& spec, const PodFacts& facts);

}  // namespace autolaunch::launcher
