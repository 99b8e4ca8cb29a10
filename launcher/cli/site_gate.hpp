#pragma once
#include "allocation/allocation.hpp"
#include "plan/launch_plan.hpp"
#include "policy/job_site.hpp"
#include "run/run.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What the administrator's file has to say of this job when it starts: as plain words in
/// `record`, which plan.json shows, and as a gate that throws Forbidden. `tell` gets a line for
/// each limit that could not be compared, `decided` the verdict that counts. The gate refers to
/// `site`.
StartGate gate_of(const JobSite& site, const JobSpec& spec, std::shared_ptr<SiteRecord> record,
                  const EnvironmentMap& environment, std::function<void(const std::string&)> tell,
                  std::function<void(const PolicyVerdict&)> decided = {});

/// The same of a plan: the nodes and GPUs that it has, the time limit that the spec has.
PolicyVerdict judge_plan(const JobSite& site, const LaunchPlan& plan,
                         const EnvironmentMap& environment);

/// What the settings that hold for the job make of its spec: who opens its checkpoints, who is told
/// of what, and whether Kerberos counts. What is wrong goes to `errors`. Blocks as the disk does.
void settle_with_site(JobSpec& spec, const Value& checkpoint_section, const JobSite& site,
                      std::vector<SpecError>& errors);

/// One line that names the keys of the job's own files which this version does not act on; empty:
/// there are none.
std::string not_acted_on(const SiteRecord& record);

/// `text`, which is validate's JSON, with the record as its `site`.
std::string with_site(const std::string& text, const SiteRecord& record);

}  // namespace autolaunch::launcher
