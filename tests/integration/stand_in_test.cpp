// Tasks that stand in for the agent: real processes, one for each task of a node, as srun would
// start them.

#include "tasks/stand_in.hpp"

#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "processes.hpp"
#include "spawn/keeper.hpp"
#include "spawn/process_tree.hpp"
#include "tasks/stand_ins.hpp"
#include "tasks/task_socket.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace stand_in_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace autolaunch::testing;
using namespace std::chrono_literals;

namespace {

const std::string kMisbehave = MISBEHAVE_PROGRAM;
constexpr uid_t kSomebody = 65534;

int exit_status_of(pid_t pid) {
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

pid_t start_process(const std::function<int()>& body) {
    std::fflush(nullptr);
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0)
        ::_exit(body());
    return pid;
}

/// One node of a job step, with an address of its own.
class Node {
public:
    explicit Node(int task_count) : task_count_(task_count) {}
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;
    ~Node() {
        for (const auto& [task, pid] : pids_)
            ::kill(pid, SIGKILL);
    }

    const std::string& address() const { return address_; }
    const std::string& mark() const { return mark_; }

    /// What the scheduler starts: a keeper with a stand-in. `prepare` runs first.
    void start_task(int task, std::chrono::milliseconds agent_timeout = 20s,
                    const std::function<void()>& prepare = nullptr) {
        pids_[task] = start_process([&] {
            ::setpgid(0, 0);
            if (prepare)
                prepare();
            ::setenv("STAND_IN_TEST", mark_.c_str(), 1);
            const UniqueFd keeper_gone = start_keeper({.scratch = {}, .role = "stand-in"});
            StandInOptions options{
                .address = address_,
                .local_task = task,
                .environment = {"PATH=/usr/bin:/bin", "SLURM_PROCID=" + std::to_string(task)},
                .cpus = {task},
                .agent_timeout = agent_timeout,
                .keeper_gone = keeper_gone.get()};
            try {
                return run_stand_in(options);
            } catch (const Error& error) {
                std::fprintf(stderr, "(expected) %s: %s\n", error.what(), error.hint().c_str());
                return error.code() == ErrorCode::timeout ? 68 : 69;
            }
        });
    }
    void start_tasks() {
        for (int task = 1; task < task_count_; ++task)
            start_task(task);
    }

    StandIns& gather(std::chrono::milliseconds timeout = 20s) {
        stand_ins_ =
            std::make_unique<StandIns>(address_, task_count_, Deadline::after(timeout), -1);
        stand_ins_->watch(
            io_, {.on_signal = [this](int task, int signal) { signals.emplace(task, signal); },
                  .on_lost = [this](int task) { lost.insert(task); }});
        return *stand_ins_;
    }
    StandIns& stand_ins() { return *stand_ins_; }
    void forget_agent() { stand_ins_.reset(); }

    /// The process that the scheduler knows.
    pid_t keeper(int task) const { return pids_.at(task); }
    pid_t stand_in(int task) const {
        return stand_ins_->tasks()[static_cast<std::size_t>(task - 1)].pid;
    }

    int wait_for_task(int task) {
        const pid_t pid = std::exchange(pids_.at(task), -1);
        pids_.erase(task);
        return exit_status_of(pid);
    }

    ChildSpec misbehave(const std::string& steps) const {
        ChildSpec spec;
        spec.argv = {kMisbehave, steps};
        spec.environment = {"PATH=/usr/bin:/bin", mark_variable()};
        return spec;
    }
    std::string mark_variable() const { return "STAND_IN_RANK=" + mark_; }

    Child start(int task, const ChildSpec& spec) {
        return stand_ins_->host(task).start(
            spec, [this, task](const ChildEnd& end) { ends[task] = end; });
    }
    template <typename Condition>
    bool run_until(Condition condition) {
        return eventually([&] {
            io_.restart();
            io_.poll();
            return condition();
        });
    }
    ChildEnd end_of(int task) {
        REQUIRE(run_until([&] { return ends.count(task) == 1; }));
        return ends.at(task);
    }

