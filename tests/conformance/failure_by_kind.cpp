#include "failure_by_kind.hpp"

#include "expect.hpp"

#include <autolaunch/error.hpp>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace autolaunch::conformance {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = CollectiveKind;

constexpr auto kLongAfter = std::chrono::seconds(50);  // nobody waits for the timeout of 100 s

/// Buffers for one call of any kind by a group of `ranks`.
class Caller {
public:
    /// `count` elements for each rank.
    Caller(int ranks, std::size_t count)
        : count_(count), send_(count * static_cast<std::size_t>(ranks)), recv_(send_) {}

    void operator()(Communicator& comm, Kind kind) {
        const auto total = send_.size();
        switch (kind) {
            case Kind::all_reduce:
                comm.all_reduce(send_.data(), recv_.data(), total, f32, ReduceOp::sum).wait();
                break;
            case Kind::reduce:
                comm.reduce(send_.data(), recv_.data(), total, f32, ReduceOp::max, 0).wait();
                break;
            case Kind::broadcast:
                comm.broadcast(recv_.data(), total, f32, 0).wait();
                break;
            case Kind::all_gather:
                comm.all_gather(send_.data(), recv_.data(), count_, f32).wait();
                break;
            case Kind::reduce_scatter:
                comm.reduce_scatter(send_.data(), recv_.data(), count_, f32, ReduceOp::sum).wait();
                break;
            case Kind::all_to_all:
                comm.all_to_all(send_.data(), recv_.data(), count_, f32).wait();
                break;
            case Kind::gather:
                comm.gather(send_.data(), recv_.data(), count_, f32, 0).wait();
                break;
            case Kind::scatter:
                comm.scatter(send_.data(), recv_.data(), count_, f32, 0).wait();
                break;
            default:
                ring(comm);
        }
    }

private:
    void ring(Communicator& comm) {
        if (comm.size() == 1)
            return comm.barrier();
        comm.group_start();
        comm.send(send_.data(), send_.size(), f32, (comm.rank() + 1) % comm.size());
        comm.recv(recv_.data(), recv_.size(), f32, (comm.rank() + comm.size() - 1) % comm.size());
        comm.group_end().wait();
    }

    std::size_t count_;
    std::vector<float> send_, recv_;
};

/// Joins at the end, whatever happens before.
class Thread {
public:
    explicit Thread(std::function<void()> work) : thread_(std::move(work)) {}
    ~Thread() { thread_.join(); }

private:
    std::thread thread_;
};

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

}  // namespace

namespace {

/// A part of the group for a kind of call, and its buffers: MPI may use them after an abort for as
/// long as any group of the process calls it.
struct Part {
    Communicator comm;
    Kind kind;
    Caller call;
};

std::vector<Part> part_for_each_kind(Communicator& comm, std::size_t count) {
    std::vector<Part> parts;
    for (const Kind kind : kAllKinds)
        parts.push_back({comm.split(0, comm.rank()).value(), kind, Caller(comm.size(), count)});
    return parts;
}

/// Side by side in threads, so that what is waited for is waited for once.
void in_each(std::vector<Part>& parts, const std::function<void(Part&)>& act) {
    std::vector<std::future<void>> acts;
    for (Part& part : parts)
        acts.push_back(std::async(std::launch::async, [&] { act(part); }));
    for (auto& running : acts)
        running.get();
}

void expect_abort(Part& part) {
    const std::string reason = fmt::format("enough of {}", name_of(part.kind));
    const auto start = Clock::now();
    std::optional<Thread> other;
    if (part.comm.rank() == static_cast<int>(part.kind) % part.comm.size())
        other.emplace([&] {
            sleep_ms(5);
            part.comm.abort(reason);
        });
    expect_throws<AbortedError>(
        "an abort ends " + std::string(name_of(part.kind)),
        [&] {
            for (;;)
                part.call(part.comm, part.kind);
        },
        [&](const AbortedError& error) { return mentions(error, reason); });
    expect(Clock::now() - start < kLongAfter, "an abort ends a call long before the timeout");
    expect(part.comm.status() == CommunicatorStatus::aborted, "an aborted part says so");
}

/// The part's last rank does not come.
void expect_timeout(Part& part) {
    if (part.comm.rank() == part.comm.size() - 1) {
        const auto start = Clock::now();
        while (part.comm.status() == CommunicatorStatus::ok) {
            expect(Clock::now() - start < kLongAfter, "the others give up after the timeout");
            sleep_ms(5);
        }
        return;
    }
    expect_throws<Error>(
        fmt::format("nobody waits in {} for longer than the timeout", name_of(part.kind)),
        [&] {
            for (;;)
                part.call(part.comm, part.kind);
        },
        [&](const Error& error) {
            return (error.code() == ErrorCode::timeout || error.code() == ErrorCode::aborted) &&
                   mentions(error, "rank ") &&
                   mentions(error, part.kind == Kind::send ? "send" : name_of(part.kind));
        });
}

}  // namespace

