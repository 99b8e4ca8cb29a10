#pragma once
#include "flight_view/flight_inquiry.hpp"
#include "plan/launch_plan.hpp"
#include "rank_services/coordinator.hpp"
#include "rendezvous/join.hpp"
#include "report/reporter.hpp"
#include "supervise/exit_decision.hpp"
#include "supervise/generation_tally.hpp"
#include "supervise/job_end_time.hpp"
#include "supervise/job_table.hpp"
#include "supervise/node_warnings.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Decides for the whole job, on the head: turns what nodes report into events of the job table and
/// what the table says into commands to all nodes, its own included; tells the person what happens.
/// It starts and signals nothing itself: that is the NodeSupervisor's, on every node.
///
/// Owner: the head's agent. Threads: the main one. Blocks: leave(), some seconds at most.
class JobSupervisor {
public:
    /// All must outlive it; `joined` is the head's.
    JobSupervisor(asio::io_context& io, const LaunchPlan& plan, Coordinator& coordinator,
                  const Joined& joined, Reporter& reporter, int first_generation);

    /// Says what job this is, and commands its first generation.
    void start();
    /// After the job: until every node has left.
    void leave();

private:
    void dispatch(JobEvent event);
    void act(JobAction action);
    void start_generation();
    void stop_ranks(bool by_user, const std::string& reason);
    void kill_ranks();
    void give_up();
    void wait_to_restart();
    void finish();

    void on_report(int node, control::Report&& report);
    void on(int node, control::GenerationRunning&& running);
    void on(int node, control::StartFailed&& failed);
    void on(int node, control::RankFailed&& failed);
    void on(int node, control::RanksEnded&& ended);
    void on(int node, control::StopAsked&& asked);
    void on(int node, control::NodeWarning&& warning);
    void on(int node, control::FlightAsked&& asked);
    void on(int node, control::FlightRead&& read);
    void on_node_lost(int node, const std::string& why);
    void cannot_start(int rank, int exit_code, const std::string& what, const std::string& hint,
                      bool restart_helps);
    void end_generation_if_over();
    bool died_of_full_disk() const;
    void report_failure();
    void report_lost();
    void report_end_time(std::chrono::system_clock::time_point ends_at);

    void warn(int node, const std::string& text);
    void show_warnings();
    void report(Happening happening);
    void wait_then(std::chrono::milliseconds time, JobEvent event);
    const std::string& name_of(int node) const;
    bool is_current(int generation) const { return tally_ && tally_->generation() == generation; }
    bool restart_left() const {
        return restarts_ < plan_.spec.restart.max_restarts && !outcome_.lost_node;
    }

    asio::io_context& io_;
    const LaunchPlan& plan_;
    Coordinator& coordinator_;
    const Joined& joined_;
    const Roster& roster_;
    Head& head_;
    Reporter& reporter_;
    asio::steady_timer timer_, warning_timer_;
    JobEndTime end_time_;
    FlightInquiry flight_;

    JobState state_ = JobState::starting;
    MasterStore store_;                     ///< of this generation
    std::optional<GenerationTally> tally_;  ///< nothing between generations
    int generation_number_;
    int restarts_ = 0;
    std::chrono::steady_clock::time_point started_at_, failed_at_;
    std::vector<NodeLost> lost_;   ///< not shown yet
    std::set<int> gone_;           ///< nodes that were lost
    std::set<int> asked_to_stop_;  ///< nodes that have reported a stop signal
    bool kill_sent_ = false;       ///< in this generation
    NodeWarnings warnings_;
    std::string stop_reason_;  ///< for a failure: "rank 3 failed", "node2 was lost"
    std::optional<std::int64_t> checkpoint_step_;
    JobOutcome outcome_;
};

}  // namespace autolaunch::launcher
