#pragma once
#include "exit_codes/exit_error.hpp"
#include "policy/judge_claim.hpp"
#include "site/site_settings.hpp"
#include "spec/site_record.hpp"
#include "spec/value.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The roles of the administrator's file forbid it.
class Forbidden : public ExitError {
public:
    explicit Forbidden(const PolicyVerdict& verdict)
        : ExitError(exit_code::kNotPermitted, ErrorCode::invalid_argument, verdict.decision,
                    verdict.hint) {}
};

/// The administrator's file together with a job's own sections: read once, judged as often as more
/// of the job is known.
///
/// Owner: the command line. Threads: its owner's. Blocks: read() as the disk does; record() 5 s at
/// most, where Slurm is asked; judge() 30 s
/// at most, and throws ExitError(69) where the databases of users do not answer and a no would come
/// of it.
class JobSite {
public:
    enum class Slurm { ask, leave };

    /// `of_job`: SpecResult::site. What is looser there, or wrong, goes to `errors`. Throws
    /// ExitError where the administrator's file does not count.
    static JobSite read(const Value& of_job, std::vector<SpecError>& errors);

    /// Whether no file says anything.
    bool empty() const { return file_.empty() && settings_.settings.empty(); }
    bool has_roles() const { return settings_.has_roles(); }
    /// Whether the job's time limit is to be compared with anything.
    bool limits_time() const;
    const SiteSettings& settings() const { return settings_; }
    /// `recipients`: how many may open the job's checkpoints.
    std::shared_ptr<SiteRecord> record(Slurm slurm, std::size_t recipients) const;
    PolicyVerdict judge(const JobClaim& claim) const;

private:
    std::string file_;  ///< the administrator's; empty: there is none
    SiteSettings settings_;
};

void keep_verdict(const PolicyVerdict& verdict, SiteRecord& record);
/// Throws Forbidden where it is a no.
void require_allowed(const PolicyVerdict& verdict);

/// Whether this user may do what no job does, such as export. Throws Forbidden, and as
/// JobSite::read() does.
void require_action(const std::string& action);

}  // namespace autolaunch::launcher
