#pragma once
#include "doctor/node_sources.hpp"
#include "doctor/verdict.hpp"
#include "rendezvous/join.hpp"
#include "run/node_tasks.hpp"
#include "spec/job_spec.hpp"

#include <asio/io_context.hpp>

#include <map>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// What the checks of this node look at, for a job of these nodes.
NodeSources sources_of_job(const JobSpec& spec, const Joined& joined, const NodeTasks& tasks,
                           const EnvironmentMap& environment);

struct PreflightOutcome {
    std::optional<int> exit_code = {};              ///< the job does not begin
    std::map<std::string, std::string> unfit = {};  ///< nodes that it begins without, and why
};

/// Of the nodes that the verdict finds failures of those that the job can begin without, with the
/// reason: none where there is one that it needs, or where the spec says that all are needed. Pure.
std::map<std::string, std::string> nodes_to_leave_out(const Verdict& verdict, const JobSpec& spec,
                                                      const Roster& roster);

/// rendezvous.preflight: the doctor's checks, and the comparison of nodes, of a job that has met
/// and not begun. Without an exit code the job may begin; warnings, and failures that are not to
/// stop it, are among the join's, on the head. Else it has ended everywhere, and the head has said
/// why. Blocks: about a second; 15 s at most.
PreflightOutcome preflight(asio::io_context& io, Joined& joined, const JobSpec& spec,
                           const NodeTasks& tasks, const EnvironmentMap& environment,
                           int cancel_fd);

}  // namespace autolaunch::launcher
