#pragma once
#include "base/deadline.hpp"
#include "control/control_message.hpp"
#include "control/member.hpp"
#include "control/node_check.hpp"
#include "flight_view/rank_recorders.hpp"
#include "generation/kept_ranks.hpp"
#include "generation/mpi_ranks.hpp"
#include "generation/rank_memory.hpp"
#include "generation/rank_process.hpp"
#include "generation/rank_table.hpp"
#include "generation/stop_notice.hpp"
#include "input/job_input.hpp"
#include "job_secrets/job_secrets.hpp"
#include "logs/log_follower.hpp"
#include "logs/log_room.hpp"
#include "logs/rank_terminals.hpp"
#include "placement_watch/gpu_events.hpp"
#include "placement_watch/gpu_gauges.hpp"
#include "placement_watch/gpu_watch.hpp"
#include "placement_watch/placement_watch.hpp"
#include "plan/launch_plan.hpp"
#include "post_mortem/failure_collector.hpp"
#include "progress/rank_activity.hpp"
#include "python_start/warm_parent.hpp"
#include "rank_services/coordinator.hpp"
#include "remains/job_remains.hpp"
#include "report/event.hpp"
#include "sampler/node_sampler.hpp"
#include "spawn/agent_pulse.hpp"
#include "stage_out/stage_out.hpp"
#include "staging/stage_in.hpp"
#include "stopping/stop_facts.hpp"
#include "tasks/stand_ins.hpp"
#include "warm_processes/warm_processes.hpp"

#include <asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What ranks start from, besides the plan.
struct Inheritance {
    EnvironmentMap environment;
    std::optional<rlim_t> file_limit;  ///< as it was before the agent raised its own
    bool ignores_hangup = false;       ///< autolaunch was started by nohup
};

/// What all generations of a node have in common. All must outlive them.
struct NodeContext {
    asio::io_context& io;
    const LaunchPlan& plan;
    Coordinator& coordinator;
    Member& member;
    const Roster& roster;
    std::filesystem::path trainer_config;
    StandIns* stand_ins =
        nullptr;  ///< tasks of this node that local ranks from 1 up are started in
    GpuInquiry* gpu_inquiry = nullptr;  ///< null: nobody looks where ranks compute
    RankMemory* memory = nullptr;  ///< for copies of the ranks' state; null: ranks are not answered
    AgentPulse* pulse = nullptr;   ///< for the keeper; null: none watches
    JobInput* input = nullptr;     ///< the ranks' stdin; null: /dev/null
    JobTraces* traces = nullptr;   ///< of all that is started; null: nobody wants to know
    StopFacts* stop_facts = nullptr;  ///< on the head's node; else null
    WarmParent* python = nullptr;     ///< that ranks are forked from; null: from none
    WarmProcesses* warm = nullptr;    ///< that may take a rank's place; null: there are none
    HandOver* packages = nullptr;     ///< what that one imports; null: it is read where it is
    JobSecrets* secrets = nullptr;    ///< of the ranks; null: there are none
    StageIn* stage_in = nullptr;      ///< the ranks' data; null: there is none
    StageOut* stage_out = nullptr;    ///< what they write on this disk; null: nothing that goes on
    NodeSampler* sampler = nullptr;   ///< measures this node; null: nobody does
    /// Makes `plan` and `roster` anew, for so many ranks by node rank, and nodes in that order of
    /// ranks; between generations. Throws Error.
    std::function<void(const std::vector<int>& ranks_per_node, const std::vector<int>& order)>
        replan = {};
    /// The roster has one node more.
    std::function<void(const std::string& name, int ranks)> add_node = {};
    /// Is this node fit, and what is between it and its neighbours? Answers in some seconds.
    std::function<void(const NodeCheckAsk&, std::function<void(NodeCheckResult)>)> check = {};
    bool late = false;  ///< this node has come to a running job
};

/// All ranks of this node in one attempt: their processes, their sockets, their log files.
///
/// Owner: NodeSupervisor, which obeys the head; this carries out. Threads: the agent's one. Blocks:
/// start_next(), until the program runs; end_leftovers() and finish(), at most some seconds.
class Generation {
public:
    struct Callbacks {
        std::function<void(Happening)> report;
        std::function<void()> rank_ended;
        std::function<void(int rank, bool begins)> phase;
        std::function<void(const SessionPeer& peer, const session::PythonStacks& stacks)> stacks;
        std::function<void()> rank_left = [] {};
    };

