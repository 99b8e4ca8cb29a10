#pragma once
#include "flight_view/flight_inquiry.hpp"
#include "plan/launch_plan.hpp"
#include "quorum/quorum.hpp"
#include "rank_services/coordinator.hpp"
#include "readings/node_reading.hpp"
#include "rendezvous/join.hpp"
#include "report/reporter.hpp"
#include "restart_policy/link_verdict.hpp"
#include "restart_policy/membership.hpp"
#include "sampler/job_measures.hpp"
#include "stage_out/stage_out.hpp"
#include "standstill/standstill_inquiry.hpp"
#include "standstill/straggler_watch.hpp"
#include "stopping/stop_facts.hpp"
#include "supervise/console_watchers.hpp"
#include "supervise/exit_decision.hpp"
#include "supervise/generation_tally.hpp"
#include "supervise/job_table.hpp"
#include "supervise/node_warnings.hpp"
#include "supervise/restart_book.hpp"
#include "supervise/stop_planner.hpp"
#include "sweep/element_watch.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// Where this start of the job comes from.
struct JobOrigin {
    std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();  ///< we did
    std::optional<int> requeue = {};  ///< how often the scheduler had requeued it; nothing: none
    std::map<std::string, std::string> unfit = {};  ///< nodes that the checks found so, and why
};

/// Decides for the whole job, on the head: turns what nodes report into events of the job table and
/// what the table says into commands to all nodes, its own included; tells the person what happens.
/// It starts and signals nothing itself: that is the NodeSupervisor's, on every node.
///
/// Owner: the head's agent. Threads: the main one. Blocks: leave(), some seconds at most.
class JobSupervisor {
public:
    /// All must outlive it; `joined` is the head's. `quorum` null: the head's end is the job's.
    JobSupervisor(asio::io_context& io, const LaunchPlan& plan, Coordinator& coordinator,
                  const Joined& joined, Reporter& reporter, StopFacts& stop_facts,
                  ConsoleWatchers& watchers, int first_generation, Quorum* quorum);

    /// Says what job this is, and commands its first generation.
    void start(const JobOrigin& origin);
    /// Instead of start(), of another head's job: `newest` was begun, if any was, and its ranks end
    /// wherever that head is not heard any more. Who says nothing of them has none in `fence`.
    void take_over(const GenerationRecord& newest, std::chrono::milliseconds fence);
    /// The record of what is about to begin was accepted: it begins.
    void begins(const GenerationRecord& record);
    /// Another node has this one as its head.
    void on_follower(int node);
    bool awaits(int node) const { return missing_.contains(node); }
    /// The end of the job is known to those that would follow this head.
    void end_is_recorded();
    /// Bytes of the job's stdin were taken, which another head would not have.
    void set_input_taken(std::function<bool()> taken) { input_taken_ = std::move(taken); }
    /// What ranks write on their nodes' disks is copied out before the job's end is told; null:
    /// nothing is.
    void set_stage_out(StageOut* stage_out) { stage_out_ = stage_out; }
    /// Of a job that is an element of a sweep: it has a record from now on, by its steps.
    void watch_element(const SweepSpec& sweep);
    void on_step(const StepReported& step);
    /// Somebody who has proved that he may wants to see the console, or a node out of the job.
    void on_ask(const control::Ask& ask, const std::shared_ptr<Caller>& caller);
    /// What the job is and does, for who measures it.
    JobFacts facts() const;
    /// After the job: until every node has left.
    void leave();
    int node_that_ends_step() const;

private:
    void dispatch(JobEvent event);
    void act(JobAction action);
    void start_generation();
    void begin_generation();
    void choose_nodes();

    // What the job's other agents agree on, and what follows from another head's:
    // job_succession.cpp.
    GenerationRecord next_record() const;
    std::vector<int> voters() const;
    void propose_generation();
    bool waits_for_record(std::function<void()> then);
    void look_for_missing();
    void end_by_record();
    std::chrono::milliseconds fence_of(int node);
    void report_lost_spare(int node, const std::string& why);

    // Nodes that come and go on somebody's wish: job_members.cpp.
    void open_door();
    HeadDoor::Admission on_newcomer(const control::Join& join, const HeadDoor::Guest& guest,
                                    std::string& refusal);
    void note_ask(const control::Ask& ask, const Caller& caller);
    void take_guest(const control::Ask& ask, const HeadDoor::Guest& guest);
    void show_files(const control::Ask& ask, const std::shared_ptr<Caller>& caller);
    void drain(const std::string& name, const std::shared_ptr<Caller>& caller);
    void take_back(const std::string& name, const std::shared_ptr<Caller>& caller);
    std::string status_line() const;
    void dismiss_drained();
    void answer_all(const std::string& text);
    void renew(const std::string& reason);
    void ask_ranks_to_save();
    void on(int node, control::Ready&& ready);
    bool takes_in_nodes() const;

