#pragma once
#include "spec/job_spec.hpp"
#include "spec/value.hpp"

#include <vector>

namespace autolaunch::launcher {

/// The section `pipeline`: stages with a name, a spec and what they come after. `stages` becomes a
/// list in which each stands behind those that it comes after, in the file's order else. What is
/// wrong, a circle too, goes to `errors`. Pure.
void read_pipeline(const Value& section, std::vector<StageSpec>& stages,
                   std::vector<SpecError>& errors);

}  // namespace autolaunch::launcher
