// The survivors of a group on shared memory go on in a group of their own.
#include "shm_ranks.hpp"

#include "../conformance/expect.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

namespace shm_shrink_test {

using namespace autolaunch;
using conformance::expect;
using conformance::expect_throws;
using test::run_process_ranks;
using test::run_thread_ranks;

namespace {

/// Calls collectives until `victim` is killed in the middle of one; returns on the others.
void lose(Communicator& comm, int victim) {
    std::vector<float> data(200'000, 1.0f);
    expect_throws<Error>(
        "a lost rank is noticed",
        [&] {
            for (int round = 0;; ++round) {
                if (comm.rank() == victim && round == 3)
                    ::kill(::getpid(), SIGKILL);
                comm.all_reduce(std::span(data), ReduceOp::max);
            }
        },
        [](const Error& error) {
            return error.code() == ErrorCode::closed || error.code() == ErrorCode::aborted;
        });
}

void expect_whole(Communicator& comm, int rank, int size) {
    expect(comm.rank() == rank && comm.size() == size, "survivors keep their order");
    expect(comm.all_reduce_value(1) == size, "the new group works");
    auto buffer = comm.allocate(1 << 20);
    auto values = buffer.as<float>();
    std::fill(values.begin(), values.end(), 2.0f);
    comm.all_reduce(values);
    expect(values.back() == 2.0f * static_cast<float>(size), "the new group has memory of its own");
    expect(comm.split(0, 0)->all_reduce_value(1) == size, "the new group can be split");
}

}  // namespace

TEST_CASE("survivors of a killed rank go on without it, again and again") {
    const auto statuses = run_process_ranks(5, [](Communicator& comm) {
        lose(comm, 2);
        Communicator four = comm.shrink(std::array{2});
        expect(comm.status() == CommunicatorStatus::aborted, "the old group is over");
        expect_whole(four, comm.rank() < 2 ? comm.rank() : comm.rank() - 1, 4);
        lose(four, 0);
        Communicator three = four.shrink(std::array{0});
        expect_whole(three, four.rank() - 1, 3);
    });
    for (const std::size_t victim : {0u, 2u}) {
        CHECK((WIFSIGNALED(statuses[victim]) && WTERMSIG(statuses[victim]) == SIGKILL));
    }
    for (const std::size_t survivor : {1u, 3u, 4u})
        CHECK(statuses[survivor] == 0);
}

TEST_CASE("a rank that is lost during shrink is named, and the next shrink goes without it") {
    const auto statuses = run_process_ranks(4, [](Communicator& comm) {
        lose(comm, 3);
        if (comm.rank() == 0)
            ::kill(::getpid(), SIGKILL);
        expect_throws<Error>(
            "the first survivor is lost", [&] { (void)comm.shrink(std::array{3}); },
            [](const Error& error) {
                return error.code() == ErrorCode::closed &&
                       std::string(error.what()).find("rank 0 ") != std::string::npos;
            });
        Communicator two = comm.shrink(std::array{0, 3});
        expect_whole(two, comm.rank() - 1, 2);
    });
    CHECK(statuses[1] == 0);
    CHECK(statuses[2] == 0);
}

TEST_CASE("a group that is whole can shrink too, and survivors who disagree are named") {
    run_thread_ranks(3, [](Communicator& comm) {
        if (comm.rank() == 2) {
            // Told to go: it leaves when the group is aborted.
            expect_throws<AbortedError>(
                "the group is aborted", [&] { comm.barrier(); },
                [](const AbortedError&) { return true; });
            return;
        }
        Communicator two = comm.shrink(std::array{2});
        expect_whole(two, comm.rank(), 2);
    });
    run_thread_ranks(3, [](Communicator& comm) {
        if (comm.rank() == 0) {
            expect_throws<Error>(
                "other survivors", [&] { (void)comm.shrink(std::array{2}); },
                [](const Error& error) {
                    return error.code() == ErrorCode::mismatch &&
                           std::string(error.what()).find("without ranks 2, rank 1 without 0, 2") !=
                               std::string::npos;
                });
        } else if (comm.rank() == 1) {
            Communicator alone = comm.shrink(std::array{0, 2});
            expect(alone.all_reduce_value(1) == 1, "a group of one");
        }
    });
}

}  // namespace shm_shrink_test
