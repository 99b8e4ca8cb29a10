#pragma once
#include "spawn/spawn.hpp"
#include "warm_processes/spare_process.hpp"

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Beside each rank of this node another process of its command, which takes its place when it has
/// to be started anew (restart.warm_processes). They live over the job's generations; what one
/// cannot do costs the rank nothing but the time of its own start.
///
/// Owner: the agent; outlives the generations. Threads: the main one. Blocks: start(), until the
/// rank runs; look(), until a program runs; the destructor, until all are gone.
class WarmProcesses {
public:
    using Clock = std::chrono::steady_clock;
    struct Times {
        std::chrono::milliseconds arrival{60'000};     ///< from a spare's start until it waits
        std::chrono::milliseconds unsaid{60'000};      ///< until a rank should have a Session
        std::chrono::milliseconds first_step{10'000};  ///< then a spare is made without one
        std::chrono::milliseconds answer{1'000};
    };
    struct Ready {
        int local_rank = 0;
        pid_t pid = -1;
        std::chrono::milliseconds took{0};
    };

    explicit WarmProcesses(Times times);

    /// A rank of this local rank runs, and was started with this: what its spares get, too.
    /// `environment`: without what is one generation's alone (MPI).
    void rank_was_started(int local_rank, ChildSpec rank, std::vector<std::string> environment,
                          pid_t pid);
    /// There will be none, and why.
    void has_none(int local_rank, const std::string& why);
    /// The process has a Session; `spares`: its library knows how to wait.
    void rank_said_hello(int local_rank, pid_t pid, bool spares);
    /// It has done a step: a spare no longer disturbs its start.
    void rank_trains(int local_rank);
    /// A spare of the place, or one that is started as spawn_child() does, whose errors it throws.
    Child start(int local_rank, const ChildSpec& rank);
    /// That one was a spare.
    bool was_spare(pid_t pid) const { return pid > 0 && pid == taken_pid_; }
    /// Makes spares, one after the other, and sees which are there. Call it now and then.
    void look();

    /// Not a rank's process, and to be left alone.
    std::vector<pid_t> pids() const;
    /// Processes until now that did not become a rank's.
    int made() const { return made_ - taken_; }
    /// Since the last call.
    std::vector<Ready> take_ready();
    /// The same: what went wrong, a sentence each.
    std::vector<std::string> take_notes();

private:
    struct Place {
        ChildSpec rank;
        pid_t pid = -1;
        Clock::time_point started_at;
        std::optional<Clock::time_point> due;  ///< once the rank has said hello
        int lost = 0;
        bool off = false, ready = false;
        std::unique_ptr<SpareProcess> spare;
    };

    void look_at(int local_rank, Place& place);
    void make(int local_rank, Place& place);
    void lose(int local_rank, Place& place, const std::string& why);
    void note(int local_rank, const std::string& what);
    bool is_one_starting() const;

    const Times times_;
    const bool low_priority_;
    std::map<int, Place> places_;
    int made_ = 0, taken_ = 0;
    pid_t taken_pid_ = -1;
    Clock::time_point looked_at_;
    std::vector<Ready> ready_;
    std::map<std::string, std::vector<int>> notes_;  ///< with local ranks
    std::vector<std::string> other_notes_;
    std::set<std::string> reasons_said_;  ///< why there is none
};

}  // namespace autolaunch::launcher
