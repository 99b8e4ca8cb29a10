// Real processes that leave their CPUs, and the watch that notices it.

#include "placement_watch/placement_watch.hpp"

#include "base/affinity.hpp"
#include "base/deadline.hpp"

#include <doctest/doctest.h>

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

namespace placement_watch_test {

using autolaunch::affinity_of;
using namespace autolaunch::launcher;
using namespace std::chrono_literals;

namespace {

void bind(pid_t thread, const std::vector<int>& cpus) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int cpu : cpus)
        CPU_SET(static_cast<std::size_t>(cpu), &set);
    ::sched_setaffinity(thread, sizeof set, &set);
}

/// A process that waits to be killed, after `begin`.
class Process {
public:
    explicit Process(const std::function<void()>& begin = [] {}) : pid_(::fork()) {
        if (pid_ != 0)
            return;
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        begin();
        for (;;)
            ::pause();
    }
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;
    ~Process() { end(); }
    void end() {
        if (pid_ <= 0)
            return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }
    pid_t pid() const { return pid_; }

private:
    pid_t pid_;
};

std::vector<int> own_cpus() { return affinity_of(0).value(); }

constexpr PlacementWatch::Times kQuick{20ms, 20ms};

}  // namespace

TEST_CASE("the kernel's account of threads") {
    const Process process([] {
        std::thread([] {
            ::prctl(PR_SET_NAME, "wanderer");
            bind(0, {own_cpus().back()});
            for (;;)
                ::pause();
        }).detach();
    });
    std::vector<ThreadPlacement> threads;
    const auto deadline = autolaunch::Deadline::after(20s);
    while (!deadline.passed()) {
        threads = threads_of(process.pid());
        if (threads.size() == 2 && threads[1].cpus.size() == 1 && threads[1].name == "wanderer")
            break;
        std::this_thread::sleep_for(1ms);
    }
    REQUIRE(threads.size() == 2);
    CHECK(threads[0].thread == process.pid());
    CHECK(threads[0].cpus == own_cpus());
    CHECK(threads[1].name == "wanderer");
    CHECK(threads[1].cpus == std::vector<int>{own_cpus().back()});
}

TEST_CASE("a process that is gone has no place, and is no drift") {
    Process process;
    const pid_t pid = process.pid();
    process.end();
    CHECK_FALSE(affinity_of(pid));
    CHECK(threads_of(pid).empty());
    NumaMapsReader reader(pid);
    CHECK(reader.read_some());
    CHECK(reader.bytes().empty());

    asio::io_context io;
    int drifts = 0;
    PlacementWatch watch(io, {{0, 0, pid, {{0}, {0}}}}, kQuick, [&](const auto&) { ++drifts; });
    CHECK(watch.count_bound() == 1);
    io.run_for(200ms);
    CHECK(drifts == 0);
}

TEST_CASE("leaving the planned CPUs is told once") {
    if (own_cpus().size() < 2) {
        MESSAGE("skipped: one CPU is all there is");
        return;
    }
    const int first = own_cpus()[0], second = own_cpus()[1];
    Process stays([&] { bind(0, {first}); }), leaves([&] { bind(0, {second}); });
    const auto deadline = autolaunch::Deadline::after(20s);
    while ((affinity_of(stays.pid())->size() != 1 || affinity_of(leaves.pid())->size() != 1) &&
           !deadline.passed())
        std::this_thread::sleep_for(1ms);

    asio::io_context io;
    std::vector<PlacementWatch::Drift> told;
    PlacementWatch watch(io,
                         {{4, 0, stays.pid(), {{first}, {}}}, {5, 1, leaves.pid(), {{second}, {}}}},
                         kQuick, [&](const std::vector<PlacementWatch::Drift>& drifts) {
                             told.insert(told.end(), drifts.begin(), drifts.end());
                         });
    CHECK(watch.count_bound() == 2);
    bind(leaves.pid(), {first, second});
    CHECK(watch.count_bound() == 1);
    io.run_for(300ms);
    REQUIRE(told.size() == 1);
    CHECK(told[0].rank == 5);
    CHECK(told[0].local_rank == 1);
    CHECK_MESSAGE(told[0].what.find("may run on CPUs") == 0, told[0].what);
}

TEST_CASE("memory on a node that was not planned is told") {
    constexpr std::size_t kBytes = std::size_t{300} << 20;
    if (::access("/proc/self/numa_maps", R_OK) != 0) {
        MESSAGE("skipped: this kernel has no numa_maps");
        return;
    }
    const Process process([] {
        void* memory =
            ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (std::size_t i = 0; i < kBytes; i += 4096)
            static_cast<char*>(memory)[i] = 1;
    });
    const auto all_written = [&] {
        NumaMapsReader reader(process.pid());
        while (!reader.read_some()) {
        }
        return std::accumulate(
                   reader.bytes().begin(), reader.bytes().end(), std::uint64_t{0},
                   [](std::uint64_t sum, const auto& node) { return sum + node.second; }) >= kBytes;
    };
    const auto deadline = autolaunch::Deadline::after(60s);
    while (!all_written() && !deadline.passed())
        std::this_thread::sleep_for(10ms);

    asio::io_context io;
    std::vector<PlacementWatch::Drift> told;
    constexpr int kNoSuchNode = 4711;
    PlacementWatch watch(
        io, {{2, 0, process.pid(), {{}, {kNoSuchNode}}}}, kQuick,
        [&](const auto& drifts) { told.insert(told.end(), drifts.begin(), drifts.end()); });
    io.run_for(1s);
    REQUIRE(told.size() == 1);
    CHECK_MESSAGE(told[0].what.find("has 100 % of its memory") == 0, told[0].what);
}

}  // namespace placement_watch_test
