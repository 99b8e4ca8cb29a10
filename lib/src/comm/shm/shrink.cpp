// shrink() on the shm backend. The old group is aborted, but its memory is still there: the
// survivors write into it who they think is lost, and the first of them where the new group's
// memory is.
#include "base/hash.hpp"
#include "comm/shm/shm_backend.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

namespace autolaunch {

using shm::ShrinkCell;

/// One shrink, as one survivor runs it.
class ShmBackend::Shrinking {
public:
    Shrinking(ShmBackend& parent, std::span<const int> lost, std::uint64_t attempt)
        : parent_(parent), attempt_(attempt), deadline_(Deadline::after(parent.timeout_)) {
        for (int rank = 0; rank < parent.size_; ++rank)
            if (!std::binary_search(lost.begin(), lost.end(), rank))
                survivors_.push_back(rank);
        lost_text_ = fmt::format("{}", fmt::join(lost, ", "));
        digest_ = hash64(lost.data(), lost.size_bytes());
    }

    std::shared_ptr<CommunicatorBackend> run() {
        ShrinkCell& own = cell(parent_.rank_);
        own.digest = digest_;
        shm::write_text(own.lost, lost_text_);
        own.attempt.store(attempt_, std::memory_order_release);
        for (const int rank : survivors_)
            meet(rank);
        const auto place = std::find(survivors_.begin(), survivors_.end(), parent_.rank_);
        shm::Segment segment = place == survivors_.begin() ? offer() : accept();
        const int size = static_cast<int>(survivors_.size());
        const int rank = static_cast<int>(place - survivors_.begin());
        return std::make_shared<ShmBackend>(std::move(segment), rank, size, parent_.timeout_,
                                            parent_.guard_);
    }

private:
    ShrinkCell& cell(int rank) const { return parent_.segment_.shrink_cell(rank); }

    void meet(int rank) {
        const ShrinkCell& theirs = cell(rank);
        wait_for(rank, theirs.attempt);
        if (theirs.attempt.load(std::memory_order_acquire) != attempt_ ||
            theirs.digest != digest_) {
            throw Error(
                ErrorCode::mismatch,
                fmt::format("rank {} shrinks the group without ranks {}, rank {} without {}",
                            parent_.rank_, lost_text_, rank, theirs.lost),
                "all survivors must pass the same lost ranks");
        }
    }

    shm::Segment offer() {
        ShrinkCell& own = cell(parent_.rank_);
        std::optional<shm::Segment> segment;
        std::vector<int> pids;
        for (const int rank : survivors_)
            pids.push_back(parent_.segment_.rank_state(rank).pid.load(std::memory_order_relaxed));
        std::exception_ptr failure;
        try {
            segment.emplace(shm::Segment::create(static_cast<int>(pids.size()), pids));
        } catch (...) {
            failure = std::current_exception();
        }
        shm::write_text(own.address, segment ? segment->address() : std::string());
        own.offered.store(attempt_, std::memory_order_release);
        if (failure)
            std::rethrow_exception(failure);
        return std::move(*segment);
    }

    shm::Segment accept() {
        const ShrinkCell& first = cell(survivors_.front());
        wait_for(survivors_.front(), first.offered);
        if (first.address[0] == '\0') {
            throw Error(ErrorCode::system,
                        fmt::format("shrink: rank {} could not make memory for the new group",
                                    survivors_.front()),
                        "its own error says why");
        }
        return shm::Segment::attach(first.address, static_cast<int>(survivors_.size()));
    }

    // Until the counter has come to this attempt. The group is aborted, so nobody rings: look again
    // every now and then.
    void wait_for(int rank, const std::atomic<std::uint64_t>& counter) {
        const auto arrived = [&] { return counter.load(std::memory_order_acquire) >= attempt_; };
        while (!arrived()) {
            if (parent_.peers_.gone(rank) && !arrived()) {
                const int pid =
                    parent_.segment_.rank_state(rank).pid.load(std::memory_order_relaxed);
                throw Error(ErrorCode::closed,
                            fmt::format("rank {} (pid {}) went away during shrink", rank, pid),
                            "shrink again, without it");
            }
            if (deadline_.passed()) {
                throw TimeoutError(
                    fmt::format("rank {} waited for rank {} in shrink", parent_.rank_, rank),
                    "all survivors must call shrink with the same lost ranks");
            }
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
    }

    ShmBackend& parent_;
    std::uint64_t attempt_;
    Deadline deadline_;
    std::vector<int> survivors_;
    std::string lost_text_;
    std::uint64_t digest_ = 0;
};

std::shared_ptr<CommunicatorBackend> ShmBackend::shrink(std::span<const int> lost) {
    const std::string names = fmt::format("{}", fmt::join(lost, ", "));
    if (!peers_.aborted())
        peers_.abort(fmt::format("shrink without ranks {}", names));
    return Shrinking(*this, lost, ++shrink_attempts_).run();
}

}  // namespace autolaunch
