#pragma once
#include "base/unique_fd.hpp"
#include "exit_codes/rank_exited.hpp"
#include "generation/contained_process.hpp"
#include "generation/rank_table.hpp"
#include "plan/launch_plan.hpp"
#include "spawn/child_host.hpp"

#include <asio/io_context.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// The process of one rank in one generation: its state, its signals, its end.
///
/// Owner: Generation. Threads: the agent's one. Blocks: start(), until the program runs.
class RankProcess {
public:
    /// `host` starts the process, and outlives us; null: this process does, by `make`.
    RankProcess(asio::io_context& io, const RankPlan& plan, ChildHost* host = nullptr,
                ChildMaker make = spawn_child);

    /// Throws SpawnError. `on_end` is called from the event loop, once, after the process is reaped
    /// and the rest of its process group has SIGKILL.
    Child start(const ChildSpec& spec, std::function<void(RankProcess&)> on_end);
    /// Its program is not in its own process's group, but where that file says; before start().
    void set_pid_file(std::string path) { contained_.emplace(std::move(path)); }
    /// Moves on by the rank table; what is to be done is the caller's to do.
    RankAction apply(RankEvent event);
    /// To the whole process group. A stopped group is woken, so that it can act.
    void send(int signal);
    /// One that is stopped (SIGSTOP) hears nothing.
    void wake();
    /// To those of its processes that have a handler for it, so that it kills none. A program may
    /// be behind a shell or a profiler.
    void forward(int signal) const;
    /// One of them has.
    bool catches(int signal) const { return !who_catches(signal).empty(); }

    const RankPlan& plan() const { return *plan_; }
    /// The same in all generations of its process.
    int local_rank() const { return local_rank_; }
    /// Of the plan of another generation from now on; it must outlive us.
    void take_plan(const RankPlan& plan) { plan_ = &plan; }
    RankState state() const { return state_; }
    bool alive() const { return pid_ > 0 && state_ != RankState::ended; }
    /// Alive, and of a generation: it has not left one to wait for the next.
    bool in_generation() const { return alive() && state_ != RankState::left; }
    /// Its own word: it can go on in the next generation as it is.
    void set_rejoins(bool can, bool as_another) { rejoins_ = can, renumbers_ = as_another; }
    bool rejoins() const { return rejoins_; }
    /// The same: also with another number.
    bool renumbers() const { return rejoins_ && renumbers_; }
    /// It waits there for the next generation; taken once.
    void set_word(UniqueFd word) { word_ = std::move(word); }
    UniqueFd take_word() { return std::move(word_); }
    /// Of another generation from now on.
    void hand_over(std::function<void(RankProcess&)> on_end) { on_end_ = std::move(on_end); }
    pid_t pid() const { return pid_; }
    /// Of the program itself, where that is not what we have started: a container's. Who looks what
    /// a rank does looks there.
    pid_t program_pid() const;
    void set_last_step(std::int64_t step) {
        last_step_ = step;
        last_step_at_ = std::chrono::steady_clock::now();
    }
    /// When it was reported; nothing: none was.
    std::optional<std::chrono::steady_clock::time_point> last_step_at() const {
        return last_step_at_;
    }
    /// It began then; nothing: it is in none that it has named.
    struct Phase {
        std::string name;
        std::chrono::steady_clock::time_point since;
    };
    void set_phase(const std::string& name) {
        phase_ = name.empty() ? std::nullopt
                              : std::optional(Phase{name, std::chrono::steady_clock::now()});
    }
    const std::optional<Phase>& phase() const { return phase_; }
    /// Only after its end.
    const RankExited& exited() const { return exited_; }
    /// The same: what it had started and left running.
    const std::vector<std::string>& left_running() const { return left_running_; }

private:
    void on_child_end(const ChildEnd& ended);
    void signal_program(int signal);
    std::vector<pid_t> who_catches(int signal) const;

    const RankPlan* plan_;
    int local_rank_;
    RankState state_ = RankState::planned;
    pid_t pid_ = -1;
    std::optional<ContainedProcess> contained_;
    std::unique_ptr<OwnChild> own_child_;
    ChildHost& host_;
    std::function<void(RankProcess&)> on_end_;
    std::chrono::steady_clock::time_point started_at_;
    std::optional<std::int64_t> last_step_;
    std::optional<std::chrono::steady_clock::time_point> last_step_at_;
    std::optional<Phase> phase_;
    RankExited exited_;
    std::vector<std::string> left_running_;
    bool rejoins_ = false, renumbers_ = false;
    UniqueFd word_;
};

}  // namespace autolaunch::launcher
