#pragma once
#include "base/unique_fd.hpp"
#include "control/member.hpp"
#include "generation/generation.hpp"
#include "generation/stop_notice.hpp"
#include "plan/launch_plan.hpp"
#include "quorum/quorum.hpp"
#include "rank_services/coordinator.hpp"
#include "report/console.hpp"
#include "report/reporter.hpp"
#include "standstill/standstill_watch.hpp"
#include "supervise/node_table.hpp"
#include "supervise/signal_inbox.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

    /// Of a job whose head can be followed by another one; before run(). It outlives this.
    void set_quorum(Quorum& quorum) { quorum_ = &quorum; }
    // What that says: node_succession.cpp.
    void may_begin(int generation);
    void end_ranks(std::string_view why);
    void hold_ranks();
    void let_ranks_go_on();
    void has_head(const std::string& name);
    void leave_with(int exit_code);
    void give_up(const std::string& why);

    /// Shown by the head, with this node's name.
    void warn(const std::string& text) { report(WarningRaised{text}); }
    /// What another part of this node has to say, for the report.
    void tell(Happening happening) { report(std::move(happening)); }
    /// What ranks were started without does not come.
    void cannot_go_on(const Error& error);
    /// Of this node's first rank; empty: nobody is told.
    void set_on_step(std::function<void(const StepReported&)> on_step) {
        on_step_ = std::move(on_step);
    }
    /// The job's exit code (docs/exit-codes.md). `inherited` is what ranks start from.
    int run(const Inheritance& inherited);

private:
    static constexpr std::chrono::milliseconds kOutputInterval{20};

    void obey(const control::Command& command);
    void dispatch(NodeEvent event);
    void end_if_over();
    void move_on(NodeEvent event);
    void act(NodeAction action);
    /// In the newest generation; else it is a spare, and waits for one that needs it.
    bool takes_part() const;
    void start_ranks();
    void start_some();
    void adapt_plan();
    void tell_running();
    std::unique_ptr<Generation> make_generation();
    void cannot_start(const Error& error);
    void apply_to_ranks(RankEvent event);
    void ask_ranks_to_stop();
    void ask_ranks_to_leave();
    void check(const control::CheckNode& ask);
    void end_kept();
    void apply_later(asio::steady_timer& timer, std::chrono::milliseconds time, RankEvent event);
    void note_for_stop(const Happening& happening);
    bool was_stopped_at_terminal(const RankExited& ended) const;
    void clear_up();
    void finish_output();
    void tell_ended();
    void name_hung();

    std::vector<pid_t> known_children() const;
    void on_rank_ended();
    void on_rank_left();
    void report_failure();
    void see_failure();
    void report_flight(int request);
    StopNotice::Ranks awaited_ranks() const;
    std::vector<std::pair<int, pid_t>> ranks_there() const;
    void on_signal(int signal);
    void watch_stand_ins();
    void on_task_signal(int signal);
    void on_head_lost(const std::string& why);
    bool is_on_head() const { return node_.member.node_rank() == node_.member.head_node(); }
    bool awaits_record(const control::StartGeneration& start);
    std::chrono::milliseconds ranks_may_live() const;

    void wait_then(asio::steady_timer& timer, std::chrono::milliseconds time, NodeEvent event);
    void watch_keeper();
    void refresh_output();
    void see_oversleeping();
    void go_on(int generation);
    void report(Happening happening);
    void record(Happening happening);

    const NodeContext& node_;
    const LaunchPlan& plan_;
    std::string head_name_;
    Quorum* quorum_ = nullptr;
    std::optional<control::StartGeneration> awaiting_record_;  ///< it came before its record
    asio::steady_timer leave_timer_;
    std::string why_headless_;
    SupervisorOutput output_;
    Inheritance inherited_;

    asio::posix::stream_descriptor keeper_gone_;
    std::optional<SignalInbox> signals_;
    asio::steady_timer timer_, output_timer_, doubt_timer_, task_signal_timer_, answer_timer_,
        insist_timer_;
    StopNotice stop_notice_;
    StandstillWatch standstill_;

    NodeState state_ = NodeState::idle;
    control::StartGeneration start_;  ///< the newest
    std::unique_ptr<Generation> generation_;
    KeptRanks kept_;            ///< while a generation is made
    std::string leave_reason_;  ///< why the generation ended before its ranks
    bool leave_saves_ = false;  ///< for nothing that failed: ranks are to save first
    bool leave_renumbers_ = false;
    std::chrono::steady_clock::time_point begun_at_, last_end_at_;
    std::chrono::milliseconds grace_;  ///< of the ranks, from the newest request on
    /// A rank of this generation failed, here or, by the head's word, elsewhere: its RanksEnded
    /// says how each rank ended. No state: the head's word may come in any, after the end too.
    bool failure_seen_ = false;
    /// A person or the scheduler wants the job to stop: for good, over all generations, and in
    /// every state.
    bool stop_asked_ = false;
    int stop_signal_ = 0;       ///< the one that the head names for it
    int told_signal_ = 0;       ///< that reached this agent; 0: none
    bool parent_gone_ = false;  ///< the head was told that nobody waits for the keeper any more
    int exit_code_ = 0;
    std::chrono::nanoseconds last_look_{0};  ///< since the machine's start
    bool held_ = false;                      ///< the ranks are stopped until the head says GoOn
    std::function<void(const StepReported&)> on_step_;
};

}  // namespace autolaunch::launcher
