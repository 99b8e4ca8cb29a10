#pragma once
#include "manifests/manifests.hpp"
#include "spec/job_spec.hpp"

#include <vector>

namespace autolaunch::launcher {

/// Secrets that the pods cannot have as the spec says, with what to write; and what of the spec
/// would itself be a secret in a ConfigMap.
void check_pod_secrets(const SpecResult& read, Manifests& result);

}  // namespace autolaunch::launcher
