#pragma once
#include <chrono>

namespace autolaunch::session {

// A scheduler may signal every process of a job at once: ranks and the agent (Slurm does with
// ProctrackType=proctrack/linuxproc). What it wants, the agent hears and asks of the ranks; the
// same signal at a rank would only end it before it could do so. So a rank with an agent leaves
// such signals to it. A handler of the program, or that a signal is ignored, stays as it is.

/// What is ours of stop signals must be answered by the agent within this time; then it was for
/// this process alone, and ends it after all.
inline constexpr std::chrono::seconds kStrayPatience{5};

/// SIGUSR1 and SIGUSR2, which ask the agent for a checkpoint and for where the ranks are, are
/// ignored from now on.
void leave_notices_to_agent();

/// SIGTERM, SIGINT, SIGHUP and SIGQUIT are noted from now on, and end the process only when they
/// come from who ends ranks: the process that has the other end of `agent_socket`, or the one that
/// started our process group. Also when that cannot be told (a sender of another pid namespace),
/// from this process itself, and from the kernel. A forked process that inherits this keeps the
/// default. Threads: one at a time; the signals may come to any.
void leave_stops_to_agent(int agent_socket);

/// Ends this process by the signal that it noted longer than kStrayPatience ago, if there is one:
/// for when the agent has not asked for a stop.
void end_if_unanswered();

}  // namespace autolaunch::session
