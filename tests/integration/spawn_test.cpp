#include "spawn/spawn.hpp"

#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "processes.hpp"
#include "spawn/keeper.hpp"
#include "spawn/process_tree.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <map>
#include <sstream>
#include <thread>

namespace spawn_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace autolaunch::testing;

namespace {

const std::string kMisbehave = MISBEHAVE_PROGRAM;

siginfo_t wait_for(const Child& child) {
    siginfo_t info{};
    REQUIRE(::waitid(P_PIDFD, static_cast<id_t>(child.pidfd.get()), &info, WEXITED) == 0);
    return info;
}

ChildSpec misbehave(const std::string& steps) {
    ChildSpec spec;
    spec.argv = {kMisbehave, steps};
    spec.environment = {"PATH=/usr/bin:/bin"};
    return spec;
}

// What `misbehave facts` printed, by name; its environment under "env NAME".
std::map<std::string, std::string> facts_of(ChildSpec spec) {
    const TemporaryFolder folder;
    const UniqueFd out = open_file(folder.path() / "out", O_WRONLY | O_CREAT | O_APPEND);
    spec.stdout_fd = out.get();
    const Child child = spawn_child(spec);
    CHECK(wait_for(child).si_status == 0);
    std::map<std::string, std::string> facts;
    std::istringstream lines(slurp(folder.path() / "out"));
    for (std::string line; std::getline(lines, line);) {
        const auto separator = line.starts_with("env ") ? line.find('=') : line.find(' ');
        facts[line.substr(0, separator)] =
            separator == std::string::npos ? "" : line.substr(separator + 1);
    }
    return facts;
}

SpawnError error_of(const ChildSpec& spec) {
    try {
        spawn_child(spec);
    } catch (const SpawnError& error) {
        return error;
    }
    FAIL("it started");
    throw 0;
}

void write_program(const std::filesystem::path& path, const std::string& text, mode_t mode) {
    write_all(open_file(path, O_WRONLY | O_CREAT).get(), text, path.string());
    REQUIRE(::chmod(path.c_str(), mode) == 0);
}

}  // namespace

TEST_CASE("a child starts with clean signals and only the standard descriptors, in its own group") {
    const int leaked =
        ::open("/dev/null", O_RDONLY);  // no CLOEXEC, as a careless parent of ours would leave it
    REQUIRE(leaked > 2);
    ::signal(SIGPIPE, SIG_IGN);
    sigset_t blocked, before;
    ::sigemptyset(&blocked);
    ::sigaddset(&blocked, SIGUSR2);
    ::sigprocmask(SIG_BLOCK, &blocked, &before);

    const auto facts = facts_of(misbehave("facts"));

    sigset_t after;
    ::sigprocmask(SIG_SETMASK, &before, &after);
    CHECK(::sigismember(&after, SIGUSR2) == 1);  // ours is as it was
    ::signal(SIGPIPE, SIG_DFL);
    ::close(leaked);
    CHECK(facts.at("fds") == "0 1 2");
    CHECK(facts.at("blocked") == "0000000000000000");
    CHECK(facts.at("ignored") == "0000000000000000");
    CHECK(facts.at("leads_group") == "1");
    CHECK(facts.at("death_signal") == std::to_string(SIGKILL));
}

TEST_CASE("a child gets its environment, folder and CPUs, and nothing else") {
    ::setenv("OURS", "not theirs", 1);
    const TemporaryFolder folder;
    cpu_set_t allowed;
    REQUIRE(::sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    int last_cpu = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last_cpu, &allowed))
        --last_cpu;

    ChildSpec spec = misbehave("facts");
    spec.environment.emplace_back("THEIRS=a=b c");
    spec.workdir = folder.path();
    spec.cpus = {last_cpu};
    spec.memory_nodes = {0};
    const auto facts = facts_of(spec);

    CHECK(facts.at("cpus") == std::to_string(last_cpu));
    CHECK(facts.at("workdir") == folder.path());
    CHECK(facts.at("env THEIRS") == "a=b c");
    CHECK(facts.count("env OURS") == 0);
}

TEST_CASE("CPUs that do not exist are reported and do not stop the start") {
    ChildSpec spec = misbehave("exit:0");
    spec.cpus = {8000};
    const Child child = spawn_child(spec);
    CHECK(child.affinity_error == EINVAL);
    CHECK(wait_for(child).si_status == 0);
}

