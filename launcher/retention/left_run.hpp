#pragma once
#include "retention/verdict.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// A run directory that is there, and what decides about it.
struct LeftRun {
    std::string folder, run_id = {};
    std::optional<int> exit_code =
        {};                    ///< of the job, by its last event; nothing: none is recorded
    std::string outcome = {};  ///< "succeeded", "stopped by SIGTERM"
    std::int64_t last_s = 0;   ///< its last event or change, seconds since 1970
    std::uint64_t bytes = 0, files = 0;
    bool is_running = false;     ///< an autolaunch holds it: a lock of the kernel's
    std::string of = {};         ///< whose it is; empty: ours
    std::string doubt = {};      ///< why nobody can say that no job runs in it; empty: none does
    std::string foreign = {};    ///< in it, and not written by autolaunch; empty: nothing
    std::string needed_by = {};  ///< a run directory whose job may go on from this one
    std::string why_unreadable = {};
    bool is_half = false;  ///< its removal was interrupted
};

/// Jobs in which state go.
enum class RunsThatGo { any, succeeded, failed };

struct RunRules {
    std::chrono::seconds older_than{0};
    RunsThatGo which = RunsThatGo::any;
};

/// The plan of a job that has not ended well, and may go on from what that names; empty: of another
/// one, and without a plan. Blocks: while it is read.
std::string plan_to_go_on(const LeftRun& run);
/// Whether a plan names `path`, or what is in it. Pure.
bool names(std::string_view plan, const std::string& path);

/// By who owns it, whether a job runs there or may go on from it, what is in it, how the job ended
/// and when; never by its name. What is not known stays. Pure.
RetentionVerdict judge_run(const LeftRun& run, std::int64_t now_s, const RunRules& rules);

/// Whether autolaunch itself writes that name into a run directory, or makes a folder of that name
/// there. Pure.
bool is_name_of_run(std::string_view name);

/// What Slurm says of a job: "RUNNING", "PENDING", …; "over"; nothing: no answer.
using AskSlurm = std::function<std::optional<std::string>(const std::string& job_id)>;
std::optional<std::string> ask_slurm(const std::string& job_id);

/// The run directories among these folders: each itself, or those that lie in it. One that is not
/// there is an error, one that cannot be read is in the list. Throws SystemError. Blocks: on the
/// file system, and for Slurm, 15 s a job at most, of jobs that are not known to have ended.
std::vector<LeftRun> find_runs(const std::vector<std::string>& folders, const AskSlurm& ask);

/// Removes it with all it holds, unless a job has come to it meanwhile: false. First it goes to
/// `.autolaunch-gone` beside it, a folder that nobody else may open: one that is killed meanwhile
/// leaves a whole run, or a half one there, which find_runs() finds. Throws SystemError.
bool remove_run(const LeftRun& run);

}  // namespace autolaunch::launcher
