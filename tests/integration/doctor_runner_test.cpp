// Checks in child processes: real limits, and file systems, libraries and resolvers that hang.

#include "../unit/fake_machine.hpp"
#include "doctor/check_runner.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace doctor_runner_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using autolaunch::launcher::testing::FakeMachine;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

/// A process that was killed may take a moment to go.
bool has_children() {
    for (int i = 0; i < 500; ++i) {
        if (::waitpid(-1, nullptr, WNOHANG) != 0)
            return false;
        std::this_thread::sleep_for(10ms);
    }
    return true;
}

const Finding* finding_of(const NodeReport& report, const std::string& check) {
    for (const Finding& finding : report.findings)
        if (finding.check == check)
            return &finding;
    return nullptr;
}

std::string why_unchecked(const NodeReport& report, const std::string& check) {
    for (const Unchecked& entry : report.unchecked)
        if (entry.check == check)
            return entry.why;
    return {};
}

bool is_fine(const NodeReport& report, const std::string& check) {
    return std::find(report.fine.begin(), report.fine.end(), check) != report.fine.end();
}

int open_files() {
    return static_cast<int>(
        std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

}  // namespace

TEST_CASE("in children as in this process") {
    const FakeMachine machine;
    const NodeReport direct = machine.examine();
    const int before = open_files();
    NodeReport report = examine_node(machine.sources, {});
    CHECK(report.node == "node1");
    CHECK(report.findings.empty());
    CHECK(report.unchecked == direct.unchecked);
    CHECK(report.facts == direct.facts);
    CHECK(report.fine.size() == direct.fine.size());
    CHECK(open_files() == before);
    CHECK_FALSE(has_children());
}

TEST_CASE("limits of a real process") {
    const FakeMachine machine;
    NodeSources sources = machine.sources;
    sources.limit = local_sources({}).limit;
    const pid_t child = ::fork();
    if (child == 0) {
        const rlimit memlock = {65536, 65536}, nofile = {512, 512};
        if (::setrlimit(RLIMIT_MEMLOCK, &memlock) != 0 || ::setrlimit(RLIMIT_NOFILE, &nofile) != 0)
            ::_exit(2);
        const NodeReport report =
            examine_node(sources, {.only = {"memlock", "nofile"}, .skip = {}});
        const Finding* locked = finding_of(report, "memlock");
        const Finding* files = finding_of(report, "nofile");
        const bool right = locked != nullptr &&
                           locked->what.starts_with("64 KiB, needs unlimited") &&
                           files != nullptr && files->what.starts_with("at most 512 open files") &&
                           report.facts.at("memlock") == "64 KiB";
        ::_exit(right ? 0 : 1);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a file that hangs costs its own check alone") {
    const FakeMachine machine;
    machine.remove("proc/sys/kernel/numa_balancing");
    REQUIRE(::mkfifo((machine.root / "proc/sys/kernel/numa_balancing").c_str(), 0600) == 0);
    const auto start = Clock::now();
    const NodeReport report = examine_node(machine.sources, {});
    CHECK(Clock::now() - start < 8s);
    CHECK(why_unchecked(report, "numa_balancing") == "no answer within 2 s");
    for (const char* check : {"iommu", "memlock", "shm", "machine", "storage", "names"})
        CHECK_MESSAGE(is_fine(report, check), check);
    CHECK(report.findings.empty());
    CHECK_FALSE(has_children());
}

TEST_CASE("an HCA's driver that hangs or crashes costs what libibverbs was asked for") {
    if (!FakeMachine::kHasVerbs) {
        MESSAGE("skipped: this build has not libibverbs' headers");
        return;
    }
    const FakeMachine machine;
    std::string why;
    SUBCASE("hangs") {
        machine.write("verbs", "hangs ibv_open_device\ndevice mlx5_0\ndevice mlx5_1\n");
        why = "no answer within 3 s";
    }
    SUBCASE("crashes") {
        machine.write("verbs", "crashes ibv_open_device\ndevice mlx5_0\ndevice mlx5_1\n");
        why = "its process ended";
    }
    machine.remove("sys/module/nvidia_peermem");
    const auto start = Clock::now();
    const NodeReport report = examine_node(machine.sources, {});
    CHECK(Clock::now() - start < 9s);
    CHECK(why_unchecked(report, "mtu") == why);
    CHECK(why_unchecked(report, "gpudirect") == why);
    for (const char* check : {"ports", "rates", "uverbs", "memlock", "gpus", "storage"})
        CHECK_MESSAGE(is_fine(report, check), check);
    CHECK(report.findings.empty());
    CHECK_FALSE(has_children());
}

TEST_CASE("a resolver that hangs is a warning, after its time, and holds up nothing else") {
    FakeMachine machine;
    machine.sources.resolve = [](const std::string&) -> ResolvedName {
        for (;;)
            ::pause();
    };
    const auto start = Clock::now();
    const NodeReport report = examine_node(machine.sources, {}, 1s);
    CHECK(Clock::now() - start < 5s);
    const Finding* names = finding_of(report, "names");
    REQUIRE(names != nullptr);
    CHECK(names->severity == Severity::warn);
    CHECK(names->what == "no answer when the time for all checks was over");
    CHECK(is_fine(report, "storage"));
    CHECK_FALSE(has_children());
}

TEST_CASE("a process that is stopped is not waited for, and its last checks have no time") {
    FakeMachine machine;
    machine.sources.limit = [](int) -> std::optional<rlimit> {
        ::raise(SIGSTOP);
        return std::nullopt;
    };
    const auto start = Clock::now();
    const NodeReport report = examine_node(
        machine.sources, {.only = {"memlock", "nofile", "shm", "storage"}, .skip = {}}, 1s);
    CHECK(Clock::now() - start < 5s);
    CHECK(why_unchecked(report, "memlock") == "no answer when the time for all checks was over");
    CHECK(why_unchecked(report, "nofile") == "no time was left for it");
    CHECK(why_unchecked(report, "shm") == "no time was left for it");
    CHECK(is_fine(report, "storage"));
    CHECK_FALSE(has_children());
}

TEST_CASE("a process that is killed by a check leaves that check out and goes on") {
    FakeMachine machine;
    machine.sources.limit = [](int resource) -> std::optional<rlimit> {
        if (resource == RLIMIT_MEMLOCK)
            ::raise(SIGKILL);
        return rlimit{1 << 20, 1 << 20};
    };
    const NodeReport report =
        examine_node(machine.sources, {.only = {"memlock", "nofile"}, .skip = {}});
    CHECK(why_unchecked(report, "memlock") == "its process ended");
    CHECK(is_fine(report, "nofile"));
}

// A FUSE file system whose server never answers: whoever looks at it sleeps in the kernel.
TEST_CASE(
    "a file system that hangs is a failure that names the folder, and the others are looked at") {
    FakeMachine machine;
    const std::string folder = machine.root / "hangs";
    std::filesystem::create_directory(folder);
    machine.sources.folders.push_back({folder, "scratch"});
    const pid_t child = ::fork();
    if (child == 0) {
        const int fuse = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
        if (fuse < 0 ||
            ::unshare(::geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0)
            ::_exit(77);
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
        const std::string options =
            "fd=" + std::to_string(fuse) + ",rootmode=40000,user_id=0,group_id=0";
        if (::mount("hangs", folder.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) != 0)
            ::_exit(77);
        const auto start = Clock::now();
        const NodeReport report =
            examine_node(machine.sources, {.only = {"storage", "memlock"}, .skip = {}}, 1s);
        const Finding* storage = finding_of(report, "storage");
        const bool right =
            Clock::now() - start < 5s && storage != nullptr &&
            storage->severity == Severity::fail &&
            storage->what == folder + ": no answer when the time for all checks was over" &&
            report.facts.contains("storage.checkpoints") && is_fine(report, "memlock");
        ::umount2(folder.c_str(), MNT_DETACH);
        ::_exit(right ? 0 : 1);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        std::printf("skipped: a file system that hangs: no FUSE here\n");
        return;
    }
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("wait() comes back at its deadline while checks run") {
    FakeMachine machine;
    machine.sources.pause = [] { ::usleep(300'000); };
    CheckRunner runner(machine.sources, {.only = {"link_errors"}, .skip = {}});
    const auto start = Clock::now();
    CHECK_FALSE(runner.wait(Deadline::after(50ms)));
    CHECK(Clock::now() - start < 250ms);
    while (!runner.wait(Deadline::after(1s))) {
    }
    CHECK(is_fine(runner.take("node1"), "link_errors"));
}

}  // namespace doctor_runner_test
