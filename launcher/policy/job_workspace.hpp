#pragma once
#include "policy/job_site.hpp"
#include "spec/job_spec.hpp"
#include "spec/spec_error.hpp"

#include <vector>

namespace autolaunch::launcher {

/// The spec's `workspace` as it can be on this node, under the administrator's data_isolation: its
/// group gets its number. A group that is not there or none of the user's, and a mode that lets in
/// more than the administrator does, go to `errors`. Blocks as the system's databases do.
void settle_workspace(JobSpec& spec, const JobSite& site, std::vector<SpecError>& errors);

}  // namespace autolaunch::launcher
