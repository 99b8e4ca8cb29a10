#pragma once
#include "spec/value.hpp"

#include <vector>

namespace autolaunch::launcher {

/// Paths of storage, checkpoint, monitoring and trainer that a shell would read otherwise than we
/// do, or that are none: a folder called "~" or "$HOME" is what nobody meant. Pure.
void check_paths(const Value& root, std::vector<SpecError>& errors);

}  // namespace autolaunch::launcher
