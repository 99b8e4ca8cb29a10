#pragma once
#include "policy/job_claim.hpp"
#include "policy/user_groups.hpp"
#include "site/site_settings.hpp"

#include <functional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

struct PolicyVerdict {
    bool allowed = true;
    std::string decision;                 ///< one line for people; empty: there are no roles
    std::string hint;                     ///< of a refusal: what to ask for, and whom
    std::vector<std::string> notes;       ///< groups that do not exist, several roles
    std::vector<std::string> uncompared;  ///< limits that could not be, a line each
};

/// A user has the roles of his groups. A job is allowed by one role that allows all of it; of
/// several the widest is named (most GPUs, then time, then memory). Limits of different roles are
/// not combined, as a job of Slurm has one QoS. root has no limits. Pure but for `exists`.
PolicyVerdict judge_claim(const SiteSettings& settings, const JobUser& user, const JobClaim& claim,
                          const std::function<bool(const std::string& group)>& exists);

/// The same of one action alone, such as export.
PolicyVerdict judge_action(const SiteSettings& settings, const JobUser& user,
                           const std::string& action);

}  // namespace autolaunch::launcher
