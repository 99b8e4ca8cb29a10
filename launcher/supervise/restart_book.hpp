#pragma once
#include "plan/launch_plan.hpp"
#include "restart_policy/decision.hpp"
#include "restart_policy/node_fitness.hpp"

#include <filesystem>
#include <map>
#include <string>

namespace autolaunch::launcher {

/// The job's restarts: decides on each, and keeps them in RUN_DIR/restarts.json, so that budgets
/// are the job's over requeues. A job of another run_id in the same folder begins anew.
///
/// Owner: JobSupervisor, on the head. Threads: one. Blocks: on the file system.
class RestartBook {
public:
    /// Throws RunDirectoryError where the file is there and cannot be read.
    explicit RestartBook(const LaunchPlan& plan);

    Decision decide(const Situation& situation) const;
    const RestartHistory& history() const { return history_; }
    /// What the head before has known: a folder of this machine alone may not have it.
    void adopt(const RestartHistory& history) { history_ = history; }
    /// By name, with the reason.
    std::map<std::string, std::string> unfit_nodes() const {
        return launcher::unfit_nodes(history_);
    }
    /// It was done. Returns why it could not be written down; empty: it was.
    std::string note(const Decision& decision);

private:
    const LaunchPlan& plan_;
    std::filesystem::path path_;
    RestartHistory history_;
};

/// Of the run's restarts.json, for the requeue of a job that is over: which nodes it must not get
/// again, with the reason. Empty where there is no such file, or it cannot be read (its next start
/// says so).
std::map<std::string, std::string> nodes_to_exclude(const std::string& run_dir,
                                                    const std::string& run_id);

}  // namespace autolaunch::launcher
