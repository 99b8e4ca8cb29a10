// Real processes and a management library that is told where they compute, that hangs, and that
// crashes.

#include "placement_watch/gpu_watch.hpp"

#include "../write_file.hpp"
#include "base/deadline.hpp"
#include "base/file_io.hpp"
#include "processes.hpp"

#include <asio/steady_timer.hpp>

#include <doctest/doctest.h>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace gpu_watch_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace autolaunch::testing;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

constexpr PlacementWatch::Times kQuick{20ms, 20ms};

/// A rank that has started a process, which has started another.
class Rank {
public:
    Rank() {
        int ends[2];
        REQUIRE(::pipe(ends) == 0);
        pid_ = fork_mortal();
        if (pid_ == 0) {
            if (fork_mortal() == 0 && fork_mortal() == 0) {
                const pid_t pids[] = {::getppid(), ::getpid()};
                [[maybe_unused]] const auto written = ::write(ends[1], pids, sizeof pids);
            }
            for (;;)
                ::pause();
        }
        pid_t pids[2] = {};
        REQUIRE(::read(ends[0], pids, sizeof pids) == sizeof pids);
        child_ = pids[0];
        grandchild_ = pids[1];
        ::close(ends[0]);
        ::close(ends[1]);
    }
    Rank(const Rank&) = delete;
    Rank& operator=(const Rank&) = delete;
    ~Rank() {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    pid_t pid() const { return pid_; }
    pid_t child() const { return child_; }
    pid_t grandchild() const { return grandchild_; }

private:
    /// A process that does not outlive its parent.
    static pid_t fork_mortal() {
        const pid_t pid = ::fork();
        if (pid == 0)
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        return pid;
    }

    pid_t pid_ = -1, child_ = -1, grandchild_ = -1;
};

/// Three ranks, three GPUs, and a watch that has told what it saw.
class Node {
public:
    Node() {
        ::setenv("FAKE_NVML_MACHINE", (folder_.path() / "driver").c_str(), 1);
        fs::create_directories(proc() / "self/ns");
        for (const Rank& rank : ranks_)
            for (const pid_t pid : {rank.pid(), rank.child(), rank.grandchild()})
                show(pid);
        name_space("pid:[4026531836]");
        drives({});
    }

    pid_t rank(std::size_t i) const { return ranks_[i].pid(); }
    pid_t grandchild(std::size_t i) const { return ranks_[i].grandchild(); }
    fs::path proc() const { return folder_.path() / "proc"; }
    /// What the kernel would say our PID namespace is.
    void name_space(const std::string& name) const {
        fs::remove(proc() / "self/ns/pid");
        fs::create_symlink(name, proc() / "self/ns/pid");
    }
    /// `pids` compute on the GPUs, in their order.
    void drives(const std::vector<std::vector<pid_t>>& pids, const std::string& more = {}) const {
        std::string text = "driver 570.86.15\n" + more;
        for (std::size_t i = 0; i < 3; ++i) {
            text +=
                "gpu 0000:0" + std::to_string(i + 1) + ":00.0 GPU-" + std::to_string(i) + " H100\n";
            for (const pid_t pid : i < pids.size() ? pids[i] : std::vector<pid_t>{})
                text += "process " + std::to_string(pid) + " 1024\n";
        }
        write_file(folder_.path() / "driver", text);
    }

    void start(std::chrono::milliseconds limit = 20s) {
        GpuInquiry::Options options;
        options.limit = limit;
        options.library = FAKE_NVML;
        options.proc_root = proc();
        inquiry.emplace(io, options);
        std::vector<GpuWatch::Watched> watched;
        for (int i = 0; i < 3; ++i)
            watched.push_back(
                {8 + i,
                 i,
                 rank(static_cast<std::size_t>(i)),
                 {i, "0000:0" + std::to_string(i + 1) + ":00.0", "GPU-" + std::to_string(i)}});
        watch.emplace(
            io, *inquiry, std::move(watched), kQuick,
            GpuWatch::Callbacks{
                .on_drift =
                    [this](const auto& some) {
                        drifts.insert(drifts.end(), some.begin(), some.end());
                    },
                .on_outcome = [this](const GpuWatch::Outcome& one) { outcomes.push_back(one); }});
    }
    template <class Condition>
    bool run_until(Condition condition) {
        const Deadline deadline = Deadline::after(20s);
        while (!condition() && !deadline.passed()) {
            io.restart();
            io.run_for(5ms);
        }
        return condition();
    }

    asio::io_context io;
    std::optional<GpuInquiry> inquiry;
    std::optional<GpuWatch> watch;
    std::vector<PlacementWatch::Drift> drifts;
    std::vector<GpuWatch::Outcome> outcomes;

private:
    void show(pid_t pid) const {
        fs::create_symlink("/proc/" + std::to_string(pid), proc() / std::to_string(pid));
    }

    TemporaryFolder folder_;
    Rank ranks_[3];
};

std::vector<pid_t> children_of_ours() {
    std::vector<pid_t> pids;
    const std::string all = slurp("/proc/self/task/" + std::to_string(::getpid()) + "/children");
    std::size_t begin = 0;
    for (std::size_t end; (end = all.find(' ', begin)) != std::string::npos; begin = end + 1)
        pids.push_back(std::stoi(all.substr(begin, end - begin)));
    return pids;
}

}  // namespace

