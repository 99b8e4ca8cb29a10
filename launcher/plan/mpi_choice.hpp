#pragma once
#include <string>

namespace autolaunch::launcher {

/// How the ranks' MPI library learns who they are.
enum class MpiMode {
    none,
    pmix,
    pmi1,
    offered,  ///< both, from the moment at which a rank asks for one
};

/// As trainer.mpi and the plan write it.
constexpr const char* mpi_mode_name(MpiMode mode) {
    switch (mode) {
        case MpiMode::pmix:
            return "pmix";
        case MpiMode::pmi1:
            return "pmi1";
        case MpiMode::offered:
            return "offered";
        case MpiMode::none:
            break;
    }
    return "none";
}

struct MpiChoice {
    MpiMode mode = MpiMode::none;
    bool asked_for = false;  ///< the user named it
    std::string reason = "not decided";
};

}  // namespace autolaunch::launcher
