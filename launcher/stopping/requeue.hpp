#pragma once
#include "allocation/allocation.hpp"
#include "stopping/slurm_job_record.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// Of a Slurm job, as `scontrol requeue` has to be told it: of an array the element (asked for its
/// number, Slurm would requeue the whole array where it is the last one), of a heterogeneous job
/// the leader, which takes its components along. Empty outside Slurm. Pure.
std::string requeue_name(const EnvironmentMap& environment);

/// What `scontrol show config` says of job exit codes.
struct RequeueSettings {
    bool by_exit_code = false;  ///< RequeueExit or RequeueExitHold holds 75
    std::string which;          ///< that setting, as it is written: "RequeueExit = 75"
};
/// Pure.
RequeueSettings parse_requeue_settings(std::string_view config, int exit_code);

/// By what `scontrol show config` says of SlurmdTimeout: in so long Slurm has noticed that a node
/// is gone. Pure.
std::chrono::seconds time_to_notice(std::string_view config);

/// Where slurmd of a node is heard.
struct SlurmDaemon {
    std::string node, address;
    std::uint16_t port = 0;  ///< 0: unknown
    bool operator==(const SlurmDaemon&) const = default;
};
/// By what `scontrol show node -o` and `scontrol show config` say. Pure.
std::vector<SlurmDaemon> slurm_daemons(std::string_view answer, std::string_view config);

struct RequeueChoice {
    bool act = false;
    std::string why;  ///< a sentence for the screen, in either case
};

/// Whether the head is to requeue the job, which ended with 75 and whose spec wants it. Nothing for
/// what could not be learned. Pure.
RequeueChoice choose_requeue(const std::optional<SlurmJobRecord>& record,
                             const std::optional<RequeueSettings>& settings, int restarts,
                             const std::string& name);

struct RequeueRequest {
    bool wanted = false;                            ///< slurm_config.requeue
    int exit_code = 0;                              ///< of the job
    int restarts = 0;                               ///< SLURM_RESTART_COUNT
    std::map<std::string, std::string> unfit = {};  ///< nodes that it must not get again, and why
    std::set<std::string> lost = {};                ///< nodes that were lost in this start of it
};
/// Asks Slurm, and does it, without the nodes that are unfit, where slurm_config.requeue says so
/// and the job ended with 75: after everything else, for it ends the job's processes, ours too.
/// `say` shows a line, and has written it when it returns. Blocks: 40 s at most; where Slurm takes
/// lost nodes back in no other way, until it has noticed them itself (SlurmdTimeout, 10.5 min at
/// most).
void requeue_if_wanted(const RequeueRequest& request, const EnvironmentMap& environment,
                       const std::function<void(const std::string& line)>& say);

}  // namespace autolaunch::launcher
