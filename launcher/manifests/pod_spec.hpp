#pragma once
#include "manifests/pod_facts.hpp"

#include <string>

namespace autolaunch::launcher {

/// The spec as the pods find it: everything included, overridden and replaced, without what is for
/// the submission, with the paths and times of the pods. Reading it gives what was read here.
/// Secrets are files of kSecretsFolder.
std::string spec_of_pods(const SpecResult& read, const PodFacts& facts);

/// The command that each pod runs.
std::vector<std::string> command_of_pods(const JobSpec& spec, const PodFacts& facts);

}  // namespace autolaunch::launcher