    std::map<int, ChildEnd> ends;
    std::set<int> lost;
    std::set<std::pair<int, int>> signals;

private:
    const int task_count_;
    const std::string mark_ = random_hex(8);
    const std::string address_ = task_address(::getuid(), "test/" + random_hex(8), "node1");
    asio::io_context io_{1};
    std::map<int, pid_t> pids_;
    std::unique_ptr<StandIns> stand_ins_;
};

std::map<std::string, std::string> facts_in(const std::filesystem::path& path) {
    std::map<std::string, std::string> facts;
    std::istringstream lines(slurp(path));
    for (std::string line; std::getline(lines, line);) {
        const auto separator = line.starts_with("env ") ? line.find('=') : line.find(' ');
        facts[line.substr(0, separator)] =
            separator == std::string::npos ? "" : line.substr(separator + 1);
    }
    return facts;
}

std::string message_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        return error.what();
    }
    return "nothing was thrown";
}

}  // namespace

TEST_CASE("tasks come with their environment and CPUs, in any order") {
    Node node(4);
    node.start_task(3);
    node.start_task(1);
    const pid_t late = start_process([&] {  // the agent is there first
        ::usleep(100'000);
        return 0;
    });
    node.start_task(2);
    const auto& tasks = node.gather().tasks();
    CHECK(exit_status_of(late) == 0);
    REQUIRE(tasks.size() == 3);
    for (int task = 1; task < 4; ++task) {
        const auto& found = tasks[static_cast<std::size_t>(task - 1)];
        CHECK(found.local_task == task);
        CHECK(found.cpus == std::vector{task});
        CHECK(found.environment ==
              std::map<std::string, std::string>{{"PATH", "/usr/bin:/bin"},
                                                 {"SLURM_PROCID", std::to_string(task)}});
    }
    node.stand_ins().finish(0);
    for (int task = 1; task < 4; ++task)
        CHECK(node.wait_for_task(task) == 0);
}

TEST_CASE("a rank starts in its task as it would here") {
    const TemporaryFolder folder;
    Node node(2);
    cpu_set_t allowed;
    REQUIRE(::sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    int cpu = CPU_SETSIZE - 1;
    while (!CPU_ISSET(cpu, &allowed))
        --cpu;
    node.start_task(1, 20s, [] {
        const rlimit limit{123, 123};  // its task's limits are the rank's
        ::setrlimit(RLIMIT_NOFILE, &limit);
    });
    node.gather();

    const UniqueFd out = open_file(folder.path() / "out", O_WRONLY | O_CREAT | O_APPEND);
    const UniqueFd err = open_file(folder.path() / "err", O_WRONLY | O_CREAT | O_APPEND);
    const UniqueFd extra = open_file(folder.path() / "extra", O_WRONLY | O_CREAT | O_APPEND);
    ChildSpec spec;
    spec.argv = {
        "/bin/sh", "-c",
        "ulimit -n; echo to-err >&2; echo to-extra >&7; exec " + kMisbehave + " facts,exit:5"};
    spec.environment = {"PATH=/usr/bin:/bin", "THEIRS=a=b c", "BIG=" + std::string(120'000, 'x')};
    spec.workdir = folder.path();
    spec.cpus = {cpu};
    spec.file_limit = 77;  // the agent's, which is not the task's
    spec.stdout_fd = out.get();
    spec.stderr_fd = err.get();
    spec.inherited_fd = InheritedFd{extra.get(), 7};
    const Child child = node.start(1, spec);

    CHECK(child.pid > 0);
    CHECK(child.affinity_error == 0);
    CHECK(node.end_of(1).exit_code == 5);
    CHECK(slurp(folder.path() / "out").starts_with("123\n"));
    CHECK(slurp(folder.path() / "err") == "to-err\n");
    CHECK(slurp(folder.path() / "extra") == "to-extra\n");
    const auto facts = facts_in(folder.path() / "out");
    CHECK(facts.at("fds") == "0 1 2 7");
    CHECK(facts.at("cpus") == std::to_string(cpu));
    CHECK(facts.at("workdir") == folder.path());
    CHECK(facts.at("leads_group") == "1");
    CHECK(facts.at("blocked") == "0000000000000000");
    CHECK(facts.at("ignored") == "0000000000000000");
    CHECK(facts.at("death_signal") == std::to_string(SIGKILL));
    CHECK(facts.at("env THEIRS") == "a=b c");
    CHECK(facts.at("env BIG").size() == 120'000);
    CHECK(facts.count("env STAND_IN_TEST") == 0);  // nothing but what it was given
}

TEST_CASE("a rank is started again in the same task, for the next generation") {
    Node node(3);
    node.start_tasks();
    node.gather();
    pid_t before = -1;
    for (int generation = 0; generation < 3; ++generation) {
        node.ends.clear();
        const pid_t pid = node.start(1, node.misbehave("exit:" + std::to_string(generation))).pid;
        node.start(2, node.misbehave("crash:6"));
        CHECK(node.end_of(1).exit_code == generation);
        CHECK(node.end_of(2).signal == SIGABRT);
        CHECK(pid != before);
        before = pid;
        CHECK(node.stand_ins().end_offspring(Deadline::after(10s)));
    }
    CHECK(node.lost.empty());
}

TEST_CASE("what cannot be started says the same as here") {
    Node node(2);
    node.start_tasks();
    node.gather();
    ChildSpec spec;
    spec.environment = {"PATH=/usr/bin:/bin"};
    SUBCASE("no such program") { spec.argv = {"pyhton3-of-nowhere"}; }
    SUBCASE("a folder") { spec.argv = {"/usr/bin"}; }
    SUBCASE("no such working directory") {
        spec.argv = {"/bin/true"};
        spec.workdir = "/nowhere/at/all";
    }
    const auto error_of = [](const std::function<void()>& start) -> std::optional<SpawnError> {
        try {
            start();
        } catch (const SpawnError& error) {
            return error;
        }
        return std::nullopt;
    };
    const auto here = error_of([&] { spawn_child(spec); });
    const auto there = error_of([&] { node.start(1, spec); });
    REQUIRE(here);
    REQUIRE(there);
    CHECK(there->stage() == here->stage());
    CHECK(there->error_number() == here->error_number());
    CHECK(std::string(there->what()) == here->what());
    CHECK(there->hint() == here->hint());
    node.start(1, node.misbehave("exit:0"));  // and the task is there for another try
    CHECK(node.end_of(1).exit_code == 0);
}

TEST_CASE("a signal from the agent reaches the rank's process group") {
    Node node(2);
    node.start_tasks();
    node.gather();
    node.start(1, node.misbehave("stubborn-child,hang"));
    REQUIRE(eventually([&] { return processes_with(node.mark_variable()).size() == 2; }));
    node.stand_ins().host(1).signal_group(SIGTERM);
    CHECK(node.end_of(1).signal == SIGTERM);
    CHECK(eventually([&] {
        return processes_with(node.mark_variable()).empty();
    }));  // what does not heed it, too
}

TEST_CASE("a signal that reaches only a stand-in is told to the agent and not passed to the rank") {
    const TemporaryFolder folder;
    const std::string got = folder.path() / "got";
    Node node(2);
    node.start_tasks();
    node.gather();
    node.start(1, node.misbehave("mark-on-usr1:" + got + ",hang"));
    for (const int signal : {SIGUSR1, SIGTERM, SIGHUP, SIGALRM}) {
        ::kill(node.keeper(1), signal);
        CHECK(node.run_until([&] { return node.signals.count({1, signal}) == 1; }));
    }
    CHECK(node.ends.empty());
    CHECK(!std::filesystem::exists(got));
    node.stand_ins().host(1).signal_group(SIGKILL);
    node.end_of(1);
    node.stand_ins().finish(143);
    CHECK(node.wait_for_task(1) == 0);
}

TEST_CASE("what a rank leaves behind is ended at the end of the generation") {
    Node node(3);
    node.start_tasks();
    node.gather();
    for (int task = 1; task < 3; ++task)
        node.start(task, node.misbehave("daemon,daemon,sleep:0.3,exit:0"));
    for (int task = 1; task < 3; ++task)
        CHECK(node.end_of(task).exit_code == 0);
    CHECK(processes_with(node.mark_variable()).size() == 4);
    CHECK(node.stand_ins().end_offspring(Deadline::after(20s)));
    CHECK(processes_with(node.mark_variable()).empty());
}

TEST_CASE("a task exits with what keeps the highest exit code the job's") {
    Node node(5);
    node.start_tasks();
    node.gather();
    node.start(1, node.misbehave("exit:3"));
    node.start(2, node.misbehave("crash:11"));
    node.start(3, node.misbehave("hang"));
    node.start(4, node.misbehave("exit:0"));
    for (const int task : {1, 2, 4})
        node.end_of(task);
    node.stand_ins().host(3).signal_group(SIGTERM);
    node.end_of(3);
    node.stand_ins().finish(3);
    CHECK(node.wait_for_task(1) == 3);  // the first failure
    CHECK(node.wait_for_task(2) == 3);  // failed, too, with 139
    CHECK(node.wait_for_task(3) == 0);  // was stopped
    CHECK(node.wait_for_task(4) == 0);
}

TEST_CASE("a rank's signal is its task's exit code 128 + N") {
    Node node(2);
    node.start_tasks();
    node.gather();
    node.start(1, node.misbehave("crash:11"));
    node.end_of(1);
    node.stand_ins().finish(139);
    CHECK(node.wait_for_task(1) == 139);
}

TEST_CASE("after a restart only the last generation counts") {
    Node node(2);
    node.start_tasks();
    node.gather();
    node.start(1, node.misbehave("exit:9"));
    node.end_of(1);
    node.ends.clear();
    node.start(1, node.misbehave("exit:0"));
    node.end_of(1);
    node.stand_ins().finish(1);
    CHECK(node.wait_for_task(1) == 0);
}

TEST_CASE("an agent that stops in order takes its tasks along") {
    Node node(2);
    node.start_tasks();
    node.gather();
    node.start(1, node.misbehave("daemon,ignore-term,hang"));
    REQUIRE(eventually([&] { return processes_with(node.mark_variable()).size() == 2; }));
    node.forget_agent();  // e.g. it throws: the exit code is then its own task's to tell
    CHECK(node.wait_for_task(1) == 0);
    CHECK(processes_with(node.mark_variable()).empty());
}

TEST_CASE("kill -9 of a stand-in or of its keeper ends its rank, and the agent knows") {
    adopt_orphans();  // as the agent does; and the test is the scheduler, too
    Node node(3);
    node.start_tasks();
    node.gather();
    for (int task = 1; task < 3; ++task)
        node.start(task, node.misbehave("daemon,stubborn-child,ignore-term,hang"));
    REQUIRE(eventually([&] { return processes_with(node.mark_variable()).size() == 6; }));
    int status = 0;
    SUBCASE("the stand-in") {
        ::kill(node.stand_in(1), SIGKILL);
        status = 128 + SIGKILL;
    }
    SUBCASE("the keeper") {
        ::kill(node.keeper(1), SIGKILL);
        status = -SIGKILL;
    }
    CHECK(node.end_of(1).signal == SIGKILL);
    CHECK(node.wait_for_task(1) == status);
    CHECK(eventually(
        [&] { return processes_with(node.mark_variable()).size() == 3; }));  // those of task 2
    CHECK(node.run_until([&] { return node.lost == std::set{1}; }));
    CHECK(node.ends.count(2) == 0);

    try {
        node.start(1, node.misbehave("exit:0"));
        FAIL("it started");
    } catch (const SpawnError& error) {
        CHECK(error.stage() == SpawnStage::stand_in);
        CHECK(std::string(error.what()).find("task 1 of this node") != std::string::npos);
    }
    CHECK(node.stand_ins().end_offspring(Deadline::after(10s)));  // does not wait for the lost one
    node.stand_ins().host(2).signal_group(SIGKILL);
    node.end_of(2);
    CHECK(node.stand_ins().end_offspring(Deadline::after(10s)));
    node.stand_ins().finish(137);
    CHECK(node.wait_for_task(2) == 0);
    CHECK(processes_with(node.mark_variable()).empty());
}

TEST_CASE("kill -9 of the agent ends the ranks of all tasks and what they left") {
    Node node(3);
    node.start_tasks();
    const TemporaryFolder folder;
    const std::string ready = folder.path() / "ready";
    const pid_t agent = start_process([&] {
        node.gather();
        for (int task = 1; task < 3; ++task)
            node.start(task, node.misbehave("daemon,stubborn-child,ignore-term,hang"));
        write_file(ready, "");
        ::pause();
        return 0;
    });
    REQUIRE(eventually([&] {
        return std::filesystem::exists(ready) && processes_with(node.mark_variable()).size() == 6;
    }));
    ::kill(agent, SIGKILL);
    CHECK(exit_status_of(agent) == -SIGKILL);
    for (int task = 1; task < 3; ++task)
        CHECK(node.wait_for_task(task) == 68);
    CHECK(processes_with(node.mark_variable()).empty());
}

TEST_CASE("the scheduler's daemon is gone: its tasks end") {
    Node node(2);
    const TemporaryFolder folder;
    const std::string ready = folder.path() / "ready";
    const pid_t daemon = start_process([&] {  // slurmstepd with one task
        const pid_t task = start_process([&] {
            const UniqueFd keeper_gone =
                start_keeper({.scratch = {}, .end_with_parent = true, .role = "stand-in"});
            return run_stand_in({.address = node.address(),
                                 .local_task = 1,
                                 .environment = {},
                                 .cpus = {},
                                 .agent_timeout = 60s,
                                 .keeper_gone = keeper_gone.get()});
        });
        write_file(ready, std::to_string(task));
        ::pause();
        return 0;
    });
    node.gather();
    REQUIRE(eventually([&] { return !slurp(ready).empty(); }));
    ::kill(daemon, SIGKILL);
    exit_status_of(daemon);
    CHECK(node.run_until([&] { return node.signals.count({1, SIGTERM}) == 1; }));
    const pid_t keeper = std::stoi(slurp(ready));
    node.stand_ins().finish(143);
    CHECK(eventually(
        [&] { return ::kill(keeper, 0) != 0 || end_children({}, Deadline::after(0s)); }));
}

TEST_CASE("who does not come is named") {
    Node node(4);
    SUBCASE("a task") {
        node.start_task(2);
        const std::string message = message_of([&] { node.gather(300ms); });
        CHECK(message.find("tasks 1, 3 of the 4") != std::string::npos);
        CHECK(node.wait_for_task(2) == 68);  // the agent went without a word
    }
    SUBCASE("the agent") {
        node.start_task(1, 300ms);
        CHECK(node.wait_for_task(1) == 68);
    }
    SUBCASE("nobody, but a stop signal") {
        node.start_task(1);
        ::usleep(100'000);
        ::kill(node.keeper(1), SIGUSR1);  // is none
        ::kill(node.keeper(1), SIGTERM);
        CHECK(node.wait_for_task(1) == 128 + SIGTERM);
    }
}

TEST_CASE("who does not belong is refused") {
    Node node(3);
    node.start_task(1);
    node.start_task(7);  // of a larger step
    UniqueFd silent, garbage;
    const pid_t guests = start_process([&] {
        while (!silent)
            silent = connect_to_agent(node.address());
        while (!garbage)
            garbage = connect_to_agent(node.address());
        write_all(garbage.get(), std::string(4096, '\xff'), "garbage");
        char byte = 0;
        wait_readable(garbage.get(), Deadline::after(20s));
        return ::read(garbage.get(), &byte, 1) == 0 ? 0 : 1;  // hung up on
    });
    const pid_t last = start_process([&] {  // when all of these have had their turn
        ::usleep(300'000);
        return 0;
    });
    const pid_t agent = start_process([&] {
        node.gather();
        const bool right = node.stand_ins().tasks().size() == 2;
        node.stand_ins().finish(0);
        return right ? 0 : 1;
    });
    CHECK(exit_status_of(last) == 0);
    node.start_task(2);
    CHECK(exit_status_of(agent) == 0);
    CHECK(exit_status_of(guests) == 0);
    CHECK(node.wait_for_task(7) == 69);
    CHECK(node.wait_for_task(1) == 0);
    CHECK(node.wait_for_task(2) == 0);
}

TEST_CASE("processes of other users") {
    if (::geteuid() != 0) {
        MESSAGE("not run: only root can play another user");
        return;
    }
    Node node(2);
    SUBCASE("get no agent, and an agent no word of theirs") {
        node.start_task(1, 20s, [] {
            if (::setuid(kSomebody) != 0)
                ::_exit(1);
        });
        CHECK(message_of([&] { node.gather(500ms); }).find("task 1 of the 2") != std::string::npos);
        CHECK(node.wait_for_task(1) == 69);
    }
    SUBCASE("who sit on the address are named") {
        int ends[2];
        REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
        const UniqueFd ready(ends[0]), tell(ends[1]);
        const pid_t squatter = start_process([&] {
            if (::setuid(kSomebody) != 0)
                return 1;
            const UniqueFd listener = listen_for_tasks(node.address(), 8);
            write_all(tell.get(), "x", "a pipe");
            ::pause();
            return 0;
        });
        REQUIRE(wait_readable(ready.get(), Deadline::after(20s)));
        const std::string owner =
            "process " + std::to_string(squatter) + " of user " + std::to_string(kSomebody);
        CHECK(message_of([&] { node.gather(); }).find(owner) != std::string::npos);
        node.start_task(1);
        CHECK(node.wait_for_task(1) == 69);
        ::kill(squatter, SIGKILL);
        exit_status_of(squatter);
    }
}

TEST_CASE("the address is free as soon as all have come") {
    Node node(2);
    node.start_tasks();
    node.gather();
    CHECK_NOTHROW(listen_for_tasks(node.address(), 1));
    CHECK(message_of([&] {
              const UniqueFd first = listen_for_tasks(node.address(), 1);
              listen_for_tasks(node.address(), 1);
          }).find("is taken by process " + std::to_string(::getpid())) != std::string::npos);
}

TEST_CASE("addresses tell users, steps and nodes apart, and fit") {
    CHECK(task_address(1000, "slurm/4711.0", "node1") == "autolaunch/1000/slurm/4711.0/node1");
    std::set<std::string> addresses;
    for (const auto* step : {"slurm/4711.0", "slurm/4711.1", "slurm/471.1"})
        for (const auto* name : {"node1", "node11"})
            for (const uid_t uid : {1000U, 1001U})
                addresses.insert(task_address(uid, step, name));
    CHECK(addresses.size() == 12);
    const std::string longest = task_address(1000, std::string(300, 'j'), "node1");
    CHECK(longest.size() < 107);
    CHECK(longest != task_address(1000, std::string(300, 'j'), "node2"));
}

}  // namespace stand_in_test
