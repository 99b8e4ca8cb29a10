#pragma once
#include "lint/rule.hpp"

namespace autolaunch::launcher {

/// Settings of NCCL of which one takes the effect of the other, where both hold for one program.
RuleHits nccl_opposites(const Subject& subject);

}  // namespace autolaunch::launcher
