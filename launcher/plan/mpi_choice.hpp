#pragma once
#include <string>

namespace autolaunch::launcher {

/// How the ranks' MPI library learns who they are.
enum class MpiMode { none, pmix, pmi1 };

/// As trainer.mpi and the plan write it.
constexpr const char* mpi_mode_name(MpiMode mode) {
    return mode == MpiMode::pmix ? "pmix" : mode == MpiMode::pmi1 ? "pmi1" : "none";
}

struct MpiChoice {
    MpiMode mode = MpiMode::none;
    bool asked_for = false;  ///< the user named it
    std::string reason = "not decided";
};

}  // namespace autolaunch::launcher
