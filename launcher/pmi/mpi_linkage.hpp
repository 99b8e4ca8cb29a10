#pragma once
#include "plan/launch_plan.hpp"
#include "plan/mpi_choice.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// The MPI that a program is linked with.
struct MpiLinkage {
    MpiMode mode = MpiMode::none;
    std::string library;  ///< "libmpi.so.40"
    bool through_libautolaunch =
        false;  ///< only libautolaunch's communicators need it: they start it when they use it
};

/// The interface that an MPI library of this name speaks; offered where any MPI may be behind the
/// name, none for every other library.
MpiMode mode_of_library(std::string_view name);

/// Follows what the program needs, and what that needs, a bounded number of steps, in the folders
/// where the rank's loader would look. Scripts are linked with nothing. Reads the disk.
MpiLinkage find_mpi_linkage(const std::string& program,
                            const std::vector<std::string>& environment);

/// What is known when the mode is chosen.
struct MpiFacts {
    std::string setting = "auto";  ///< trainer.mpi
    std::string backend = {};      ///< distributed.backend
    bool several_nodes = false;
    bool several_ranks = true;
    bool has_pmixd = true;
    MpiLinkage linkage = {};
};

/// Pure; docs/mpi.md has the rules.
MpiChoice choose_mpi(const MpiFacts& facts);

/// A program of several that are one job, and what it would get alone.
struct ProgramMpi {
    std::string name;
    MpiChoice choice;
};

/// What all of them get, at least one: where they differ, whatever they ask for. Pure.
MpiChoice choose_mpi_together(const std::vector<ProgramMpi>& programs);

/// Why they cannot be one MPI job; empty: they may be. Pure.
std::string find_mpi_conflict(const std::vector<ProgramMpi>& programs);

/// For a plan that is complete but for this. Looks at the file of each program on this node.
/// `environment` is the launcher's own.
void plan_mpi(LaunchPlan& plan, const EnvironmentMap& environment);

}  // namespace autolaunch::launcher
