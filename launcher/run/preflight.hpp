#pragma once
#include "doctor/node_sources.hpp"
#include "rendezvous/join.hpp"
#include "run/node_tasks.hpp"
#include "spec/job_spec.hpp"

#include <asio/io_context.hpp>

#include <optional>

namespace autolaunch::launcher {

/// What the checks of this node look at, for a job of these nodes.
NodeSources sources_of_job(const JobSpec& spec, const Joined& joined, const NodeTasks& tasks,
                           const EnvironmentMap& environment);

/// rendezvous.preflight: the doctor's checks, and the comparison of nodes, of a job that has met
/// and not begun. Nothing: the job may begin; warnings, and failures that are not to stop it, are
/// among the join's, on the head. Else it has ended everywhere, the head has said why, and this is
/// the exit code. Blocks: about a second; 15 s at most.
std::optional<int> preflight(asio::io_context& io, Joined& joined, const JobSpec& spec,
                             const NodeTasks& tasks, const EnvironmentMap& environment,
                             int cancel_fd);

}  // namespace autolaunch::launcher
