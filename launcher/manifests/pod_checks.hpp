#pragma once
#include "manifests/pod_facts.hpp"

namespace autolaunch::launcher {

/// What the objects need and the spec lacks, or has in a form that Kubernetes refuses: each at the
/// line of its key, with what to write.
void check_pods(const ManifestRequest& request, const PodFacts& facts, Manifests& result);

}  // namespace autolaunch::launcher
