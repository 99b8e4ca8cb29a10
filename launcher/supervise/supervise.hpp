#pragma once
#include "base/unique_fd.hpp"
#include "plan/launch_plan.hpp"
#include "rank_services/coordinator.hpp"
#include "remains/job_remains.hpp"
#include "rendezvous/join.hpp"
#include "stopping/stranded.hpp"
#include "supervise/job_supervisor.hpp"
#include "supervise/node_supervisor.hpp"
#include "supervise/run_directory.hpp"

#include <asio/io_context.hpp>

#include <functional>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// A job that has met, was planned and has a folder: all that this node needs to run its part.
struct PreparedJob {
    const LaunchPlan& plan;
    RunDirectory& run_dir;
    Coordinator& coordinator;
    Joined& joined;
    SupervisorOutput output;
    StandIns* stand_ins =
        nullptr;  ///< the other tasks of this node, if the scheduler started one a rank
    AgentPulse* pulse = nullptr;  ///< for this node's keeper; null: none watches
    ShellJob shell = {};          ///< who started us, for a rank that has the terminal
    JobOrigin origin = {};
    JobTraces* traces = nullptr;  ///< what this node's part leaves to be looked for
    // NodeContext's:
    decltype(NodeContext::replan) replan = {};
    decltype(NodeContext::add_node) add_node = {};
    decltype(NodeContext::check) check = {};
    std::string door_path =
        {};  ///< the socket at which this user's programs ask the head; empty: none
    std::function<void()> keep_head = {};  ///< writes down where the head is; throws Error
    /// Filled where this agent leaves for want of a majority.
    std::optional<Stranded>* stranded = nullptr;
    /// Whose element the job is; null: it is none.
    const SweepSpec* sweep = nullptr;
};

/// Runs the job to its end: a NodeSupervisor on every node, on the head a JobSupervisor too. The
/// job's exit code. `keeper_gone` becomes readable when nobody waits for us any more; empty: nobody
/// ever did. `inherited` is what ranks start from. Threads: the main one. Blocks: until the job is
/// over.
int supervise(asio::io_context& io, const PreparedJob& job, UniqueFd keeper_gone,
              const Inheritance& inherited);

}  // namespace autolaunch::launcher
