#pragma once
#include <string>

namespace autolaunch::launcher {

/// How what ranks print gets into their logs.
struct OutputChoice {
    bool by_lines = false;               ///< what keeps lines back is asked to write them
    std::string preload;                 ///< the library that does so in C programs; empty: none
    std::string reason = "not decided";  ///< for the library, or against it
};

}  // namespace autolaunch::launcher
