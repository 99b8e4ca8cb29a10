#pragma once
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// One key of the administrator's file, or of the sections that a job's spec shares with it, as it
/// holds for this job (docs/site.md).
struct SiteKey {
    std::string key;    ///< "data_security.audit_logging"
    std::string value;  ///< as written; *** for a secret
    std::string file;   ///< that it came from
    int line = 0;
    std::string enforced_by;  ///< Slurm, the kernel, autolaunch, nobody
    std::string state;        ///< holds, does not hold, unknown, not acted on
    std::string why;          ///< by what it holds, or the line to change, in words
};

/// What the administrator's file and the job's own sections come to: plain words, for `plan`,
/// `validate` and the run's plan.json. The launch itself decides nothing by them.
struct SiteRecord {
    std::string file;                ///< the administrator's; empty: there is none
    std::vector<SiteKey> keys;       ///< in the order of docs/site.md
    std::string decision;            ///< of the roles on this request; empty: there are none
    std::vector<std::string> notes;  ///< a group that does not exist, what was not compared
};

}  // namespace autolaunch::launcher
