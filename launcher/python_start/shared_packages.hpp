#pragma once
#include "hand_over/hand_over.hpp"
#include "plan/launch_plan.hpp"

#include <functional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What the interpreter and its ranks see in the place of files on the shared file system.
struct PackageCopies {
    std::string folder;                 ///< that has all of them
    std::vector<HandOver::Copy> files;  ///< those in pieces by a name without a '/'
    int door = -1;                      ///< to hand the mount of files in pieces in at
    /// Whether files in pieces are not to be had any more; may be empty.
    std::function<bool()> has_lost_pieces = {};
};

/// What a job with trainer.preload_from: node wants to have handed over, of what the record of an
/// earlier run lists; or why nothing. Tries whether copies can be mounted here. Blocks: some
/// milliseconds.
HandOver::Wanted wanted_packages(const LaunchPlan& plan);

/// Of what has come.
PackageCopies copies_of(const HandOver& handed, const std::string& cache);

/// Where copies are without trainer.preload_cache: "/var/tmp/autolaunch-1000".
std::string default_package_cache();

/// Where they are in this job.
std::string package_cache(const LaunchPlan& plan);

/// Why copies in this folder cannot be mounted over files by this user here, or files in pieces
/// cannot; empty: they can. Blocks: some milliseconds.
std::string why_not_mounted(const std::string& folder);
std::string why_no_pieces(const std::string& folder);

}  // namespace autolaunch::launcher