    /// Opens the sockets, and takes in the ranks of the generation before that are kept. Throws
    /// Error; they are then still in `kept`.
    Generation(const NodeContext& node, const control::StartGeneration& start, Callbacks callbacks,
               KeptRanks& kept);

    /// False while the ranks' interpreter imports, or a secret is asked for; `then` is called once
    /// that is over. Throws ExitError where a secret is not to be had.
    bool can_start(const Inheritance& inherited, std::function<void()> then);
    /// Starts the next rank that is still planned; false when there is none. Throws SpawnError or
    /// SystemError; what was started by then goes on.
    bool start_next(const Inheritance& inherited);
    /// Once all are started: from now on it is watched whether they stay where they were put.
    /// Returns how many are.
    int watch_placement();
    /// One event for every rank's table, and what follows from it. Ranks that are asked to stop are
    /// told that they have `grace`; `stop_signal` is what RankAction::send_stop_signal sends.
    void apply_to_all(RankEvent event, std::chrono::milliseconds grace, int stop_signal);
    /// As RankEvent::peer_failed to all, but ranks that can go on in the next generation are told
    /// to leave this one instead; `renumbers`: those alone that can go on as other ranks.
    void ask_to_leave(const std::string& reason, std::chrono::milliseconds grace, bool renumbers);
    /// Those that have not done so end as the others.
    void insist_on_leaving();
    /// Those that have, for the next generation. At the end.
    KeptRanks give_left();
    /// Ranks that were asked to stop, and have not ended, are told another time.
    void tell_grace(std::chrono::milliseconds grace);
    /// Asked to stop, all of them save: they said so, or the spec has a signal for it.
    bool can_stop() const;
    /// Its ranks stand still (SIGSTOP), and go on.
    void hold();
    void go_on();
    /// Asks ranks with a session for a checkpoint; forwards the signal to the others that have a
    /// handler for it.
    void request_checkpoint(int signal);
    /// Asks ranks with a session alone.
    void request_checkpoint_by_session();
    /// To every rank that has a handler for it.
    void forward(int signal);

    int number() const { return number_; }
    int starting_rank() const { return starting_rank_; }
    /// No process of it is there; ranks that are still planned do not count, nor those that have
    /// left.
    bool all_ended() const;
    std::vector<pid_t> live_pids() const;
    /// The same, and helpers of this generation: children that somebody waits for.
    std::vector<pid_t> own_processes() const;
    /// Of ranks with NVIDIA GPUs, as far as the driver has answered: the first time it is asked.
    std::vector<GpuPace> gpu_paces();
    std::vector<LiveRank> live_ranks() const;
    std::size_t rank_count() const { return ranks_.size(); }
    /// In the order in which they ended.
    const std::vector<RankExited>& exits() const { return exits_; }
    std::optional<RankExited> first_failure() const;
    /// The newest that a rank has published.
    std::optional<std::int64_t> checkpoint_step() const { return checkpoint_step_; }
    /// first_failure() with what the head shows of it.
    control::RankFailed describe_failure();
    /// The other failures, and what ranks said that had been asked to stop, as RanksEnded has them.
    std::vector<control::RankFailed> describe_others();

    /// What its ranks' flight recorders say, those of ended ranks too.
    std::vector<flight::RecordedRank> read_flight() const;