    // Whether those that stay are fit: node_check.cpp.
    void found_unfit(int node, const std::string& why);
    void begin_without_unfit(const std::map<std::string, std::string>& found);
    bool begin_check();
    void on(int node, control::NodeChecked&& checked);
    void end_check();
    void stop_ranks(bool by_user, const std::string& reason);
    void order_stop(bool by_user, const std::string& reason, std::chrono::milliseconds grace);
    void kill_in(std::chrono::milliseconds time);
    void on_last_moment(std::chrono::milliseconds left);
    void stop_early(const std::string& why);
    void on_stop_explained(const StopKnown& known);
    std::chrono::milliseconds until_kill() const;
    bool is_schedulers_last_term(int signal, bool again) const;
    void kill_ranks();
    void give_up();
    void wait_to_restart();
    bool waits_for_room();
    void finish();

    // What ranks have written on their nodes' disks: job_stage_out.cpp.
    bool stages_out_before(void (JobSupervisor::*next)());
    std::chrono::milliseconds time_to_stage_out() const;
    std::map<int, std::string> nodes_to_stage_out() const;
    void hurry_stage_out(int signal);
    ExitDecision judge_stage_out(ExitDecision decision) const;

    void on_report(int node, control::Report&& report);
    void on(int node, control::GenerationRunning&& running);
    void on(int node, control::StartFailed&& failed);
    void on(int node, control::RankFailed&& failed);
    void on(int node, control::RanksEnded&& ended);
    void on(int node, control::RanksGivenUp&& given_up);
    void on(int node, control::StopAsked&& asked);
    void on(int node, control::NodeWarning&& warning);
    void on(int node, control::FlightAsked&& asked);
    void on(int node, control::FlightRead&& read);
    void on(int node, control::InputSpent&& spent);
    void on(int node, control::Overslept&& slept);
    void on(int node, control::Here&& here);
    void on(int node, control::StepsOverdue&& overdue);
    void on(int node, control::StepsAgain&& again);
    void on(int node, control::ActivityRead&& read);
    void on(int node, control::StacksWritten&& written);
    void on(int node, control::NodeMeasured&& measured);
    void act_on_failure();
    void on_node_lost(int node, const std::string& why);
    void lose(int node, JobEvent event, const std::string& why);
    bool goes_on_without(int node) const;
    JobEvent miss(int node, const std::string& why);
    void cannot_start(int rank, int exit_code, const std::string& what, const std::string& hint,
                      bool restart_helps);
    void end_generation_if_over();
    bool settles_before(void (JobSupervisor::*next)());
    void end_generation();
    void report_failure();
    void on_hang(const StandstillNoticed& found);
    void on_straggler(int rank, const std::string& what);
    bool is_replacing() const { return ended_by_ && ended_by_->cause == Cause::straggler; }
    void report_hang();
    void report_end();
    void note_end();
    void note_checkpoint(std::int64_t step);
    void keep(const std::string& lost);
    bool has_checkpoint() const { return checkpoint_step_ || restart_book_.has_checkpoint(); }
    void report_end_before_start();
    std::optional<EndRecord> judge_from_outside(bool started);
    EndRecord judge_this_stop(bool all_ended_well);
    void report_lost();

    void warn(int node, const std::string& text);
    void show_warnings();
    void report(Happening happening);
    void wait_then(std::chrono::milliseconds time, JobEvent event);
    const std::string& name_of(int node) const;
    bool is_current(int generation) const { return tally_ && tally_->generation() == generation; }
    JobEvent event_of(const EndRecord& record) const;
    Decision decide_on(const EndRecord& record) const;
    void settle(const EndRecord& record);
    bool has_scheduler() const { return plan_.kill_wait || !plan_.slurm_job_id.empty(); }
    bool is_ended_from_outside() const {
        return stop_signal_ || !lost_node_.empty() || keeper_gone_of_;
    }

    asio::io_context& io_;
    const LaunchPlan& plan_;
    Coordinator& coordinator_;
    const Joined& joined_;
    Roster roster_;       ///< of this generation; nodes that it goes on without have no ranks
    Membership members_;  ///< decides which those are
    Head& head_;
    Reporter& reporter_;
    ConsoleWatchers& watchers_;
    asio::steady_timer timer_, warning_timer_, settle_timer_, peer_timer_;
    asio::steady_timer check_timer_;
    Quorum* const quorum_;
    StageOut* stage_out_ = nullptr;
    bool staged_out_ = false;  ///< as far as it goes
    int hurries_ = 0;          ///< stop signals that came meanwhile
    int begun_generation_ = -1;
    std::set<int> had_ranks_;   ///< nodes, in any generation
    std::set<int> lost_nodes_;  ///< whatever is on them stays there
    std::optional<std::chrono::steady_clock::time_point> stop_asked_at_;
    asio::steady_timer succession_timer_;
    StopPlanner stop_planner_;
    FlightInquiry flight_;
    StandstillInquiry standstill_;
    StragglerWatch stragglers_;