TEST_CASE("whose process it is") {
    const Rank one, other;
    const std::vector<pid_t> ranks = {one.pid(), other.pid()};
    CHECK(find_rank_above(one.pid(), ranks) == one.pid());
    CHECK(find_rank_above(other.grandchild(), ranks) == other.pid());
    CHECK(find_rank_above(::getpid(), ranks) == 0);
    CHECK(find_rank_above(1, ranks) == 0);
    CHECK(find_rank_above(1 << 29, ranks) == 0);
}

TEST_CASE("all ranks on their GPUs are told once, when the last is seen") {
    Node node;
    node.drives({{node.rank(0)}, {node.grandchild(1), ::getpid()}});
    node.start();
    node.io.run_for(300ms);
    CHECK(node.outcomes.empty());
    node.drives({{node.rank(0)}, {node.grandchild(1)}, {node.rank(2)}});
    CHECK(node.run_until([&] { return !node.outcomes.empty(); }));
    node.io.run_for(200ms);
    REQUIRE(node.outcomes.size() == 1);
    CHECK(node.outcomes[0].as_planned == 3);
    CHECK(node.outcomes[0].elsewhere == 0);
    CHECK(node.outcomes[0].cannot_tell.empty());
    CHECK(node.drifts.empty());
}

TEST_CASE("a rank on another's GPU is told once, and one that has ended no more") {
    Node node;
    node.drives({{node.rank(0), node.rank(1), node.rank(2)}});
    node.start();
    node.watch->rank_ended(10);
    CHECK(node.run_until([&] { return !node.drifts.empty(); }));
    node.io.run_for(200ms);
    REQUIRE(node.drifts.size() == 1);
    CHECK(node.drifts[0].rank == 9);
    CHECK(node.drifts[0].local_rank == 1);
    CHECK(node.drifts[0].what == "computes on GPU 0 (0000:01:00.0), planned was GPU 1");
    REQUIRE(node.outcomes.size() == 1);
    CHECK(node.outcomes[0].as_planned == 1);
    CHECK(node.outcomes[0].elsewhere == 1);
}

TEST_CASE("in another PID namespace it cannot be told, which is said once and is no drift") {
    Node node;
    node.name_space("pid:[4026532198]");
    node.drives({{4'000'001}, {4'000'002, node.rank(2)}});
    node.start();
    CHECK(node.run_until([&] { return !node.outcomes.empty(); }));
    node.io.run_for(200ms);
    REQUIRE(node.outcomes.size() == 1);
    CHECK(node.outcomes[0].cannot_tell.find("PID namespace") != std::string::npos);
    CHECK(node.drifts.empty());
}

TEST_CASE("a driver that hangs blocks nobody, its process is ended, and later it is asked again") {
    Node node;
    node.drives({{node.rank(1)}}, "hangs nvmlDeviceGetComputeRunningProcesses_v3\n");
    node.start(200ms);
    // Meanwhile the loop has its turn every time.
    int turns = 0;
    asio::steady_timer tick(node.io);
    const std::function<void()> beat = [&] {
        tick.expires_after(1ms);
        tick.async_wait([&](const std::error_code& error) {
            ++turns;
            if (!error)
                beat();
        });
    };
    beat();
    CHECK(node.run_until([&] { return !node.outcomes.empty(); }));
    CHECK(turns > 50);
    REQUIRE(node.outcomes.size() == 1);
    CHECK(node.outcomes[0].cannot_tell == "NVIDIA's driver did not answer within 0.2 s");
    CHECK(node.drifts.empty());

    node.drives({{node.rank(1)}});
    CHECK(node.run_until([&] { return !node.drifts.empty(); }));
    CHECK(node.outcomes.size() == 1);
    node.watch.reset();
    node.inquiry.reset();
    CHECK(children_of_ours().size() == 3);  // the ranks
}

TEST_CASE("a driver that crashes is that process's end alone") {
    Node node;
    SUBCASE("at once") { node.drives({}, "crashes nvmlInit\n"); }
    SUBCASE("half-way") { node.drives({}, "crashes nvmlDeviceGetComputeRunningProcesses_v3\n"); }
    node.start();
    CHECK(node.run_until([&] { return !node.outcomes.empty(); }));
    CHECK(node.outcomes[0].cannot_tell ==
          "the process that asks NVIDIA's driver ended before it answered");
    node.drives({{node.rank(0)}, {node.rank(1)}, {node.rank(2)}});
    CHECK(node.run_until([&] { return node.outcomes.size() == 2; }));
    CHECK(node.outcomes[1].as_planned == 3);
}

TEST_CASE("a question that nobody waits for any more ends with its process") {
    Node node;
    node.drives({}, "hangs nvmlInit\n");
    node.start();
    CHECK(node.run_until([&] { return children_of_ours().size() == 4; }));
    CHECK_FALSE(node.inquiry->ask({1}, [](const auto&) {}));
    node.watch.reset();
    CHECK(node.run_until([&] { return node.inquiry->dying().empty(); }));
    CHECK(children_of_ours().size() == 3);
    bool answered = false;
    node.drives({});
    CHECK(node.inquiry->ask({1}, [&](const auto&) { answered = true; }));
    CHECK(node.run_until([&] { return answered; }));
    CHECK(node.outcomes.empty());
}

TEST_CASE("no driver: why") {
    Node node;
    GpuInquiry inquiry(node.io, {20s, "/nonexistent/libnvidia-ml.so", "/proc"});
    ComputeProcesses seen;
    CHECK(inquiry.ask({1}, [&](const ComputeProcesses& told) { seen = told; }));
    CHECK(node.run_until([&] { return !seen.trouble.empty(); }));
    CHECK_MESSAGE(seen.trouble.find("/nonexistent") != std::string::npos, seen.trouble);
}

}  // namespace gpu_watch_test
