#include "comm/shm/peers.hpp"

#include <fmt/format.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace autolaunch::shm {
namespace {

// About 10 µs of looking: a peer that runs on its own core answers sooner. Without a core for every
// rank, looking only keeps the peer from running. Then sleep at once, without sched_yield: on a
// busy machine a yield gives whole time slices to other programs, while a woken sleeper runs soon.
constexpr int kSpins = 500;

// Whether there are fewer cores than ranks.
bool is_crowded(int size) {
    cpu_set_t cpus;
    const bool known = ::sched_getaffinity(0, sizeof cpus, &cpus) == 0;
    const int cores =
        known ? CPU_COUNT(&cpus) : static_cast<int>(std::thread::hardware_concurrency());
    // One core in the set may well be this rank's own: the others then have theirs.
    return cores != 1 && cores < size;
}

// Not FUTEX_PRIVATE: the word is shared between processes.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                std::chrono::nanoseconds longest) {
    timespec limit{};
    limit.tv_sec = static_cast<time_t>(longest.count() / 1'000'000'000);
    limit.tv_nsec = static_cast<long>(longest.count() % 1'000'000'000);
    ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, seen, &limit, nullptr,
              0);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
    ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr,
              nullptr, 0);
}

UniqueFd open_process(int pid) {
    return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

}  // namespace

Peers::Peers(const Segment& segment, int rank, int size, std::chrono::milliseconds timeout)
    : segment_(segment),
      rank_(rank),
      size_(size),
      timeout_(timeout),
      crowded_(is_crowded(size)),
      spins_(crowded_ ? 1 : kSpins),
      pidfds_(static_cast<std::size_t>(size)) {}

Peers::~Peers() {
    segment_.rank_state(rank_).presence.store(std::uint32_t(Presence::left),
                                              std::memory_order_release);
}

void Peers::gather() {
    // Before the others can know this rank: once all are here, a quick one may already abort, and
    // the group was made.
    const Operation operation = begin("creating the communicator");
    RankState& mine = segment_.rank_state(rank_);
    mine.pid.store(::getpid(), std::memory_order_relaxed);
    mine.presence.store(std::uint32_t(Presence::attached), std::memory_order_release);
    wake_all();
    for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_)
            continue;
        RankState& state = segment_.rank_state(peer);
        wait(peer, operation, [&] { return state.presence.load(std::memory_order_acquire) != 0; });
        UniqueFd& pidfd = pidfds_[static_cast<std::size_t>(peer)];
        if (!pidfd)
            pidfd = open_process(state.pid.load(std::memory_order_relaxed));
    }
}

Deadline& Peers::deadline_of(const Operation& operation) const {
    if (!operation.deadline)
        operation.deadline = Deadline::after(timeout_);
    return *operation.deadline;
}

