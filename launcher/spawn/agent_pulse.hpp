#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace autolaunch::launcher {

/// How an agent shows its keeper that it still runs: a count in memory that both share. An agent
/// that was stopped for good (SIGSTOP), or hangs in the kernel (a dead file system), says nothing
/// to the other nodes either; they give this one up, and its ranks must not train on behind their
/// back.
///
/// Owner: made before start_keeper(), so that both have it. Threads: the agent's one and the
/// keeper's. Blocks: never.
class AgentPulse {
public:
    AgentPulse();  ///< throws SystemError
    AgentPulse(const AgentPulse&) = delete;
    AgentPulse& operator=(const AgentPulse&) = delete;
    ~AgentPulse();

    // The agent's side.
    /// From now on an agent without a beat for `limit` is ended with all that it has started; the
    /// keeper of one that was killed, so or otherwise, exits with `code`.
    void begin(std::chrono::milliseconds limit, int code);
    void beat() noexcept { shared_->beats.fetch_add(1, std::memory_order_relaxed); }
    /// The next beat has to come within `left`, which replaces begin()'s limit: an agent that has
    /// not heard from its head for a while has that much less time, for the others count from
    /// there. At least a millisecond.
    void beat(std::chrono::milliseconds left) noexcept;
    void end() noexcept { shared_->limit_ms = 0; }
    /// The SIGTERM that came is the keeper's own: whoever started us on this node is gone.
    bool parent_is_gone() const noexcept { return shared_->parent_is_gone; }

    /// The keeper's last work is wanted (KeeperOptions::parting).
    void ask_for_parting() noexcept { shared_->parting = true; }

    /// Something besides processes is to be removed where we are killed (KeeperOptions::bereaved).
    void leave_more_than_processes() noexcept { shared_->more_than_processes = true; }

    // The keeper's side.
    bool leaves_more_than_processes() const noexcept { return shared_->more_than_processes; }
    bool asks_for_parting() const noexcept { return shared_->parting; }
    std::uint64_t beats() const noexcept { return shared_->beats.load(std::memory_order_relaxed); }
    std::chrono::milliseconds limit() const noexcept {  ///< 0: nobody promised a beat
        return std::chrono::milliseconds(shared_->limit_ms.load());
    }
    void tell_parent_is_gone() noexcept { shared_->parent_is_gone = true; }
    int code_when_lost() const noexcept { return shared_->code_when_lost; }  ///< 0: none

private:
    struct Shared {
        std::atomic<std::uint64_t> beats{0};
        std::atomic<std::int64_t> limit_ms{0};
        std::atomic<int> code_when_lost{0};
        std::atomic<bool> parent_is_gone{false};
        std::atomic<bool> parting{false};
        std::atomic<bool> more_than_processes{false};
    };
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
    static_assert(std::atomic<std::int64_t>::is_always_lock_free);

    Shared* shared_;
};

/// The keeper's look at it: it is late by two intervals at most. What counts is time in which the
/// keeper itself ran: a machine that slept and a job that the scheduler suspended are no silence.
/// Pure, but for the pulse.
class PulseWatch {
public:
    using Clock = std::chrono::steady_clock;

    explicit PulseWatch(const AgentPulse& pulse) : pulse_(pulse) {}

    /// Look as often as kInterval. True: silent for longer than it promised.
    bool is_silent(Clock::time_point now);

    static constexpr std::chrono::milliseconds kInterval{250};

private:
    const AgentPulse& pulse_;
    std::uint64_t beats_ = 0;
    Clock::time_point looked_at_{};
    std::chrono::milliseconds silence_{0};
};

}  // namespace autolaunch::launcher
