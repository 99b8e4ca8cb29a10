#include "supervise/exit_decision.hpp"

#include "base/text.hpp"
#include "exit_codes/exit_codes.hpp"
#include "supervise/stop_signals.hpp"

#include <csignal>
#include <cstring>

namespace autolaunch::launcher {

namespace {

ExitDecision decide_stopped(const JobOutcome& outcome, int signal) {
    const bool can_go_on =
        outcome.every_rank_exited_zero && outcome.has_checkpoint && outcome.may_requeue;
    const std::string stopped =
        outcome.stop_words.empty() ? "stopped by " + signal_name(signal) : outcome.stop_words;
    if (can_go_on && !sent_by_a_person(signal))
        return {exit_code::kRequeue, stopped + ", can go on from a checkpoint"};
    return {exit_code::kSignalBase + signal, stopped};
}

}  // namespace

ExitDecision decide_exit(const JobOutcome& outcome) {
    if (outcome.ranks_hang)
        return {exit_code::kSystem, "failed: processes that hang in the kernel are left"};
    if (outcome.stop_signal)
        return decide_stopped(outcome, *outcome.stop_signal);
    if (outcome.cannot_start_code)
        return {*outcome.cannot_start_code, "failed to start"};
    if (outcome.lost_node && outcome.has_checkpoint && outcome.may_requeue)
        return {exit_code::kRequeue,
                "failed: " + *outcome.lost_node + " was lost, can go on from a checkpoint"};
    if (outcome.lost_node)
        return {exit_code::kNoHost, "failed: " + *outcome.lost_node + " was lost"};
    if (outcome.first_failure && outcome.cannot_resume)
        return {exit_code::kCannotResume, "failed: cannot go on from its checkpoints"};
    if (outcome.first_failure && outcome.requeue)
        return {exit_code::kRequeue, "failed: to be requeued"};
    if (outcome.first_failure)
        return {exit_code_of(*outcome.first_failure), "failed"};
    if (outcome.keeper_gone)
        return {exit_code::kSignalBase + SIGKILL, "stopped: autolaunch itself was killed"};
    return {exit_code::kSuccess, "succeeded"};
}

}  // namespace autolaunch::launcher
