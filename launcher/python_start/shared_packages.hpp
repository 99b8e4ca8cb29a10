#pragma once
#include "hand_over/hand_over.hpp"
#include "plan/launch_plan.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What the interpreter and its ranks see in the place of files on the shared file system.
struct PackageCopies {
    std::string folder;  ///< that has all of them
    std::vector<HandOver::Copy> files;
};

/// What a job with trainer.preload_from: node wants to have handed over, of what the record of an
/// earlier run lists; or why nothing. Tries whether copies can be mounted here. Blocks: some
/// milliseconds.
HandOver::Wanted wanted_packages(const LaunchPlan& plan);

/// Of what has come.
PackageCopies copies_of(const HandOver::Result& result);

/// Where copies are without trainer.preload_cache: "/var/tmp/autolaunch-1000".
std::string default_package_cache();

/// Why copies in this folder cannot be mounted over files by this user here; empty: they can.
std::string why_not_mounted(const std::string& folder);

}  // namespace autolaunch::launcher