void Peers::relax() noexcept {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

void Peers::wait_long(int peer, const Operation& operation, const std::function<bool()>& ready) {
    settle();
    RankState& state = segment_.rank_state(peer);
    for (;;) {
        sleep_until_signal(state, operation, ready);
        if (ready())
            return;
        throw_if_aborted();
        // What the peer published just before it went is still there: look once more.
        if (gone(peer)) {
            if (ready())
                return;
            fail_closed(peer, operation);
        }
        if (deadline_of(operation).passed())
            fail_timeout(peer, operation);
    }
}

// publish() stores the counter, then looks for sleepers, and for them lets `signal` grow; this
// counts itself as a sleeper, looks at the counter, then sleeps if `signal` is as it was. One of
// the two sees the other: each has a fence between its steps, but for publish_lightly(). The first
// sleep is a nap for its sake: after that a store of a moment ago has long been seen.
void Peers::sleep_until_signal(RankState& peer, const Operation& operation,
                               const std::function<bool()>& ready) {
    using std::chrono::nanoseconds;
    peer.sleepers.fetch_add(1, std::memory_order_seq_cst);
    for (const nanoseconds longest : {nanoseconds(kNap), nanoseconds(kPatience)}) {
        const std::uint32_t seen = peer.signal.load(std::memory_order_seq_cst);
        full_fence();
        if (ready() || aborted())
            break;
        const auto left =
            std::chrono::duration_cast<nanoseconds>(deadline_of(operation).remaining());
        futex_wait(peer.signal, seen, std::min(left, longest));
    }
    peer.sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void Peers::publish(std::atomic<std::uint64_t>& counter, std::uint64_t value) {
    publish_quietly(counter, value);
    settle();
}

void Peers::settle() {
    if (!unsettled_)
        return;
    unsettled_ = false;
    full_fence();
    wake_sleepers();
}

void Peers::full_fence() noexcept {
#if defined(__SANITIZE_THREAD__)
    // TSan knows no fences. This one does as well as far as it can tell.
    static std::atomic<int> all;
    all.fetch_add(1, std::memory_order_seq_cst);
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

void Peers::ring(RankState& state) {
    state.signal.fetch_add(1, std::memory_order_seq_cst);
    futex_wake(state.signal);
}

void Peers::publish_to(int peer, std::atomic<std::uint64_t>& counter, std::uint64_t value) {
    counter.store(value, std::memory_order_release);
    RankState& theirs = segment_.rank_state(peer);
    theirs.bell.fetch_add(1, std::memory_order_seq_cst);
    if (theirs.hears_bell.load(std::memory_order_seq_cst) != 0)
        futex_wake(theirs.bell);
}

void Peers::wait_for_bell(const Operation& operation, const std::function<bool()>& advance,
                          const std::function<std::vector<int>()>& waiting_for) {
    for (int i = 0; i < spins_; ++i) {
        if (advance())
            return;
        relax();
    }
    for (;;) {
        bool advanced = false;
        sleep_until_bell(operation, advance, advanced);
        if (advanced || advance())
            return;
        throw_if_aborted();
        for (const int peer : waiting_for()) {
            // As in wait_long(): what the peer published before it went is still there.
            if (gone(peer)) {
                if (advance())
                    return;
                fail_closed(peer, operation);
            }
            if (deadline_of(operation).passed())
                fail_timeout(peer, operation);
        }
    }
}

void Peers::sleep_until_bell(const Operation& operation, const std::function<bool()>& advance,
                             bool& advanced) {
    RankState& mine = segment_.rank_state(rank_);
    const std::uint32_t seen = mine.bell.load(std::memory_order_acquire);
    mine.hears_bell.store(1, std::memory_order_seq_cst);
    advanced = advance();
    if (!advanced && !aborted()) {
        using std::chrono::nanoseconds;
        const auto left =
            std::chrono::duration_cast<nanoseconds>(deadline_of(operation).remaining());
        futex_wait(mine.bell, seen, std::min(left, nanoseconds(kPatience)));
    }
    mine.hears_bell.store(0, std::memory_order_relaxed);
}

bool Peers::gone(int peer) {
    const RankState& state = segment_.rank_state(peer);
    if (state.presence.load(std::memory_order_acquire) == std::uint32_t(Presence::left))
        return true;
    const int pid = state.pid.load(std::memory_order_relaxed);
    UniqueFd& pidfd = pidfds_[static_cast<std::size_t>(peer)];
    if (!pidfd && pid != 0)
        pidfd = open_process(pid);
    if (!pidfd)
        return pid != 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
    pollfd ended{pidfd.get(), POLLIN, 0};
    return ::poll(&ended, 1, 0) == 1;
}

void Peers::fail_closed(int peer, const Operation& operation) {
    const int pid = segment_.rank_state(peer).pid.load(std::memory_order_relaxed);
    const std::string text =
        fmt::format("rank {} (pid {}) went away during {}", peer, pid, operation.name);
    abort_for(ErrorCode::closed, text);
    throw Error(ErrorCode::closed, text, "its own output says why it ended");
}

void Peers::fail_timeout(int peer, const Operation& operation) {
    const std::string text =
        fmt::format("rank {} waited {} s for rank {} in {}", rank_,
                    std::chrono::duration<double>(timeout_).count(), peer, operation.name);
    abort_for(ErrorCode::timeout, text);
    throw TimeoutError(text, "that rank is stuck elsewhere or has not called the collective");
}

void Peers::abort(const std::string& reason) {
    abort_for(ErrorCode::aborted, fmt::format("rank {}: {}", rank_, reason));
}

void Peers::abort_for(ErrorCode code, const std::string& text) {
    told_.store(true);
    Header& header = segment_.header();
    auto none = std::uint32_t(AbortPhase::none);
    if (header.abort_phase.compare_exchange_strong(none, std::uint32_t(AbortPhase::writing))) {
        header.abort_code = static_cast<std::int32_t>(code);
        const std::size_t length = std::min(text.size(), sizeof(header.abort_text) - 1);
        std::memcpy(header.abort_text, text.data(), length);
        header.abort_phase.store(std::uint32_t(AbortPhase::written), std::memory_order_release);
    }
    wake_all();
}

void Peers::throw_if_aborted() {
    if (!aborted())
        return;
    const Header& header = segment_.header();
    // The writer may be killed between its two steps, so nobody waits for the text longer than a
    // moment.
    const Deadline moment = Deadline::after(kPatience);
    while (header.abort_phase.load(std::memory_order_acquire) !=
           std::uint32_t(AbortPhase::written)) {
        if (moment.passed())
            throw AbortedError("the communicator was aborted");
        ::sched_yield();
    }
    const auto code = static_cast<ErrorCode>(header.abort_code);
    const bool specific = code == ErrorCode::closed || code == ErrorCode::mismatch;
    if (specific && !told_.exchange(true))
        throw Error(code, header.abort_text);
    throw AbortedError(std::string("the communicator was aborted: ") + header.abort_text);
}

void Peers::wake_all() {
    for (int rank = 0; rank < size_; ++rank) {
        RankState& state = segment_.rank_state(rank);
        for (std::atomic<std::uint32_t>* word : {&state.signal, &state.bell}) {
            word->fetch_add(1, std::memory_order_seq_cst);
            futex_wake(*word);
        }
    }
}

}  // namespace autolaunch::shm
