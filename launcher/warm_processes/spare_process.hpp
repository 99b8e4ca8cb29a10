#pragma once
#include "base/unique_fd.hpp"
#include "spawn/spawn.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// One process that waits in Session::from_environment() until it becomes a rank
/// (docs/recovery.md). Its stdout and stderr are memory until then.
///
/// Owner: WarmProcesses. Threads: the main one. Blocks: the constructor, until the program runs;
/// become(), as long as it is told; the destructor, until the process is gone, 2 s at most.
class SpareProcess {
public:
    using Clock = std::chrono::steady_clock;
    enum class State { starting, waiting, lost };

    /// Of a rank that was started with this. Throws Error or SpawnError.
    SpareProcess(const ChildSpec& rank, bool low_priority);
    SpareProcess(const SpareProcess&) = delete;
    SpareProcess& operator=(const SpareProcess&) = delete;
    ~SpareProcess();

    /// Hears whether it waits, and whether it has ended. Waits for nothing.
    State look();
    /// Once lost, or not wanted: in words for people.
    const std::string& why_lost() const { return why_lost_; }
    /// Ends it, for that reason.
    void give_up(const std::string& why);
    pid_t pid() const { return child_.pid; }
    Clock::time_point begun_at() const { return begun_at_; }

    /// Why it cannot take the place of a rank that is to be started with this; empty: it can.
    std::string why_not(const ChildSpec& rank) const;
    /// Makes it the rank, whose log first gets what it has printed until now. Nothing where it did
    /// not answer in that time, or cannot; it is lost then.
    std::optional<Child> become(const ChildSpec& rank, std::chrono::milliseconds answer);

private:
    void hear();
    void copy_output(const ChildSpec& rank);
    std::string last_words() const;
    void end();

    ChildSpec started_with_;
    bool low_priority_;
    UniqueFd socket_, printed_, complained_;
    off_t copied_[2] = {0, 0};
    std::string input_;
    Child child_;
    State state_ = State::starting;
    bool is_rank_ = false;
    Clock::time_point begun_at_;
    std::string why_lost_;
};

}  // namespace autolaunch::launcher
