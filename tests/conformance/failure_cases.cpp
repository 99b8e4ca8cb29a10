#include "failure_cases.hpp"

#include "expect.hpp"

#include <autolaunch/error.hpp>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace autolaunch::conformance {
namespace {

using Clock = std::chrono::steady_clock;

void expect_aborted_for_good(Communicator& comm, std::string_view reason) {
    const auto wanted = [&](const AbortedError& error) { return mentions(error, reason); };
    expect_throws<AbortedError>(
        "later barriers fail with the reason", [&] { comm.barrier(); }, wanted);
    expect_throws<AbortedError>(
        "later collectives fail with the reason", [&] { comm.all_reduce_value(1); }, wanted);
    expect(comm.status() == CommunicatorStatus::aborted, "the status says so");
}

/// Waits in barriers: a group of three may let one or two pass before the failure.
template <class E, class Wanted>
void expect_failing_barriers(Communicator& comm, const std::string& what, const Wanted& wanted) {
    expect_throws<E>(
        what,
        [&] {
            for (int i = 0; i < 100; ++i)
                comm.barrier();
        },
        wanted);
}

void pause_a_little() { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }

}  // namespace

void abort_ends_everything(Communicator& comm) {
    try {
        comm.barrier();
    } catch (const AbortedError&) {  // a rank that left the barrier first may have aborted while we
                                     // were on our way out
    }
    comm.abort("enough seen");
    comm.abort("a second reason, too late");
    expect(comm.status() == CommunicatorStatus::aborted, "aborted at once where abort was called");
    expect_throws<AbortedError>(
        "everything fails", [&] { comm.barrier(); }, [](const AbortedError&) { return true; });
}

void abort_wakes_others(Communicator& comm) {
    const auto start = Clock::now();
    if (comm.rank() == 0) {
        pause_a_little();
        comm.abort("the loss is not a number");
    } else {
        std::vector<float> data(100'000);
        expect_throws<AbortedError>(
            "a waiting collective is woken", [&] { comm.all_reduce(std::span(data)).wait(); },
            [](const AbortedError& error) { return mentions(error, "not a number"); });
    }
    expect_aborted_for_good(comm, "the loss is not a number");
    expect(Clock::now() - start < std::chrono::seconds(50), "abort wakes long before the timeout");
}

void abort_from_another_thread(Communicator& comm) {
    if (comm.rank() != 0) {
        expect_throws<AbortedError>(
            "the others are woken",
            [&] {
                // Rank 0 is alone in its barrier until these look whether the group still stands.
                while (comm.status() == CommunicatorStatus::ok)
                    std::this_thread::sleep_for(std::chrono::milliseconds(5));
                comm.barrier();
            },
            [](const AbortedError& error) { return mentions(error, "asked to stop"); });
        return;
    }
    std::thread other([&comm] {
        pause_a_little();
        comm.abort("asked to stop");
    });
    try {
        expect_throws<AbortedError>(
            "a thread's own abort wakes it", [&] { comm.barrier(); },
            [](const AbortedError& error) { return mentions(error, "asked to stop"); });
    } catch (...) {
        other.join();
        throw;
    }
    other.join();
    expect_aborted_for_good(comm, "asked to stop");
}

void absent_rank_times_out(Communicator& comm) {
    const auto start = Clock::now();
    if (comm.rank() == 0) {
        // Comes only when the others have given up; then it learns why.
        while (comm.status() == CommunicatorStatus::ok) {
            expect(Clock::now() - start < std::chrono::seconds(50),
                   "the others give up after half a second");
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        expect_throws<AbortedError>(
            "too late", [&] { comm.barrier(); }, [](const AbortedError&) { return true; });
        return;
    }
    // The first to give up aborts the group, so another may be woken by that instead.
    expect_throws<Error>(
        "nobody waits longer than the timeout", [&] { comm.all_reduce_value(1.0f); },
        [](const Error& error) {
            return error.code() == ErrorCode::timeout || error.code() == ErrorCode::aborted;
        });
    expect(Clock::now() - start >= std::chrono::milliseconds(450),
           "nobody gives up before the timeout");
    expect_aborted_for_good(comm, "all_reduce");
}

namespace {

template <class Call>
void expect_mismatch(const std::string& what, const Call& call) {
    expect_throws<Error>(what, call, [](const Error& error) {
        // A rank that comes late finds the group aborted for the mismatch that another one saw.
        return (error.code() == ErrorCode::mismatch || error.code() == ErrorCode::aborted) &&
               mentions(error, "rank");
    });
}

}  // namespace

void different_counts_are_named(Communicator& comm) {
    std::vector<float> data(1000);
    const std::size_t count = comm.rank() == 0 ? 999 : 1000;
    expect_mismatch("different counts",
                    [&] { comm.all_reduce(data.data(), data.data(), count, f32, ReduceOp::sum); });
    expect_aborted_for_good(comm, "999 elements of f32");
}

void different_calls_are_named(Communicator& comm) {
    std::vector<float> data(200'000);
    expect_mismatch("different collectives", [&] {
        if (comm.rank() == 0) {
            comm.all_reduce(std::span(data), ReduceOp::max).wait();
        } else {
            comm.barrier();
        }
    });
    expect_aborted_for_good(comm, "all_reduce (max)");
}

void different_roots_are_noticed_later(Communicator& comm) {
    float value = 1;
    expect_mismatch("different roots", [&] {
        comm.broadcast(&value, 1, f32, comm.rank() == 0 ? 0 : 1).wait();
        comm.barrier();
    });
}

void wrong_message_is_named(Communicator& comm) {
    std::vector<float> data(10);
    if (comm.rank() == 0)
        comm.send(data.data(), 9, f32, 1).wait();
    if (comm.rank() == 1) {
        expect_mismatch("a message of another size",
                        [&] { comm.recv(data.data(), 10, f32, 0).wait(); });
        expect_aborted_for_good(comm, "expects 40 bytes of f32");
    }
}

void killed_rank_is_named(Communicator& comm) {
    comm.barrier();
    const int victim = comm.size() - 1;
    if (comm.rank() == victim)
        ::kill(::getpid(), SIGKILL);
    const auto start = Clock::now();
    expect_failing_barriers<Error>(comm, "a lost rank is named", [&](const Error& error) {
        return error.code() == ErrorCode::closed &&
               mentions(error, fmt::format("rank {} ", victim));
    });
    expect(Clock::now() - start < std::chrono::seconds(50),
           "a lost rank is noticed long before the timeout");
    expect_aborted_for_good(comm, fmt::format("rank {} ", victim));
}

void killed_rank_ends_large_all_reduce(Communicator& comm) {
    const int victim = comm.size() - 1;
    std::vector<float> data(4'000'000, 1.0f);
    comm.barrier();
    std::thread killer;
    if (comm.rank() == victim) {
        killer = std::thread([] {
            pause_a_little();
            ::kill(::getpid(), SIGKILL);
        });
    }
    expect_throws<Error>(
        "a rank lost in the middle is named",
        [&] {
            for (;;)
                comm.all_reduce(std::span(data), ReduceOp::max).wait();
        },
        [&](const Error& error) {
            return error.code() == ErrorCode::closed &&
                   mentions(error, fmt::format("rank {} ", victim));
        });
    if (killer.joinable())
        killer.join();
}

}  // namespace autolaunch::conformance
