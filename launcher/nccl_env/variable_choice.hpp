#pragma once
#include <string>

namespace autolaunch::launcher {

/// One environment variable and why it has its value.
struct VariableChoice {
    std::string name;
    std::string value;
    std::string reason;
    std::string source = {};  ///< where the rule or the value comes from: "rule", "profile oci",
                              ///< "/etc/nccl.conf:3", …
};

}  // namespace autolaunch::launcher
