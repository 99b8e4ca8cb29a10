#pragma once
#include "manifests/manifests.hpp"

#include <map>
#include <string>

namespace autolaunch::launcher {

/// The objects of Kubernetes that run this spec, whose reading went without errors: YAML to stdout,
/// what is not carried over to stderr. What the spec lacks for that goes to stderr alone, with exit
/// code 65. `earlier_run`: a run directory whose saves tell how long pods may take to end; or
/// empty. Throws Error where it has none. Blocks as the disk does.
int print_manifest(const SpecResult& read, ManifestKind kind, const std::string& earlier_run,
                   const std::map<std::string, std::string>& environment);

}  // namespace autolaunch::launcher
