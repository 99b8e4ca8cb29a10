#pragma once
#include <string>

namespace autolaunch::launcher {

/// Options of `autolaunch doctor`, as given.
struct DoctorOptions {
    std::string only, skip;  ///< names of checks, with commas
    std::string container;   ///< an image, or spec; empty: the node is looked at
    std::string folders;     ///< paths, with commas
    std::string fail_on = "fail";
    bool health_check = false, drain = false, standalone = false;
};

}  // namespace autolaunch::launcher
