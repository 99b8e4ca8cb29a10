// How an NCCL communicator fails, tells the others, and ends.
#include "comm/nccl/backoff.hpp"
#include "comm/nccl/nccl_group.hpp"

#include "base/deadline.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

namespace autolaunch {
namespace {

using Clock = std::chrono::steady_clock;

// Other ranks' aborts are looked for when something takes longer than this: steps of training ask
// nothing of the store.
constexpr std::chrono::milliseconds kSuspicious{1000};
constexpr std::chrono::milliseconds kHearEvery{500};
constexpr std::chrono::milliseconds kHearEveryWhenAsked{100};
// Who waits gives up first, so that it is told so and not that the group was aborted.
constexpr std::chrono::milliseconds kGrace{300};
constexpr std::chrono::milliseconds kReasonComesWithin{500};
// How long NCCL's kernels may take to end when told to, before nobody waits for it any more.
constexpr std::chrono::seconds kLongestStop{10};
// What a rank that ends waits for the others' last collectives.
constexpr std::chrono::seconds kLongestFarewell{30};

ErrorCode code_of(ncclResult_t result) {
    switch (result) {
        case ncclRemoteError:
            return ErrorCode::closed;
        case ncclInvalidArgument:
        case ncclInvalidUsage:
            return ErrorCode::invalid_argument;
        default:
            return ErrorCode::system;
    }
}

std::string abort_key(const std::string& name) { return name + "/abort"; }

}  // namespace

std::string NcclGroup::last_words(ncclResult_t result) const {
    const char* kind = runtime_->nccl.GetErrorString(result);
    const char* words =
        runtime_->nccl.GetLastError(nullptr);  // of the process, whatever communicator
    if (words == nullptr || *words == '\0')
        return kind;
    return fmt::format("{} ({})", kind, words);
}

void NcclGroup::fail(ErrorCode code, const std::string& reason) {
    {
        const std::scoped_lock lock(failure_mutex_);
        if (state_.aborted())
            return;
        failure_code_ = code;
        state_.abort(reason);
    }
    runtime_->watchdog.wake();
}

void NcclGroup::throw_failure() const {
    const std::scoped_lock lock(failure_mutex_);
    if (failure_code_ == ErrorCode::aborted)
        state_.throw_if_aborted();
    if (failure_code_ == ErrorCode::timeout) {
        throw TimeoutError(
            state_.reason(),
            "a rank did not come to the call: the report of the job shows where each one is");
    }
    throw Error(failure_code_, state_.reason(), "NCCL_DEBUG=INFO says more");
}

void NcclGroup::fail_and_throw(ErrorCode code, const std::string& reason) {
    fail(code, reason);
    throw_failure();
}

void NcclGroup::fail_by(ncclResult_t result, const std::string& doing) {
    fail(code_of(result), fmt::format("rank {} of {}: {} failed; NCCL says {}", rank_, size_, doing,
                                      last_words(result)));
}

void NcclGroup::abort(const std::string& reason) { fail(ErrorCode::aborted, reason); }

CommunicatorStatus NcclGroup::status() {
    if (!state_.aborted())
        hear_others(kHearEveryWhenAsked);
    return state_.status();
}

void NcclGroup::hear_others(std::chrono::milliseconds at_most_every) {
    if (size_ == 1 || !runtime_->rendezvous.has)
        return;
    const std::unique_lock lock(hear_mutex_, std::try_to_lock);
    if (!lock.owns_lock() || Clock::now() - heard_at_ < at_most_every)
        return;
    try {
        const std::string key = abort_key(name_);
        const bool aborted = runtime_->rendezvous.has(key);
        heard_at_ = Clock::now();
        if (!aborted)
            return;
        const std::string reason = runtime_->rendezvous.get(key, std::chrono::seconds(10));
        told_by_others_ = true;
        fail(ErrorCode::aborted, reason);
    } catch (const std::exception&) {  // a store that is gone is somebody else's failure
    }
}

void NcclGroup::look_for_errors(const NcclOperation& operation) {
    ncclResult_t result = ncclSuccess;
    {
        const std::unique_lock lock(nccl_mutex_, std::try_to_lock);
        if (!lock.owns_lock() || stopping_ || comm_ == nullptr)
            return;
        const CudaDevice::Current current(*runtime_->device);
        const ncclResult_t asked = runtime_->nccl.CommGetAsyncError(comm_, &result);
        if (asked != ncclSuccess)
            result = asked;
    }
    if (result == ncclSuccess || result == ncclInProgress)
        return;
    // A rank that aborts or fails says why, and only then lets go of NCCL: its reason is better
    // than a closed socket.
    const Deadline deadline = Deadline::after(kReasonComesWithin);
    while (result == ncclRemoteError && !state_.aborted() && !deadline.passed()) {
        hear_others(std::chrono::milliseconds::zero());
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    fail_by(result, describe(operation.call));
}

NcclGroup::Operation NcclGroup::oldest_pending() {
    for (;;) {
        Operation oldest;
        {
            const std::scoped_lock lock(pending_mutex_);
            if (pending_.empty())
                return nullptr;
            oldest = pending_.front();
        }
        if (!is_over(oldest) || state_.aborted())
            return oldest;
        const std::scoped_lock lock(pending_mutex_);
        if (!pending_.empty() && pending_.front() == oldest)
            pending_.pop_front();
    }
}

void NcclGroup::look_after() {
    try {
        runtime_->device->let_capture_be();
        if (!state_.aborted())
            look_at_pending();
    } catch (const std::exception& error) {
        fail(ErrorCode::system, fmt::format("rank {} of {}: {}", rank_, size_, error.what()));
    }
    if (state_.aborted())
        begin_stop();
}

void NcclGroup::look_at_pending() {
    const Clock::time_point now = Clock::now();
    if (const Clock::rep since = calling_since_; since != 0) {
        const auto age = now - Clock::time_point(Clock::duration(since));
        if (age > kSuspicious)
            hear_others(kHearEvery);
        if (age > runtime_->timeout + kGrace) {
            fail(ErrorCode::timeout,
                 fmt::format("rank {} of {}: NCCL did not return from a call within {} ms", rank_,
                             size_, runtime_->timeout.count()));
        }
    }
    const Operation oldest = oldest_pending();
    if (!oldest)
        return;
    look_for_errors(*oldest);
    const auto age = now - oldest->started;
    if (age > kSuspicious)
        hear_others(kHearEvery);
    if (age > runtime_->timeout + kGrace) {
        fail(ErrorCode::timeout,
             fmt::format("rank {} of {}: {} did not end within {} ms", rank_, size_,
                         describe(oldest->call), runtime_->timeout.count()));
    }
}

void NcclGroup::stop() {
    if (!state_.aborted())
        return;
    const std::shared_future<void> stopped = begin_stop();
    if (stopped.valid())
        stopped.wait_for(kLongestStop);
}

// In a thread of its own: NCCL waits for the communicator's kernels, and these may wait on their
// streams for another communicator's, which must be stopped meanwhile. The thread holds the group,
// and may outlive all others who do.
std::shared_future<void> NcclGroup::begin_stop() {
    const std::scoped_lock lock(stop_mutex_);
    if (stopped_.valid())
        return stopped_;
    std::promise<void> done;
    try {
        auto stopped = done.get_future().share();
        std::thread([group = shared_from_this(), done = std::move(done)]() mutable {
            group->let_go();
            group = nullptr;  // first: who waits then ends the group, and not this thread while the
                              // process exits
            done.set_value();
        }).detach();
        stopped_ = std::move(stopped);
    } catch (const std::system_error&) {  // no more threads; the watchdog tries again
    }
    return stopped_;
}

void NcclGroup::let_go() {
    runtime_->device->let_capture_be();
    // Side by side: a store that is slow must not keep the GPU busy, nor an NCCL that hangs the
    // others in the dark.
    std::thread publisher([this] { publish(); });
    try {
        stop_nccl();
    } catch (const std::exception&) {  // the driver is gone, and the GPU's work with it
    }
    publisher.join();
}

void NcclGroup::publish() {
    if (told_by_others_ || size_ == 1 || !runtime_->rendezvous.set)
        return;
    try {
        runtime_->rendezvous.set(abort_key(name_), state_.reason());
    } catch (const std::exception&) {  // then the others find out by NCCL or by their deadline
    }
}

void NcclGroup::stop_nccl() {
    {
        // Whoever holds it for longer is stuck in NCCL, and this is what frees it.
        const auto lock = lock_within(nccl_mutex_, std::chrono::seconds(1));
        stopping_ = true;
    }
    if (comm_ == nullptr)
        return;
    const CudaDevice::Current current(*runtime_->device);
    const NcclLibrary& nccl = runtime_->nccl;
    if (nccl.CommRevoke != nullptr) {
        ncclResult_t result = nccl.CommRevoke(comm_, kNcclRevokeDefault);
        const Deadline deadline = Deadline::after(kLongestStop);
        for (Backoff backoff; result == ncclInProgress && !deadline.passed(); backoff.pause())
            if (nccl.CommGetAsyncError(comm_, &result) != ncclSuccess)
                result = ncclInternalError;
        revoked_ = result == ncclSuccess;
        if (revoked_)
            return;
    }
    nccl.CommAbort(std::exchange(comm_, nullptr));
}

// Nobody holds the group any more, until the thread that stops it does.
void NcclGroup::end(NcclGroup* group) {
    const std::shared_ptr<NcclGroup> last(group);
    // A trainer that fails would otherwise wait for ranks that wait for it in a collective.
    if (std::uncaught_exceptions() > last->exceptions_at_birth_)
        last->fail(ErrorCode::aborted,
                   fmt::format("an exception ended the trainer of rank {}", last->rank_));
    last->stop();
}

NcclGroup::~NcclGroup() {
    try {
        leave();
    } catch (const std::exception&) {  // the driver is gone
    }
}

// A revoked communicator is destroyed without being finalized.
void NcclGroup::leave() {
    if (comm_ == nullptr)
        return;
    const CudaDevice::Current current(*runtime_->device);
    const NcclLibrary& nccl = runtime_->nccl;
    if (!revoked_) {
        ncclResult_t result = nccl.CommFinalize(comm_);
        const Deadline deadline =
            Deadline::after(std::min<Clock::duration>(runtime_->timeout, kLongestFarewell));
        for (Backoff backoff; result == ncclInProgress && !deadline.passed(); backoff.pause())
            if (nccl.CommGetAsyncError(comm_, &result) != ncclSuccess)
                result = ncclInternalError;
        if (result != ncclSuccess) {
            nccl.CommAbort(std::exchange(comm_, nullptr));
            return;
        }
    }
    nccl.CommDestroy(std::exchange(comm_, nullptr));
}

std::shared_ptr<NcclGroup> NcclGroup::shrink(std::span<const int> lost) {
    const auto is_lost = [&](int rank) {
        return std::binary_search(lost.begin(), lost.end(), rank);
    };
    int rank = 0;
    for (int other = 0; other < rank_; ++other)
        rank += is_lost(other) ? 0 : 1;
    const int size = size_ - static_cast<int>(lost.size());
    std::string name = name_ + "/shrunk";
    for (const int one : lost)
        name += fmt::format("-{}", one);
    fail(ErrorCode::aborted, fmt::format("rank {} shrinks the group", rank_));
    stop();
    // Not ncclCommShrink: it takes over nothing of what was revoked, and needs a revoke that worked
    // on every survivor; but whoever saw the network's error has it told by ncclCommGetAsyncError
    // for good, and aborts.
    return connect(runtime_, name, rank, size);
}

}  // namespace autolaunch