    JobState state_ = JobState::starting;
    MasterStore store_;                     ///< of this generation
    std::optional<GenerationTally> tally_;  ///< nothing between generations
    int generation_number_;
    RestartBook restart_book_;
    std::optional<ElementWatch> element_;  ///< of a job that is an element of a sweep
    int restarts_ = 0;
    std::chrono::steady_clock::time_point started_at_, failed_at_, kill_at_;
    std::chrono::steady_clock::time_point settled_at_{};      ///< since the newest kill
    std::optional<std::chrono::milliseconds> time_limit_in_;  ///< we stop the job before that
    std::vector<NodeLost> lost_;                              ///< not shown yet
    struct Drain {
        int node;
        std::shared_ptr<Caller> caller;  ///< who asked for it
    };
    std::vector<Drain> drains_;    ///< nodes that the next generation is without
    std::string renewal_;          ///< why the job is to go on with other nodes; empty: it is not
    bool renewing_ = false;        ///< this generation ends for that alone
    std::set<int> unchecked_;      ///< nodes that have not answered the newest CheckNode
    std::vector<LinkSeen> links_;  ///< by their answers
    int check_ = 0;                ///< its number
    int unseen_node_ = -1;         ///< whose end the scheduler does not see; -1: none
    std::set<int> asked_to_stop_;  ///< nodes that have reported a stop signal
    std::set<int> here_;           ///< nodes that have answered the newest AskWhoIsHere
    int who_is_here_ = 0;          ///< its number
    std::map<int, std::string> slow_on_;  ///< ranks that were replaced, by their node then
    std::set<int> not_replaced_;          ///< of this generation: why was said
    bool kill_sent_ = false;              ///< in this generation
    bool awaits_others_ = false;  ///< a rank has failed: whether others do by themselves, is seen
    bool input_spent_ = false;    ///< what came in on stdin is not there for another one
    NodeWarnings warnings_;
    JobMeasures measures_;
    std::map<std::string, std::uint64_t> restarts_by_cause_;
    // Of a job whose head can be followed by another one:
    std::vector<std::string> doors_;  ///< by node
    std::vector<int> order_;          ///< of the nodes that take part, by their seats
    std::chrono::system_clock::time_point job_began_ = std::chrono::system_clock::now();
    bool proposing_ = false;  ///< the next generation's record: what is heard waits
    std::vector<std::function<void()>> until_begun_;
    std::set<int> missing_;  ///< that have followed the head before, and not this one yet
    std::chrono::steady_clock::time_point missing_until_{};
    std::optional<control::Finish> finish_;  ///< to be said once the job's end is recorded
    std::function<bool()> input_taken_;
    std::string stop_reason_;  ///< for a failure: "rank 3 failed", "node2 was lost"
    std::optional<std::int64_t> checkpoint_step_;  ///< of this start
    bool has_noted_checkpoint_ = false;
    // From outside; of a stop, a lost node and a lost keeper the first alone:
    std::optional<int> stop_signal_;
    std::string
        stopped_early_;  ///< why a rule of the sweep wants the job to stop; empty: none does
    std::string lost_node_, why_lost_;
    bool ranks_given_up_ = false;  ///< by a node that may lose its head, and is still there
    std::string missed_node_, why_missed_;  ///< lost, and the next generation goes on without it
    std::optional<std::chrono::steady_clock::time_point> room_awaited_until_;
    std::chrono::steady_clock::time_point fenced_at_{};  ///< no rank of a lost node lives then
    std::optional<int> keeper_gone_of_;  ///< the node where nobody waits for the agent any more
    std::optional<JobHung> hang_;        ///< this generation is ended for it
    std::vector<std::string> stacks_;    ///< files of this generation's StacksWritten
    bool hung_ = false;                  ///< processes of this generation do not end
    std::optional<std::chrono::seconds> time_left_at_stop_;  ///< of the allocation
    std::optional<StopKnown> why_asked_;                     ///< to stop, by the scheduler's word
    /// Why the newest generation ended, and what follows: event, screen and exit code are made of
    /// it. Nothing: it goes on, or every rank has finished.
    std::optional<EndRecord> ended_by_;
    std::optional<Decision> next_;
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace autolaunch::launcher
