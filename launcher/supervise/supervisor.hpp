#pragma once
#include "base/unique_fd.hpp"
#include "plan/launch_plan.hpp"
#include "rendezvous/coordinator.hpp"
#include "report/console.hpp"
#include "report/reporter.hpp"
#include "supervise/exit_decision.hpp"
#include "supervise/generation.hpp"
#include "supervise/job_table.hpp"
#include "supervise/run_directory.hpp"
#include "supervise/signal_inbox.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// Where the supervisor says what happens.
struct SupervisorOutput {
    Reporter& reporter;
    Console& console;
};

/// Runs a job on this node to its end: starts its generations one after another, and turns what happens (ends of ranks,
/// signals, timers, messages) into events of the job table.
///
/// Owner: the agent, one per process. Threads: the main one. Blocks: run(), until the job is over.
class Supervisor {
public:
    /// All must outlive it. `keeper_gone` becomes readable when nobody waits for us any more; empty: nobody ever did.
    Supervisor(const LaunchPlan& plan, const RunDirectory& run_dir, Coordinator& coordinator, SupervisorOutput output,
               UniqueFd keeper_gone);

    /// The job's exit code (docs/exit-codes.md). `inherited` is the environment that ranks start from.
    int run(const EnvironmentMap& inherited);

private:
    void dispatch(JobEvent event);
    void act(JobAction action);
    void start_generation();
    void start_ranks();
    void cannot_start(int exit_code, const std::string& what, const std::string& hint, bool restart_helps);
    void ask_ranks_to_stop(RankEvent how, const std::string& reason);
    void kill_ranks();
    void wait_to_restart();

    void on_rank_ended();
    void on_first_failure();
    void on_signal(int signal);
    void end_generation_if_over();
    void report_generation_failure();
    void give_up();

    void watch_keeper();
    void refresh_output();
    void report(Happening happening);
    void announce();
    int finish();
    bool restart_left() const { return restarts_ < plan_.spec.restart.max_restarts; }

    const LaunchPlan& plan_;
    const RunDirectory& run_dir_;
    Coordinator& coordinator_;
    SupervisorOutput output_;
    Inheritance inherited_;

    asio::io_context io_{1};
    asio::posix::stream_descriptor keeper_gone_;
    std::optional<SignalInbox> signals_;
    asio::steady_timer grace_timer_, restart_timer_, output_timer_, doubt_timer_;

    JobState state_ = JobState::starting;
    std::unique_ptr<Generation> generation_;
    int generation_number_ = 0;
    int restarts_ = 0;
    std::chrono::steady_clock::time_point started_at_, failed_at_, last_end_at_;
    bool in_doubt_ = false;      ///< a rank ended as if by a stop that we have not heard of yet
    bool failure_seen_ = false;  ///< in this generation
    bool kill_sent_ = false;     ///< in this generation
    bool stop_asked_ = false;    ///< by a signal, ever
    bool over_ = false;          ///< the end of this generation is being handled
    std::optional<std::int64_t> checkpoint_step_;
    JobOutcome outcome_;
    std::optional<int> gave_up_code_;
};

}  // namespace autolaunch::launcher