TEST_CASE("standard streams may be given crosswise") {
    const TemporaryFolder folder;
    const UniqueFd out = open_file(folder.path() / "out", O_WRONLY | O_CREAT);
    const UniqueFd err = open_file(folder.path() / "err", O_WRONLY | O_CREAT);
    const UniqueFd saved_out(::fcntl(1, F_DUPFD_CLOEXEC, 3)),
        saved_err(::fcntl(2, F_DUPFD_CLOEXEC, 3));
    ::dup2(err.get(), 1);
    ::dup2(out.get(), 2);
    ChildSpec spec;
    spec.argv = {"/bin/sh", "-c", "echo to-out; echo to-err >&2"};
    spec.stdout_fd = 2;
    spec.stderr_fd = 1;
    const Child child = spawn_child(spec);
    ::dup2(saved_out.get(), 1);
    ::dup2(saved_err.get(), 2);
    wait_for(child);
    CHECK(slurp(folder.path() / "out") == "to-out\n");
    CHECK(slurp(folder.path() / "err") == "to-err\n");
}

TEST_CASE("a descriptor may be inherited under a number of its own") {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const UniqueFd read_end(ends[0]), write_end(ends[1]);
    ChildSpec spec = misbehave("facts");
    SUBCASE("another number") {
        spec.inherited_fd = InheritedFd{write_end.get(), 41};
        CHECK(facts_of(spec).at("fds") == "0 1 2 41");
    }
    SUBCASE("its own number") {
        spec.inherited_fd = InheritedFd{write_end.get(), write_end.get()};
        CHECK(facts_of(spec).at("fds") == "0 1 2 " + std::to_string(write_end.get()));
    }
    SUBCASE("it is the same file") {
        spec.argv = {"/bin/sh", "-c", "echo hello >&7"};  // a shell's numbers have one digit
        spec.inherited_fd = InheritedFd{write_end.get(), 7};
        CHECK(wait_for(spawn_child(spec)).si_status == 0);
        char text[16] = {};
        CHECK(::read(read_end.get(), text, sizeof text - 1) == 6);
        CHECK(std::string(text) == "hello\n");
    }
    SUBCASE("a number that cannot be") {
        spec.inherited_fd = InheritedFd{write_end.get(), 2};
        CHECK_THROWS_AS(spawn_child(spec), Error);
    }
    SUBCASE("a number above the limit") {
        spec.inherited_fd = InheritedFd{write_end.get(), 1 << 30};
        CHECK(error_of(spec).stage() == SpawnStage::inherited_fd);
    }
}

TEST_CASE("what cannot be started says why, and what to try") {
    const TemporaryFolder folder;
    ChildSpec spec;
    spec.workdir = folder.path();
    spec.environment = {"PATH=/nowhere:/usr/bin:/bin"};

    SUBCASE("no such program") {
        spec.argv = {"pyhton3-of-nowhere"};
        CHECK(error_of(spec).error_number() == ENOENT);
        CHECK(error_of(spec).stage() == SpawnStage::exec);
        CHECK(std::string(error_of(spec).what()).find("pyhton3-of-nowhere") != std::string::npos);
    }
    SUBCASE("a slip of the finger") {
        write_program(folder.path() / "my-trainer", "#!/bin/sh\n", 0755);
        spec.environment = {"PATH=" + folder.path().string()};
        spec.argv = {"my-trianer"};
        CHECK(error_of(spec).hint() == "did you mean 'my-trainer'?");
    }
    SUBCASE("a file of the working directory without ./") {
        write_program(folder.path() / "train.sh", "#!/bin/sh\n", 0755);
        spec.argv = {"train.sh"};
        CHECK(error_of(spec).hint().find("./train.sh") != std::string::npos);
    }
    SUBCASE("not executable") {
        write_program(folder.path() / "train.sh", "#!/bin/sh\n", 0644);
        spec.argv = {"./train.sh"};
        CHECK(error_of(spec).error_number() == EACCES);
        CHECK(error_of(spec).hint().find("chmod +x") != std::string::npos);
    }
    SUBCASE("a folder") {
        spec.argv = {folder.path()};
        CHECK(error_of(spec).hint() == "it is a folder");
    }
    SUBCASE("an interpreter that is missing") {
        write_program(folder.path() / "train.py", "#! /opt/nowhere/python3 -u\n", 0755);
        spec.argv = {"./train.py"};
        CHECK(error_of(spec).error_number() == ENOENT);
        CHECK(error_of(spec).hint().find("/opt/nowhere/python3,") != std::string::npos);
    }
    SUBCASE("DOS line ends") {
        for (const char* first : {"#!/bin/sh\r\n", "#! /bin/sh\r\nexit 0\r\n"}) {
            write_program(folder.path() / "dos.sh", first, 0755);
            spec.argv = {"./dos.sh"};
            CHECK(error_of(spec).error_number() == ENOENT);
            const std::string hint = error_of(spec).hint();
            CHECK(
                hint.starts_with("its first line has a DOS line end (CR LF), so that the system "
                                 "looks for /bin/sh\\r: sed -i 's/\\r$//' "));
            CHECK(hint.find("dos2unix") != std::string::npos);
        }
    }
    SUBCASE("a text that hides its first line, and none") {
        const auto hint = [&](const std::string& text) {
            const std::string name = "odd-" + std::to_string(text.size());
            write_program(folder.path() / name, text, 0755);
            spec.argv = {"./" + name};
            CHECK(error_of(spec).error_number() == ENOEXEC);
            return error_of(spec).hint();
        };
        CHECK(hint("\xEF\xBB\xBF#!/bin/sh\n").starts_with("it begins with a byte order mark"));
        CHECK(hint(std::string("\xFF\xFE#\0!\0", 6)).starts_with("it is a text in UTF-16: iconv"));
        CHECK(hint("") == "the file is empty");
    }
    SUBCASE("neither program nor script") {
        write_program(folder.path() / "train", "import torch\n", 0755);
        spec.argv = {"./train"};
        CHECK(error_of(spec).error_number() == ENOEXEC);
    }
    SUBCASE("a working directory that is missing") {
        spec.argv = {"/bin/true"};
        spec.workdir = folder.path() / "gone";
        CHECK(error_of(spec).stage() == SpawnStage::workdir);
    }
    CHECK(list_children().empty());  // a failed start leaves no zombie
}