    /// The head is gone: what ranks ask of the store is not answered any more, and they are to know
    /// it.
    void close_store() { sockets_.store_relay.reset(); }
    /// Shows what is new in the ranks' logs, and sees to it that there is room for more.
    void follow_logs(LineSink& console);
    /// After the last rank's end: ends what they left behind.
    void end_leftovers();
    /// Then: what ranks printed is promised to come whole (--no-prefix), and is still on its way.
    bool owes_output(const LineSink& console) const { return follower_.owes(console); }
    /// At last: shows the rest of their output.
    void finish(LineSink& console);

private:
    /// Local rank 0 runs in the agent's own task.
    bool has_stand_in(int local_rank) const { return stand_ins_ != nullptr && local_rank > 0; }
    /// For each of the steps that block; together they must not make the other nodes believe that
    /// this one is lost.
    Deadline patience() const {
        return Deadline::after(
            std::min(std::chrono::milliseconds(5000), plan_.spec.rendezvous.lost_after / 4));
    }
    ChildSpec interpreter_spec(const Inheritance& inherited);
    bool have_packages(const std::function<void()>& then);
    void report_packages();
    void report_python();
    void record_python();
    ChildMaker maker_for(int local_rank) const;
    void contain(RankProcess& rank, ChildSpec& spec, bool has_input);
    void start_rank(RankProcess& rank, const Inheritance& inherited);
    void offer_to_spares(const RankProcess& rank, const ChildSpec& spec,
                         std::vector<std::string> environment);
    void see_spares();
    void start_mpi(const Inheritance& inherited);
    void leave_trace();
    void report_drift(const std::vector<PlacementWatch::Drift>& drifts);
    void watch_gpus(PlacementWatch::Times times);
    void report_gpu_drift(const std::vector<PlacementWatch::Drift>& drifts);
    void warn_about_placement(const RankProcess& rank, const Child& child);
    void act(RankProcess& rank, RankAction action);
    void signal(RankProcess& rank, int number);
    void send_stop_signal(RankProcess& rank);
    ChildSpec child_of(const RankProcess& rank, const RankFiles& files,
                       const RankTerminals::Ends& terminals, const Inheritance& inherited);
    void ask_to_stop(RankProcess& rank);
    std::string why_not_kept(const RankProcess& rank) const;
    void send_leave(RankProcess& rank);
    void on_left(RankProcess& rank, const session::HasLeft& left);
    void adopt(KeptRanks& kept);
    bool send_next(RankProcess& rank);
    void follow_rank(const RankProcess& rank, const RankFiles& files);
    session::Stop stop_message() const;
    void on_end(RankProcess& rank);
    void tell_of_leftovers(const std::vector<pid_t>& not_ours);
    control::RankFailed without_secrets(control::RankFailed failed) const;
    RankCircumstances circumstances_of(std::size_t exit);
    std::string last_moment_of(std::size_t exit) const;
    std::vector<NvmlEvent> gpu_events_of(int rank);
    RankProcess* find(int rank);
    void on_message(const SessionPeer& peer, const session::RankMessage& message);

    const NodeContext& node_;
    const LaunchPlan& plan_;
    StandIns* const stand_ins_;
    const int number_;
    const std::string secret_;
    Callbacks callbacks_;
    GenerationSockets sockets_;
    std::list<RankProcess> ranks_;
    LogFollower follower_;
    std::optional<OwnedFolder> folder_;  ///< of the ranks' logs, once one was started
    UniqueFd no_input_;                  ///< of ranks that get none
    std::set<int> with_input_;           ///< ranks that were started with some
    LogRoom log_room_;
    std::optional<RankTerminals> terminals_;  ///< with logging.stdio: pty
    RankRecorders recorders_;
    FailureCollector failures_;
    std::vector<RankExited> exits_;
    std::vector<std::chrono::steady_clock::time_point> exit_times_;  ///< of exits_
    std::chrono::milliseconds grace_;  ///< that a rank has which is asked to stop
    std::string leave_reason_;         ///< why the generation ended before its ranks
    int stop_signal_ = 0;              ///< by which the job was stopped
    int starting_rank_ = 0;
    std::optional<std::int64_t> checkpoint_step_;
    int warnings_shown_ = 0;     ///< of ranks' messages
    std::string cannot_resume_;  ///< by a rank's word; empty: none said so, or it was taken back
    std::optional<PlacementWatch> watch_;
    std::optional<GpuWatch> gpu_watch_;
    std::optional<GpuEvents> gpu_events_;
    std::optional<GpuGauges> gpu_gauges_;  ///< once somebody has asked
    std::unique_ptr<MpiRanks> mpi_;        ///< from the first rank's start; null without MPI
};

}  // namespace autolaunch::launcher
