#pragma once
// How a rank waits for another one: look, then sleep; and how it learns that the wait is in vain.
#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "comm/shm/segment.hpp"

#include <autolaunch/error.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::shm {

/// One collective in progress, for its errors and its deadline.
struct Operation {
    std::string_view name;
    /// Set when a wait for others first becomes long: to ask for the time costs as much as a small
    /// call.
    mutable std::optional<Deadline> deadline = std::nullopt;
};

/// A rank's view of the others in its segment.
///
/// A wait ends in one of five ways: the condition holds; the group was aborted; the peer's process
/// ended or gave up its communicator (Error{closed}, noticed within kPatience); the deadline passed
/// (TimeoutError). The last two abort the group, so that every other rank learns the reason.
///
/// Owner: the backend. Threads: one, except wake_all(), abort() and aborted(). Blocks: wait().
class Peers {
public:
    static constexpr std::chrono::milliseconds kPatience{20};
    static constexpr std::chrono::microseconds kNap{500};

    Peers(const Segment& segment, int rank, int size, std::chrono::milliseconds timeout);
    /// Tells the others that this rank leaves.
    ~Peers();
    Peers(const Peers&) = delete;
    Peers& operator=(const Peers&) = delete;

    /// Says that this rank is here and waits until all are.
    void gather();

    Operation begin(std::string_view name) {
        if (aborted())
            throw_if_aborted();
        return {name};
    }
    /// Waits until ready(), which peer makes true. Ready is asked again and again, and must be
    /// cheap.
    template <class Ready>
    void wait(int peer, const Operation& operation, const Ready& ready) {
        for (int i = 0; i < spins_; ++i) {
            if (ready())
                return;
            relax();
        }
        wait_long(peer, operation, ready);
    }
    /// Stores a counter of this rank and wakes those who sleep on it.
    void publish(std::atomic<std::uint64_t>& counter, std::uint64_t value);
    /// As publish(), but those who sleep are woken only by settle(), or when this rank itself has
    /// to wait for long.
    void publish_quietly(std::atomic<std::uint64_t>& counter, std::uint64_t value) {
        counter.store(value, std::memory_order_release);
        unsettled_ = true;
    }
    void settle();
    /// As publish(), but without the fence, which takes as long as a cache line to change cores:
    /// one who goes to sleep at the same moment may be missed, and finds out after kNap. For calls
    /// that are short themselves.
    void publish_lightly(std::atomic<std::uint64_t>& counter, std::uint64_t value) {
        counter.store(value, std::memory_order_release);
        unsettled_ = false;
        if (crowded_)
            full_fence();
        wake_sleepers();
    }
    /// Stores a counter of a channel with `peer` and rings its bell.
    void publish_to(int peer, std::atomic<std::uint64_t>& counter, std::uint64_t value);
    /// Waits until advance() has done something, which any of `waiting_for()` may make possible by
    /// ringing.
    void wait_for_bell(const Operation& operation, const std::function<bool()>& advance,
                       const std::function<std::vector<int>()>& waiting_for);

    /// Aborts the group for `error`, which the caller then throws.
    void abort_for(ErrorCode code, const std::string& text);
    void abort(const std::string& reason);
    bool aborted() const noexcept {
        return segment_.header().abort_phase.load(std::memory_order_acquire) !=
               std::uint32_t(AbortPhase::none);
    }
    /// Whether `peer`'s process ended, or gave up its communicator.
    bool gone(int peer);
    /// The first time, a lost peer or a mismatch is thrown as what it is; from then on, and else,
    /// AbortedError.
    void throw_if_aborted();

private:
    static void relax() noexcept;
    /// What was stored before is there for all before anything after is read.
    static void full_fence() noexcept;
    void wake_sleepers() {
        RankState& mine = segment_.rank_state(rank_);
        if (mine.sleepers.load(std::memory_order_relaxed) != 0)
            ring(mine);
    }
    static void ring(RankState& state);
    void wait_long(int peer, const Operation& operation, const std::function<bool()>& ready);
    void sleep_until_bell(const Operation& operation, const std::function<bool()>& advance,
                          bool& advanced);
    void sleep_until_signal(RankState& peer, const Operation& operation,
                            const std::function<bool()>& ready);
    Deadline& deadline_of(const Operation& operation) const;
    [[noreturn]] void fail_closed(int peer, const Operation& operation);
    [[noreturn]] void fail_timeout(int peer, const Operation& operation);
    void wake_all();

    const Segment& segment_;
    int rank_;
    int size_;
    std::chrono::milliseconds timeout_;
    bool crowded_;
    int spins_;
    std::atomic<bool> told_{false};  // this rank has thrown why the group was aborted
    bool unsettled_ = false;
    std::vector<UniqueFd> pidfds_;
};

}  // namespace autolaunch::shm
