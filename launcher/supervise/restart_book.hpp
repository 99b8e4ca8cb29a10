#pragma once
#include "plan/launch_plan.hpp"
#include "restart_policy/decision.hpp"
#include "restart_policy/node_fitness.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace autolaunch::launcher {

/// The job's restarts: decides on each, and keeps them in RUN_DIR/restarts.json, so that budgets
/// are the job's over requeues; and with them which nodes are unfit, and whether there is a
/// checkpoint. A job of another run_id in the same folder begins anew.
///
/// Owner: JobSupervisor, on the head. Threads: one. Blocks: on the file system.
class RestartBook {
public:
    /// Throws RunDirectoryError where the file is there and cannot be read.
    explicit RestartBook(const LaunchPlan& plan);

    Decision decide(const Situation& situation) const;
    const RestartHistory& history() const { return history_; }
    /// What the head before has known when the newest generation began: a folder of this machine
    /// alone may not have it. What was saved since then only the file can tell.
    void adopt(const RestartHistory& history);
    /// By name, with the reason.
    std::map<std::string, std::string> unfit_nodes() const {
        return launcher::unfit_nodes(history_);
    }
    bool has_checkpoint() const { return history_.checkpoint_step.has_value(); }
    /// It was done. Returns why it could not be written down; empty: it was. So do the others.
    std::string note(const Decision& decision);
    /// A node was lost. Written with the next of the others: of a thousand nodes at once, one word
    /// each would be as many files.
    void remember_lost(const std::string& node);
    /// Checks found these nodes unfit, by name with the reason.
    std::string note_unfit(const std::map<std::string, std::string>& found);
    std::string note_taken_back(const std::string& node);
    /// A checkpoint of that step was published.
    std::string note_checkpoint(std::int64_t step);

private:
    std::string write() const;

    const LaunchPlan& plan_;
    std::filesystem::path path_;
    RestartHistory history_;
};

/// Of the run's restarts.json, for the requeue of a job that is over: which nodes it must not get
/// again, with the reason. Empty where there is no such file, or it cannot be read (its next start
/// says so).
std::map<std::string, std::string> nodes_to_exclude(const std::string& run_dir,
                                                    const std::string& run_id);

/// The same: which were lost since then.
std::set<std::string> nodes_lost_since(const std::string& run_dir, const std::string& run_id,
                                       std::chrono::system_clock::time_point since);

/// A checkpoint was published by some start of the run. False where it is not known.
bool has_saved(const std::string& run_dir, const std::string& run_id);

/// Of a job that is over, or waits: `node` may be used by its next start, whatever was found of it.
/// False: it was not left out. Throws RunDirectoryError where a head runs in the folder, or the
/// file is damaged.
bool take_back(const std::string& run_dir, const std::string& run_id, const std::string& node);

}  // namespace autolaunch::launcher
