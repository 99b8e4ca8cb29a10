// The suite on the shm backend; every rank is a process of its own.
#include "comm/shm/shm_backend.hpp"
#include "communicator_suite.hpp"
#include "forked_ranks.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

namespace comm_shm_test {

using namespace autolaunch;
using namespace autolaunch::conformance;

namespace {

std::vector<int> run_case(const Case& test, int size) {
    Broadcast address(size - 1);
    return run_forked_ranks(size, [&](int rank) {
        const ShmRendezvous rendezvous{
            [&](const std::string& text) { address.publish(text); },
            [&](std::chrono::milliseconds timeout) { return address.fetch(timeout); }};
        Communicator comm(ShmBackend::create(rendezvous, rank, size, test.timeout));
        test.run(comm);
    });
}

void check_statuses(const Case& test, const std::vector<int>& statuses) {
    for (std::size_t rank = 0; rank < statuses.size(); ++rank) {
        CAPTURE(rank);
        const bool victim = test.needs == Needs::loss_detection && rank + 1 == statuses.size();
        if (victim) {
            CHECK((WIFSIGNALED(statuses[rank]) && WTERMSIG(statuses[rank]) == SIGKILL));
        } else {
            CHECK((WIFEXITED(statuses[rank]) && WEXITSTATUS(statuses[rank]) == 0));
        }
    }
}

bool shows_something(const Case& test, int size) {
    return size >= test.min_ranks && (test.max_ranks == 0 || size <= test.max_ranks);
}

void run_suite(int size) {
    for (const Case& test : cases()) {
        if (!shows_something(test, size))
            continue;
        CAPTURE(std::string(test.name));
        check_statuses(test, run_case(test, size));
    }
}

void run_named(const char* name, int size) {
    const auto test = std::find_if(cases().begin(), cases().end(),
                                   [&](const Case& one) { return one.name == name; });
    REQUIRE(test != cases().end());
    CAPTURE(size);
    check_statuses(*test, run_case(*test, size));
}

/// Ranks as threads of this process; what one throws is printed and fails the test.
void run_in_threads(const Case& test, int size) {
    Broadcast address(size - 1);
    std::atomic<int> failed{0};
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < size; ++rank) {
        ranks.emplace_back([&, rank] {
            const ShmRendezvous rendezvous{
                [&](const std::string& text) { address.publish(text); },
                [&](std::chrono::milliseconds timeout) { return address.fetch(timeout); }};
            try {
                Communicator comm(ShmBackend::create(rendezvous, rank, size, test.timeout));
                test.run(comm);
            } catch (const std::exception& error) {
                std::fprintf(stderr, "%s: rank %d: %s\n", std::string(test.name).c_str(), rank,
                             error.what());
                ++failed;
            }
        });
    }
    for (std::thread& rank : ranks)
        rank.join();
    CHECK(failed == 0);
}

}  // namespace

TEST_CASE("shm with 1 rank") { run_suite(1); }
TEST_CASE("shm with 2 ranks") { run_suite(2); }
TEST_CASE("shm with 3 ranks") { run_suite(3); }
TEST_CASE("shm with 5 ranks") { run_suite(5); }
TEST_CASE("shm with every number of ranks up to 16") {
    for (const int size : {4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
        run_named("pairs_of_properties", size);
    for (const int size : {4, 7, 16})
        run_named("sums_are_pairwise", size);
}
TEST_CASE("shm with threads as ranks") {
    for (const int size : {2, 3}) {
        for (const Case& test : cases()) {
            if (!shows_something(test, size) || test.needs == Needs::loss_detection)
                continue;
            CAPTURE(std::string(test.name));
            run_in_threads(test, size);
        }
    }
}

TEST_CASE("a rank that ends before it attaches to a split part is noticed") {
    Broadcast address(2);
    const auto statuses = run_forked_ranks(3, [&](int rank) {
        const ShmRendezvous rendezvous{
            [&](const std::string& text) { address.publish(text); },
            [&](std::chrono::milliseconds timeout) { return address.fetch(timeout); }};
        Communicator comm(ShmBackend::create(rendezvous, rank, 3, std::chrono::seconds(60)));
        if (rank == 2)
            ::kill(::getpid(), SIGKILL);
        try {
            (void)comm.split(0, 0);
        } catch (const Error& error) {
            if (error.code() == ErrorCode::closed)
                return;
            throw;
        }
        throw std::runtime_error("the split succeeded without rank 2");
    });
    CHECK(statuses[0] == 0);
    CHECK(statuses[1] == 0);
}

TEST_CASE("killing every rank leaves nothing behind in /dev/shm") {
    const auto entries = [] {
        std::set<std::string> names;
        for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
            const std::string name = entry.path().filename();
            if (name.find("autolaunch") != std::string::npos)
                names.insert(name);
        }
        return names;
    };
    const auto before = entries();
    Broadcast address(1);
    const auto statuses = run_forked_ranks(2, [&](int rank) {
        const ShmRendezvous rendezvous{
            [&](const std::string& text) { address.publish(text); },
            [&](std::chrono::milliseconds timeout) { return address.fetch(timeout); }};
        // Rank 1 dies before it attaches, rank 0 while it waits for that.
        if (rank == 1)
            ::kill(::getpid(), SIGKILL);
        std::thread([] {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            ::kill(::getpid(), SIGKILL);
        }).detach();
        ShmBackend::create(rendezvous, rank, 2, std::chrono::seconds(60));
    });
    CHECK(WIFSIGNALED(statuses[0]));
    CHECK(WIFSIGNALED(statuses[1]));
    CHECK(entries() == before);
}

TEST_CASE("a stale or foreign address is refused") {
    const ShmRendezvous gone{
        nullptr, [](std::chrono::milliseconds) { return std::string("1999999999 3 abc"); }};
    CHECK_THROWS_AS(ShmBackend::create(gone, 1, 2, std::chrono::seconds(1)), Error);
    const ShmRendezvous garbled{nullptr,
                                [](std::chrono::milliseconds) { return std::string("hello"); }};
    CHECK_THROWS_AS(ShmBackend::create(garbled, 1, 2, std::chrono::seconds(1)), Error);
}

}  // namespace comm_shm_test
