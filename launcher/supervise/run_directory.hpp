#pragma once
#include "base/owned_folder.hpp"
#include "exit_codes/exit_error.hpp"
#include "plan/launch_plan.hpp"

#include <filesystem>
#include <string>

namespace autolaunch::launcher {

/// The run directory cannot be made or written: exit code 73.
class RunDirectoryError : public ExitError {
public:
    RunDirectoryError(ErrorCode code, const std::string& what, std::string hint = {})
        : ExitError(exit_code::kCannotCreate, code, what, std::move(hint)) {}
};

/// Another autolaunch runs in it.
class RunDirectoryInUse : public RunDirectoryError {
public:
    using RunDirectoryError::RunDirectoryError;
};

/// A run directory that is there, locked against a head until the end of what is returned. Throws
/// RunDirectoryInUse where one runs in it.
OwnedFolder lock_run_directory(const std::filesystem::path& path);

/// The folder of one job: plan.json, trainer_config.json, events.jsonl and generation-G/rank-R/ for
/// each rank. It is made 0750 and its logs 0640 (less the umask), or as the spec's `workspace`
/// says, so that colleagues of the group can read them and the world cannot; plan.json and
/// trainer_config.json are 0600, for they may hold keys. A folder that is there already must be the
/// user's own (base/owned_folder.hpp), and keeps its mode; none may be below one that everybody may
/// write to (base/workspace.hpp).
///
/// A folder that an earlier attempt left (a requeued job) is gone on with: its generations keep
/// their numbers, ours follow. A lock keeps a second autolaunch out.
///
/// Every node has the folder, which may be one on a shared file system or one on each. Lock and
/// numbers are the head's business. The others write under names of their own (plan.node-K.json,
/// events.node-K.jsonl); what all write alike (trainer_config.json) each puts there whole, by
/// rename.
///
/// Owner: the agent. Threads: one. Blocks: on the file system.
class RunDirectory {
public:
    /// Makes it, and on the head `latest` beside it when the job did not name its folder. Throws
    /// RunDirectoryError.
    explicit RunDirectory(const LaunchPlan& plan);

    std::filesystem::path log_of_head() const { return path_ / "events.jsonl"; }
    /// That the folder was there and lets in more than a new one would; empty: it does not.
    const std::string& note() const { return note_; }

    std::filesystem::path events_path() const { return path_ / ("events" + role_ + ".jsonl"); }
    /// This node's agent is head from now on: what the head writes is its. Its lock it has not; the
    /// next number that no generation has used is first_generation().
    void become_head();
    /// It is no more: what it writes is its own.
    void become_member() { role_ = ".node-" + std::to_string(node_); }
    std::filesystem::path trainer_config_path() const { return path_ / "trainer_config.json"; }
    /// The number of the next generation that nobody has used here; on the head.
    int first_generation() const { return first_generation_; }

    /// The plan of a generation that has fewer nodes than the one before. Throws SystemError.
    void keep_plan(const LaunchPlan& plan) const;
    /// exit.json, or exit.node-K.json. Throws SystemError.
    void keep_certificate(const std::string& text) const {
        folder_.replace("exit" + role_ + ".json", text);
    }

    /// gpu-time.json; on the head. Throws SystemError.
    void keep_gpu_time(const std::string& text) const { folder_.replace("gpu-time.json", text); }

    /// head.json, by which this user's programs find the head. Throws RunDirectoryError.
    void keep_head(const std::string& text) const;
    static constexpr const char* kHeadFile = "head.json";

private:
    void prepare(const LaunchPlan& plan);
    void look_at_mode(const WorkspaceSpec& wanted);

    std::filesystem::path path_;
    int node_;
    std::string suffix_;  ///< of the names of this node's own files: ".node-K", empty on node 0
    std::string role_;    ///< the same of what the head writes: empty on the head
    OwnedFolder folder_;  ///< locked, on the head
    int first_generation_ = 0;
    std::string note_;
};

}  // namespace autolaunch::launcher
