#pragma once
#include <string>

namespace autolaunch::launcher {

/// How the ranks' MPI library learns who they are.
enum class MpiMode { none, pmix, pmi1 };

struct MpiChoice {
    MpiMode mode = MpiMode::none;
    bool asked_for = false;  ///< the user named it
    std::string reason;      ///< "it needs libmpi.so.40"
};

}  // namespace autolaunch::launcher
