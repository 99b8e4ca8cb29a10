#pragma once
#include "manifests/pod_facts.hpp"

namespace autolaunch::launcher {

/// What of the spec is not carried over, and what a user would not see in the objects: a sentence
/// each.
void note_pods(const ManifestRequest& request, const PodFacts& facts, Manifests& result);

}  // namespace autolaunch::launcher
