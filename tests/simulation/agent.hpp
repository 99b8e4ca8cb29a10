#pragma once
#include "causes/cause.hpp"
#include "restart_policy/decision.hpp"
#include "simulation/world.hpp"

#include <optional>
#include <string>
#include <vector>

namespace simulation {

/// An agent: the product's tables and rules, and around them what its supervisors do with sockets
/// and processes, in small. On every machine a node's part; where it is head, the job's as well.
class Agent {
public:
    /// `first` null: it was started again, and looks for somebody who takes it in.
    Agent(World& world, int node, const Voter& self,
          const autolaunch::launcher::AcceptedRecord* first);

    void wake();
    void receive(Parcel&& parcel);
    void link_lost(int node);
    void node_timer(autolaunch::launcher::NodeEvent event, int serial);
    void job_timer(autolaunch::launcher::JobEvent event, int serial);
    void rank_started(int rank);
    void rank_ended(int rank, bool zero, std::optional<autolaunch::launcher::Cause> cause);
    void witness_answered(int formed, bool ours);
    void say_hello();
    std::string describe() const;

    bool is_over() const { return over_; }
    bool is_head() const { return succession_->is_head(); }
    /// For its keeper: until its ranks have to end, unless it hears of a head.
    int ms_of_lease() const;
    bool holds() const { return holds_; }
    const autolaunch::launcher::Succession& succession() const { return *succession_; }

private:
    void carry_out(autolaunch::launcher::succession::Effects&& effects);
    void schedule_wake();
    void strand();
    void tell(const autolaunch::launcher::succession::Effect& effect) const;
    int ranks_here(const autolaunch::launcher::GenerationRecord& record) const;
    static std::string node_name(int node) { return "node" + std::to_string(node); }

    // A node's.
    void start_if_idle();
    void on_node(autolaunch::launcher::NodeEvent event);
    void move_on(autolaunch::launcher::NodeEvent event);
    void act(autolaunch::launcher::NodeAction action);
    void tell_status();
    bool all_ended() const;

    // The head's.
    struct View {
        Voter voter;
        bool takes_part = false, running = false, ended = false;
        std::int64_t heard_at = 0;
    };
    void lead(const RecordPointer& newest, autolaunch::launcher::succession::Moment fenced_at);
    void begin_tally(const RecordPointer& record);
    void on_job(autolaunch::launcher::JobEvent event);
    void act(autolaunch::launcher::JobAction action);
    void start_generation();
    void choose_nodes(autolaunch::launcher::GenerationRecord& record);
    void finish(int exit_code);
    void order(bool kill);
    void repeat_order();
    void on_status(const Status& status);
    void look_for_silence();
    void lose(int node, bool is_proved);
    void lose_those_gone();
    bool is_gone(int node) const;
    int fit_nodes() const;
    autolaunch::launcher::Decision decide() const;
    void end_if_over();
    bool all_have_ended() const;
    void job_timer_in(std::int64_t ms, autolaunch::launcher::JobEvent event);

    World& world_;
    const int node_;
    const Voter self_;
    std::unique_ptr<autolaunch::launcher::Succession> succession_;
    RecordPointer known_;  ///< the newest that this agent has accepted
    bool over_ = false, holds_ = false, was_started_again_ = false;

    autolaunch::launcher::NodeState node_state_ = autolaunch::launcher::NodeState::idle;
    RecordPointer start_, pending_;
    std::optional<autolaunch::launcher::Cause> failed_;
    bool told_running_ = false, told_ended_ = false, zero_ = true;
    int node_timer_serial_ = 0, ranks_to_start_ = 0;

    bool leads_ = false, taken_over_ = false;
    autolaunch::launcher::JobState job_state_ = autolaunch::launcher::JobState::finished;
    RecordPointer current_;
    std::vector<View> views_;
    std::vector<int> gone_, kept_;
    std::vector<Voter> newcomers_, lost_since_;  ///< since the newest record was made
    autolaunch::launcher::RestartHistory history_;
    std::optional<autolaunch::launcher::Cause> cause_;  ///< of the first failure
    int cause_node_ = -1, lost_node_ = -1;
    bool all_zero_ = true, generation_over_ = false;
    std::optional<Order> order_;
    int job_timer_serial_ = 0, restarts_ = 0;
    std::int64_t fenced_at_ = 0, delay_ = 0, looked_at_ = 0;
    std::optional<int> exit_code_;  ///< that the job is to end with
};

}  // namespace simulation
