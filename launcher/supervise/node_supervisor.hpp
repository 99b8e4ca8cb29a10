#pragma once
#include "base/unique_fd.hpp"
#include "control/member.hpp"
#include "plan/launch_plan.hpp"
#include "rank_services/coordinator.hpp"
#include "report/console.hpp"
#include "report/reporter.hpp"
#include "supervise/generation.hpp"
#include "supervise/node_table.hpp"
#include "supervise/signal_inbox.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// Where a supervisor says what happens.
struct SupervisorOutput {
    Reporter& reporter;
    Console& console;
};

/// Runs one node's part of a job to its end: starts and stops ranks as the head commands, tells it
/// what becomes of them, and shows their output. Decides by itself only when the head, or whoever
/// waits for this agent, is gone. The same on the head's own node.
///
/// Owner: the agent, one per process. Threads: the main one. Blocks: run(), until the job is over.
class NodeSupervisor {
public:
    /// All must outlive it. `keeper_gone` becomes readable when nobody waits for us any more;
    /// empty: nobody ever did.
    NodeSupervisor(const NodeContext& node, const std::string& head_name, SupervisorOutput output,
                   UniqueFd keeper_gone);

    /// The job's exit code (docs/exit-codes.md). `inherited` is what ranks start from.
    int run(const Inheritance& inherited);

private:
    void obey(const control::Command& command);
    void dispatch(NodeEvent event);
    void act(NodeAction action);
    void start_ranks();
    void start_some();
    void tell_running();
    std::unique_ptr<Generation> make_generation();
    void cannot_start(int exit_code, const Error& error, bool restart_helps);
    void apply_to_ranks(RankEvent event);
    void kill_ranks();
    void tell_ended();
    void name_hung();

    void on_rank_ended();
    void report_failure();
    void report_flight(int request);
    void report_flight_of_failure();
    void forget_doubt();
    void on_signal(int signal);
    void watch_stand_ins();
    void on_task_signal(int signal);
    void on_head_lost(const std::string& why);
    void end_if_over();
    bool ranks_are_there() const { return generation_ != nullptr && !ended_; }

    void wait_then(std::chrono::milliseconds time, NodeEvent event);
    void watch_keeper();
    void refresh_output();
    void report(Happening happening);
    void record(Happening happening);

    const NodeContext& node_;
    const LaunchPlan& plan_;
    const std::string head_name_;
    SupervisorOutput output_;
    Inheritance inherited_;

    asio::posix::stream_descriptor keeper_gone_;
    std::optional<SignalInbox> signals_;
    asio::steady_timer timer_, output_timer_, doubt_timer_, task_signal_timer_;

    NodeState state_ = NodeState::idle;
    control::StartGeneration start_;  ///< the newest
    std::unique_ptr<Generation> generation_;
    std::chrono::steady_clock::time_point begun_at_, failed_at_, last_end_at_;
    bool starting_ = false;  ///< some ranks of this generation are still to be started
    bool ended_ = true;      ///< the end of this generation has been handled, or there was none
    bool failure_seen_ =
        false;  ///< a rank of this generation failed, here or, by the head's word, elsewhere
    bool failure_reported_ = false;  ///< in this generation
    bool flight_reported_ = false;   ///< of this generation's failure
    bool in_doubt_ = false;          ///< a rank ended as if by a stop that we have not heard of yet
    bool stopping_ = false;          ///< a person or the scheduler wants the job to stop
    int exit_code_ = 0;
};

}  // namespace autolaunch::launcher
