#pragma once
#include "spec/spec.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// `read`, of a spec with a section `sweep`, as the one element that this start is of: by
/// sweep.element or SLURM_ARRAY_TASK_ID. What `autolaunch submit` has stored for it is read in
/// place of the sweep's own spec. Without a number it is an error, of `plan` the first one. `notes`
/// gets which it is. Reads files.
SpecResult choose_element(const SpecRequest& asked, SpecResult read, bool plans,
                          std::vector<std::string>& notes);

}  // namespace autolaunch::launcher
