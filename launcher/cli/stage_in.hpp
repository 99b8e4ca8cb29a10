#pragma once
#include "cli/options.hpp"
#include "site/site_settings.hpp"
#include "spec/job_spec.hpp"

namespace autolaunch::launcher {

/// Of a job what brings its data to the nodes, and nothing else of it: one process a node, which
/// ends at once. Throws ExitError: 65 where it stages nothing, 78 where --shared is asked for and
/// the site has no shared cache, 65 where it would be of what not everybody may read. Pure.
JobSpec staging_alone(const JobSpec& job, const StageInOptions& options, const SiteSettings& site);

}  // namespace autolaunch::launcher