void abort_in_each_kind(Communicator& comm) {
    std::vector<Part> parts = part_for_each_kind(comm, 30'000);
    in_each(parts, expect_abort);
    try {
        comm.barrier();             // the group itself goes on
    } catch (const Error& error) {  // a quicker rank has left it already, and ended the group
        expect(std::string_view(error.what()).find("done") != std::string_view::npos,
               "the group is ended at the end alone");
    }
    comm.abort("done");
}

void absent_rank_in_each_kind(Communicator& comm) {
    // More than fits anywhere on the way: nobody gets rid of it alone. No barrier afterwards: ranks
    // come out of their parts up to a timeout apart, and it has the same.
    std::vector<Part> parts = part_for_each_kind(comm, 300'000);
    in_each(parts, expect_timeout);
    comm.abort("done");
}

namespace {

/// What all ranks but the last call, and what the last one calls.
struct Mismatch {
    const char* name;
    std::function<void(Communicator&, void*)> others;
    std::function<void(Communicator&, void*)> last;
    std::string_view other_text;
    std::string_view last_text;
    bool is_late = false;
};

const std::vector<Mismatch>& mismatches() {
    using C = Communicator;
    static const std::vector<std::size_t> kAscending = {1, 2, 3, 4}, kDescending = {4, 3, 2, 1};
    const auto first = [](const std::vector<std::size_t>& counts, C& comm) {
        return std::span(counts).first(static_cast<std::size_t>(comm.size()));
    };
    const auto apart = [](void* buffer) { return static_cast<float*>(buffer) + 2048; };
    static const std::vector<Mismatch> kMismatches = {
        {"kinds", [](C& c, void* p) { c.all_reduce(p, p, 8, f32, ReduceOp::sum); },
         [](C& c, void*) { c.barrier(); }, "all_reduce (sum) of 8 elements of f32", "barrier"},
        {"kinds with one size", [](C& c, void* p) { c.broadcast(p, 8, f32, 0); },
         [](C& c, void* p) { c.all_reduce(p, p, 8, f32, ReduceOp::max); }, "broadcast",
         "all_reduce (max)"},
        {"operations", [](C& c, void* p) { c.all_reduce(p, p, 8, f32, ReduceOp::sum); },
         [](C& c, void* p) { c.all_reduce(p, p, 8, f32, ReduceOp::prod); }, "(sum)", "(prod)"},
        {"types", [](C& c, void* p) { c.all_reduce(p, p, 8, i32, ReduceOp::sum); },
         [](C& c, void* p) { c.all_reduce(p, p, 8, f32, ReduceOp::sum); }, "of i32", "of f32"},
        {"sizes", [](C& c, void* p) { c.broadcast(p, 999, f32, 0); },
         [](C& c, void* p) { c.broadcast(p, 1000, f32, 0); }, "999 elements of f32",
         "1000 elements of f32"},
        {"sizes of nothing", [](C& c, void* p) { c.all_reduce(p, p, 0, f32, ReduceOp::sum); },
         [](C& c, void* p) { c.all_reduce(p, p, 1, f32, ReduceOp::sum); }, "0 elements",
         "1 elements"},
        {"roots", [](C& c, void* p) { c.broadcast(p, 8, f32, 0); },
         [](C& c, void* p) { c.broadcast(p, 8, f32, 1); }, "rank 0", "rank 1", true},
        {"roots of reduce", [](C& c, void* p) { c.reduce(p, p, 8, f32, ReduceOp::sum, 1); },
         [](C& c, void* p) { c.reduce(p, p, 8, f32, ReduceOp::sum, 0); }, "to rank 1", "to rank 0",
         true},
        {"counts",
         [first, apart](C& c, void* p) {
             c.reduce_scatter_v(p, apart(p), first(kAscending, c), f32, ReduceOp::sum);
         },
         [first, apart](C& c, void* p) {
             c.reduce_scatter_v(p, apart(p), first(kDescending, c), f32, ReduceOp::sum);
         },
         "reduce_scatter", "reduce_scatter"},
    };
    return kMismatches;
}

}  // namespace

void each_mismatch_is_named(Communicator& comm) {
    const bool is_last = comm.rank() == comm.size() - 1;
    std::vector<float> data(4096);
    for (const Mismatch& mismatch : mismatches()) {
        Communicator part = comm.split(0, comm.rank()).value();
        // A rank that comes late finds the group aborted for the difference that another one saw.
        expect_throws<Error>(
            fmt::format("different {} are named", mismatch.name),
            [&] {
                (is_last ? mismatch.last : mismatch.others)(part, data.data());
                for (int i = 0; i < 100; ++i)
                    part.barrier();
            },
            [&](const Error& error) {
                if (error.code() != ErrorCode::mismatch && error.code() != ErrorCode::aborted)
                    return false;
                // Where a root waits for nobody, the next collective shows it.
                if (mismatch.is_late &&
                    mentions(error, "called different collectives some time before"))
                    return true;
                return mentions(error, mismatch.other_text) &&
                       mentions(error, mismatch.last_text) &&
                       mentions(error, fmt::format("{}", comm.size() - 1)) &&
                       mentions(error, "rank");
            });
    }
    comm.abort("done");
}

void killed_rank_in(CollectiveKind kind, Communicator& comm) {
    Caller call(comm.size(), 200'000);
    const int victim = comm.size() - 1;
    comm.barrier();
    std::optional<Thread> killer;
    if (comm.rank() == victim)
        killer.emplace([] {
            sleep_ms(15);
            ::kill(::getpid(), SIGKILL);
        });
    const auto start = Clock::now();
    expect_throws<Error>(
        fmt::format("a rank that dies in {} is named", name_of(kind)),
        [&] {
            for (;;)
                call(comm, kind);
        },
        [&](const Error& error) {
            return (error.code() == ErrorCode::closed || error.code() == ErrorCode::aborted) &&
                   mentions(error, fmt::format("rank {} ", victim));
        });
    expect(Clock::now() - start < kLongAfter, "a lost rank is noticed long before the timeout");
}

}  // namespace autolaunch::conformance