TEST_CASE(
    "the later folder of PATH wins when the earlier one holds a file that cannot be executed") {
    const TemporaryFolder folder;
    std::filesystem::create_directories(folder.path() / "a");
    std::filesystem::create_directories(folder.path() / "b");
    write_program(folder.path() / "a" / "tool", "#!/bin/sh\nexit 1\n", 0644);
    write_program(folder.path() / "b" / "tool", "#!/bin/sh\nexit 42\n", 0755);
    ChildSpec spec;
    spec.argv = {"tool"};
    spec.workdir = folder.path();
    spec.environment = {"PATH=a:b"};  // relative folders count from the working directory
    CHECK(wait_for(spawn_child(spec)).si_status == 42);
}

TEST_CASE("end_children finds daemons that detached themselves") {
    adopt_orphans();
    const std::string mark = "SPAWN_TEST=" + random_hex(8);
    ChildSpec spec = misbehave("daemon,stubborn-child,daemon,sleep:0.2");
    spec.environment.push_back(mark);
    wait_for(spawn_child(spec));
    CHECK(processes_with(mark).size() == 3);
    CHECK(end_children({}, Deadline::after(std::chrono::seconds(20))));
    CHECK(processes_with(mark).empty());
    CHECK(list_children().empty());
}

namespace {

// A process that runs `agent` under a keeper; returns the keeper's pid.
template <typename Agent>
pid_t start_kept(Agent agent, const KeeperOptions& options = {}) {
    std::fflush(nullptr);
    const pid_t pid = ::fork();
    if (pid != 0)
        return pid;
    const UniqueFd keeper_gone = start_keeper(options);
    ::_exit(agent(keeper_gone.get()));
}

int exit_status_of(pid_t pid) {
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Starts a rank with all kinds of offspring, tells its own pid, waits for its end.
template <typename UntilEnd>
int agent_with_offspring(const std::string& mark, const std::string& pid_path, UntilEnd until_end) {
    ChildSpec spec = misbehave("daemon,stubborn-child,ignore-term,hang");
    spec.environment.push_back(mark);
    const Child child = spawn_child(spec);
    write_file(pid_path, std::to_string(::getpid()));
    return until_end();
}

}  // namespace

TEST_CASE("the keeper passes the exit code on") {
    CHECK(exit_status_of(start_kept([](int) { return 23; })) == 23);
}

TEST_CASE("the keeper passes signals on") {
    const TemporaryFolder folder;
    const std::string ready = folder.path() / "ready";
    const pid_t keeper = start_kept([&](int) {
        ::signal(SIGTERM, [](int) { ::_exit(77); });
        write_file(ready, "");
        ::pause();
        return 0;
    });
    REQUIRE(eventually([&] { return std::filesystem::exists(ready); }));
    ::kill(keeper, SIGTERM);
    CHECK(exit_status_of(keeper) == 77);
}

TEST_CASE("the keeper of a scheduler's task stops the agent when its parent is gone") {
    const TemporaryFolder folder;
    const std::string pid_path = folder.path() / "pid", leave = folder.path() / "leave";
    std::fflush(nullptr);
    const pid_t parent = ::fork();
    if (parent == 0) {
        // The kernel's notice comes for the starting thread's end already.
        std::thread([&] {
            if (::fork() != 0)
                return;
            const UniqueFd keeper_gone = start_keeper({.scratch = {}, .end_with_parent = true});
            ::signal(SIGTERM, [](int) { ::_exit(0); });
            write_file(pid_path, std::to_string(::getpid()));
            ::pause();
            ::_exit(1);
        }).join();
        while (!std::filesystem::exists(leave))
            ::usleep(1000);
        ::_exit(0);
    }
    REQUIRE(eventually([&] { return !slurp(pid_path).empty(); }));
    const pid_t agent = std::stoi(slurp(pid_path));
    ::usleep(200'000);
    CHECK(::kill(agent, 0) == 0);  // only the thread is gone
    write_file(leave, "");
    CHECK(exit_status_of(parent) == 0);
    CHECK(eventually([&] { return ::kill(agent, 0) != 0; }));
}

TEST_CASE("an agent that promised to beat and stands still is ended with all that it started") {
    const TemporaryFolder folder;
    const std::string pid_path = folder.path() / "pid", mark = "SPAWN_TEST=" + random_hex(8);
    std::fflush(nullptr);
    const pid_t keeper = ::fork();
    if (keeper == 0) {
        AgentPulse pulse;
        const UniqueFd keeper_gone = start_keeper({.scratch = {}, .pulse = &pulse});
        ::_exit(agent_with_offspring(mark, pid_path, [&] {
            pulse.begin(std::chrono::milliseconds(600), 68);
            ::raise(SIGSTOP);
            return 1;
        }));
    }
    CHECK(exit_status_of(keeper) == 68);
    CHECK(!slurp(pid_path).empty());
    CHECK(processes_with(mark).empty());
}

TEST_CASE("kill -9 of the agent or of the keeper leaves nothing") {
    const TemporaryFolder folder;
    const std::string pid_path = folder.path() / "pid", mark = "SPAWN_TEST=" + random_hex(8);
    const pid_t keeper = start_kept([&](int keeper_gone) {
        return agent_with_offspring(mark, pid_path, [&] {
            char byte;
            if (::read(keeper_gone, &byte, 1) < 0)
                return 1;
            return end_children({}, Deadline::after(std::chrono::seconds(20))) ? 0 : 1;
        });
    });
    REQUIRE(
        eventually([&] { return !slurp(pid_path).empty() && processes_with(mark).size() == 3; }));
    const pid_t agent = std::stoi(slurp(pid_path));
    SUBCASE("the agent") {
        ::kill(agent, SIGKILL);
        CHECK(exit_status_of(keeper) == 128 + SIGKILL);
        CHECK(processes_with(mark).empty());  // already gone when the keeper exits
    }
    SUBCASE("the keeper") {
        ::kill(keeper, SIGKILL);
        CHECK(exit_status_of(keeper) == -SIGKILL);
        CHECK(eventually([&] { return processes_with(mark).empty(); }));
    }
}

namespace {

std::string proc(pid_t pid, const std::string& name) {
    return "/proc/" + std::to_string(pid) + "/" + name;
}

// A keeper, a guardian and an agent with offspring, which ends it when the keeper is gone.
class Guarded {
public:
    Guarded()
        : keeper_(start_kept(
              [this](int keeper_gone) {
                  ::signal(SIGTERM, SIG_DFL);  // doctest has a handler
                  return agent_with_offspring(mark_, folder_.path() / "agent", [&] {
                      pollfd gone{keeper_gone, POLLIN, 0};
                      while (::poll(&gone, 1, 10) == 0)
                          if (std::filesystem::exists(folder_.path() / "finish"))
                              break;
                      return end_children({}, Deadline::after(std::chrono::seconds(20))) ? 23 : 1;
                  });
              },
              {.guardian = true})) {}

    bool wait_until_running() {
        return eventually([&] {
            return !slurp(folder_.path() / "agent").empty() && processes_with(mark_).size() == 3;
        });
    }
    void let_finish() const { write_file(folder_.path() / "finish", ""); }
    pid_t keeper() const { return keeper_; }
    pid_t agent() const { return std::stoi(slurp(folder_.path() / "agent")); }
    pid_t guardian() const {
        const std::string stat = slurp(proc(agent(), "stat"));
        return std::stoi(stat.substr(stat.rfind(')') + 4));
    }
    bool nothing_left() const {
        return eventually([&] { return processes_with(mark_).empty(); });
    }

private:
    TemporaryFolder folder_;
    std::string mark_ = "SPAWN_TEST=" + random_hex(8);
    pid_t keeper_;
};

}  // namespace

TEST_CASE("with a guardian, kill -9 of any two of the three leaves nothing") {
    Guarded job;
    REQUIRE(job.wait_until_running());
    const pid_t agent = job.agent(), guardian = job.guardian();
    REQUIRE(guardian != job.keeper());
    SUBCASE("the agent alone") {
        ::kill(agent, SIGKILL);
        CHECK(exit_status_of(job.keeper()) == 128 + SIGKILL);
    }
    SUBCASE("the keeper alone") {
        ::kill(job.keeper(), SIGKILL);
        CHECK(exit_status_of(job.keeper()) == -SIGKILL);
    }
    SUBCASE("the keeper, then the agent") {
        ::kill(job.keeper(), SIGKILL);
        ::kill(agent, SIGKILL);
        CHECK(exit_status_of(job.keeper()) == -SIGKILL);
    }
    SUBCASE("the agent, then the keeper") {
        ::kill(agent, SIGKILL);
        ::kill(job.keeper(), SIGKILL);
        exit_status_of(job.keeper());  // it may have been faster
    }
    SUBCASE("the guardian, then the agent") {
        ::kill(guardian, SIGKILL);
        ::kill(agent, SIGKILL);
        CHECK(exit_status_of(job.keeper()) == 128 + SIGKILL);
    }
    SUBCASE("the guardian, then the keeper") {
        ::kill(guardian, SIGKILL);
        ::kill(job.keeper(), SIGKILL);
        CHECK(exit_status_of(job.keeper()) == -SIGKILL);
    }
    CHECK(job.nothing_left());
}

TEST_CASE("without its guardian a job goes on, and its exit code and signals come through") {
    Guarded job;
    REQUIRE(job.wait_until_running());
    const pid_t agent = job.agent();
    ::kill(job.guardian(), SIGKILL);
    REQUIRE(eventually([&] { return job.guardian() == job.keeper(); }));
    CHECK(::kill(agent, 0) == 0);
    SUBCASE("to its end") {
        job.let_finish();
        CHECK(exit_status_of(job.keeper()) == 23);
    }
    SUBCASE("to a signal") {
        ::kill(job.keeper(), SIGTERM);
        CHECK(exit_status_of(job.keeper()) == 128 + SIGTERM);
    }
    CHECK(job.nothing_left());
}

TEST_CASE("a guardian has no name, no command line and no program of autolaunch's") {
    Guarded job;
    REQUIRE(job.wait_until_running());
    const pid_t guardian = job.guardian();
    const std::string expected = "job-guardian of " + std::to_string(job.keeper());
    CHECK(slurp(proc(guardian, "comm")) == "job-guardian\n");
    const auto command_line = [&] {
        std::string words = slurp(proc(guardian, "cmdline"));
        std::replace(words.begin(), words.end(), '\0', ' ');
        return words.substr(0, words.find_last_not_of(' ') + 1);
    };
    CHECK(expected.starts_with(command_line()));  // in the place of ours, as far as it goes
    CHECK_FALSE(command_line().empty());
    const auto program = [&] {
        return std::filesystem::read_symlink(proc(guardian, "exe")).string();
    };
    if (slurp("/proc/sys/vm/memfd_noexec") != "2\n") {
        CHECK(eventually([&] { return program() == "/memfd:job-guardian (deleted)"; }));
        CHECK(eventually([&] { return slurp(proc(guardian, "comm")) == "job-guardian\n"; }));
        CHECK(command_line() == expected);
    }
    job.let_finish();
    CHECK(exit_status_of(job.keeper()) == 23);
}

TEST_CASE("what a killed agent had for scratch is removed, where it was made again too") {
    const TemporaryFolder folder;
    const std::string name = "spawn-test-" + random_hex(8);
    const auto own = folder.path() / name;
    const std::filesystem::path moved = "/dev/shm/" + name + "-mpi-0",
                                other = "/dev/shm/" + name.substr(0, 14);
    for (const auto& made : {own, moved, other}) {
        std::filesystem::create_directories(made / "in" / "it");
        write_file(made / "in" / "file", "");
    }
    const auto killed = [](int) {
        ::raise(SIGKILL);
        return 0;
    };
    CHECK(exit_status_of(start_kept(killed, {.scratch = own, .guardian = true})) == 128 + SIGKILL);
    CHECK_FALSE(std::filesystem::exists(own));
    CHECK_FALSE(std::filesystem::exists(moved));
    CHECK(std::filesystem::exists(other / "in" / "file"));
    std::filesystem::remove_all(other);
}

}  // namespace spawn_test
