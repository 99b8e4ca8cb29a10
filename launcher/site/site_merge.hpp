#pragma once
#include "site/site_settings.hpp"

#include <vector>

namespace autolaunch::launcher {

/// What holds for a job: the administrator's settings, with those of the job's spec that are
/// tighter in their place, and those that the administrator leaves open added. A job's value that
/// is looser is an error at its own line, which names the administrator's. Pure.
SiteSettings tighten(const SiteSettings& site, const SiteSettings& job,
                     std::vector<SpecError>& errors);

}  // namespace autolaunch::launcher
