// Processes that wait to take a rank's place: real ones, which use the library's Session.
#include "warm_processes/warm_processes.hpp"

#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "processes.hpp"
#include "spawn/process_tree.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <thread>

namespace warm_processes_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace autolaunch::testing;

namespace {

using std::chrono::milliseconds;
constexpr std::chrono::seconds kPatience{30};

/// A rank of the place 1 as the agent would start it, in generation `generation`.
struct Place {
    TemporaryFolder folder;
    UniqueFd out = open_file(folder.path() / "out", O_RDWR | O_CREAT | O_APPEND);
    UniqueFd err = open_file(folder.path() / "err", O_RDWR | O_CREAT | O_APPEND);
    UniqueFd no_input = open_file("/dev/null", O_RDONLY);

    ChildSpec rank(const std::string& steps, int generation) const {
        return {.argv = {MISBEHAVE_PROGRAM, steps},
                .environment = {"RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2",
                                "ONLY_BEFORE=yes", "MASTER_PORT=" + std::to_string(generation),
                                "AUTOLAUNCH_GENERATION=" + std::to_string(generation)},
                .workdir = "/",
                .cpus = {},
                .memory_nodes = {},
                .file_limit = std::nullopt,
                .stdin_fd = no_input.get(),
                .stdout_fd = out.get(),
                .stderr_fd = err.get()};
    }
    std::string printed() const { return read_file(folder.path() / "out"); }
};

/// Its rank runs, in generation 0, has said hello, and done a step.
void begin(WarmProcesses& warm, const Place& place, const std::string& steps, pid_t pid = 77) {
    const ChildSpec rank = place.rank(steps, 0);
    warm.rank_was_started(1, rank, rank.environment, pid);
    warm.rank_said_hello(1, pid, true);
    warm.rank_trains(1);
}

template <typename Condition>
bool look_until(WarmProcesses& warm, Condition condition) {
    for (const auto end = std::chrono::steady_clock::now() + kPatience;
         std::chrono::steady_clock::now() < end; std::this_thread::sleep_for(milliseconds(10))) {
        warm.look();
        if (condition())
            return true;
    }
    return false;
}

bool becomes_ready(WarmProcesses& warm, WarmProcesses::Ready& ready) {
    return look_until(warm, [&] {
        const auto all = warm.take_ready();
        if (!all.empty())
            ready = all.front();
        return !all.empty();
    });
}

std::string only_note(WarmProcesses& warm) {
    std::vector<std::string> notes;
    look_until(warm, [&] {
        notes = warm.take_notes();
        return !notes.empty();
    });
    REQUIRE(notes.size() == 1);
    return notes.front();
}

ChildEnd end_of(const Child& child) {
    std::optional<ChildEnd> end;
    for (int i = 0; i < 3000 && !end; ++i) {
        end = reap_child(child.pid, child.pidfd.get());
        if (!end)
            std::this_thread::sleep_for(milliseconds(10));
    }
    REQUIRE(end);
    return *end;
}

}  // namespace

TEST_CASE("a spare becomes the rank: its environment, its log, what it printed before") {
    WarmProcesses warm({.answer = kPatience});
    const Place place;
    const std::string steps = "say-out:before,session,say-out:after,facts";
    begin(warm, place, steps);
    WarmProcesses::Ready ready;
    REQUIRE(becomes_ready(warm, ready));
    CHECK(ready.local_rank == 1);
    CHECK(warm.pids() == std::vector<pid_t>{ready.pid});
    CHECK(warm.made() == 1);
    const std::string shown_before = read_file("/proc/" + std::to_string(ready.pid) + "/environ");
    CHECK(shown_before.find("MASTER_PORT=") == std::string::npos);
    CHECK(place.printed().empty());
    ::kill(ready.pid, SIGTERM);  // what a scheduler sends to all processes is not for it
    std::this_thread::sleep_for(milliseconds(100));

    ChildSpec next = place.rank(steps, 3);
    std::erase(next.environment, "ONLY_BEFORE=yes");
    next.environment.push_back("PMIX_NAMESPACE=autolaunch-x");
    const Child child = warm.start(1, next);
    CHECK(child.pid == ready.pid);
    CHECK(warm.was_spare(child.pid));
    CHECK(warm.pids().empty());
    CHECK(warm.made() == 0);
    CHECK(::getpriority(PRIO_PROCESS, static_cast<id_t>(child.pid)) ==
          ::getpriority(PRIO_PROCESS, 0));
    CHECK(end_of(child).exit_code == 0);
    const std::string printed = place.printed();
    CHECK(printed.rfind("before\nafter\n", 0) == 0);
    for (const char* line : {"env AUTOLAUNCH_GENERATION=3\n", "env MASTER_PORT=3\n",
                             "env PMIX_NAMESPACE=autolaunch-x\n", "fds 0 1 2\n"})
        CHECK_MESSAGE(printed.find(line) != std::string::npos, line);
    for (const char* word : {"ONLY_BEFORE", "AUTOLAUNCH_SPARE", "AUTOLAUNCH_STDOUT"})
        CHECK_MESSAGE(printed.find(word) == std::string::npos, word);
    const auto notes = warm.take_notes();
    CHECK_MESSAGE(notes.empty(), (notes.empty() ? "" : notes.front()));
}

TEST_CASE("others find in /proc who a spare became") {
    WarmProcesses warm({.answer = kPatience});
    const Place place;
    begin(warm, place, "session,hang");
    WarmProcesses::Ready ready;
    REQUIRE(becomes_ready(warm, ready));
    const Child child = warm.start(1, place.rank("session,hang", 4));
    REQUIRE(child.pid == ready.pid);
    const std::string shown = read_file("/proc/" + std::to_string(child.pid) + "/environ");
    CHECK(shown.find(std::string("MASTER_PORT=4") + '\0') != std::string::npos);
    CHECK(shown.find("AUTOLAUNCH_SPARE") == std::string::npos);
    ::kill(child.pid, SIGKILL);
    CHECK(end_of(child).signal == SIGKILL);
}

TEST_CASE("a spare that was killed, or stands still, costs the rank its own start alone") {
    for (const int signal : {SIGKILL, SIGSTOP}) {
        CAPTURE(signal);
        WarmProcesses warm({.answer = milliseconds(300)});
        const Place place;
        begin(warm, place, "session,say-out:trained");
        WarmProcesses::Ready ready;
        REQUIRE(becomes_ready(warm, ready));
        ::kill(ready.pid, signal);
        std::this_thread::sleep_for(milliseconds(50));
        const Child child = warm.start(1, place.rank("session,say-out:trained", 1));
        CHECK(child.pid != ready.pid);
        CHECK(!warm.was_spare(child.pid));
        CHECK(end_of(child).exit_code == 0);
        CHECK(place.printed() == "trained\n");
        const auto notes = warm.take_notes();
        REQUIRE(notes.size() == 1);
        CHECK(notes.front() == std::string("restart.warm_processes: the spare of local rank 1: ") +
                                   (signal == SIGKILL ? "it was ended by SIGKILL"
                                                      : "it did not answer within 0.3 s"));
        CHECK(::kill(ready.pid, 0) != 0);
    }
}

TEST_CASE("a spare that never comes is ended, and after two there is none") {
    WarmProcesses warm({.arrival = milliseconds(300)});
    const Place place;
    begin(warm, place, "as-spare:hang,session");
    CHECK(only_note(warm) ==
          "restart.warm_processes: the spare of local rank 1: it did not come to "
          "Session::from_environment() within 0.3 s");
    CHECK(only_note(warm).find("; no other is started") != std::string::npos);
    CHECK(warm.pids().empty());
    CHECK(warm.made() == 2);
    const Child child = warm.start(1, place.rank("as-spare:hang,session", 1));
    CHECK(end_of(child).exit_code == 0);
}

TEST_CASE("what a spare said before its end is told") {
    WarmProcesses warm({.answer = kPatience});
    const Place place;
    begin(warm, place, "say:no such data set,as-spare:exit:3,session");
    CHECK(only_note(warm) ==
          "restart.warm_processes: the spare of local rank 1: it ended with exit code 3: no such "
          "data set");
}

TEST_CASE("a child of a spare is not taken for it") {
    WarmProcesses warm({.answer = kPatience});
    const Place place;
    begin(warm, place, "as-spare:fork,session");
    CHECK(only_note(warm) ==
          "restart.warm_processes: the spare of local rank 1: another process that it has started "
          "asked for a Session");
}

TEST_CASE("one that is needed before it waits is not waited for") {
    WarmProcesses warm({.answer = kPatience});
    const Place place;
    begin(warm, place, "as-spare:hang,session");
    REQUIRE(look_until(warm, [&] { return !warm.pids().empty(); }));
    const pid_t spare = warm.pids().front();
    const Child child = warm.start(1, place.rank("as-spare:hang,session", 1));
    CHECK(child.pid != spare);
    CHECK(end_of(child).exit_code == 0);
    CHECK(::kill(spare, 0) != 0);
    CHECK(only_note(warm).find("it was not ready yet") != std::string::npos);
}

TEST_CASE("a rank with other CPUs or another command has no use for it") {
    WarmProcesses warm({.answer = kPatience});
    const Place place;
    begin(warm, place, "session");
    WarmProcesses::Ready ready;
    REQUIRE(becomes_ready(warm, ready));
    const Child child = warm.start(1, place.rank("session,say-out:other", 1));
    CHECK(child.pid != ready.pid);
    CHECK(end_of(child).exit_code == 0);
    CHECK(only_note(warm).find("its command line is another") != std::string::npos);
}

TEST_CASE("only a process that said it has a Session, and can wait, gets a spare") {
    const Place place;
    const ChildSpec rank = place.rank("session", 0);
    SUBCASE("one that says nothing") {
        WarmProcesses warm({.unsaid = milliseconds(100)});
        warm.rank_was_started(1, rank, rank.environment, 77);
        warm.rank_trains(1);
        CHECK(only_note(warm).find("has not asked for a Session") != std::string::npos);
        CHECK(warm.made() == 0);
    }
    SUBCASE("Python's") {
        WarmProcesses warm({.answer = kPatience});
        warm.rank_was_started(1, rank, rank.environment, 77);
        warm.rank_said_hello(1, 77, false);
        CHECK(only_note(warm).find("trainer.preload") != std::string::npos);
        CHECK(warm.made() == 0);
    }
    SUBCASE("one behind a shell") {
        WarmProcesses warm({.answer = kPatience});
        warm.rank_was_started(1, rank, rank.environment, 77);
        warm.rank_said_hello(1, 78, true);
        CHECK(only_note(warm).find("another program is in front") != std::string::npos);
        CHECK(warm.made() == 0);
    }
}

TEST_CASE("no spare outlives what made it, and none becomes a rank by its environment alone") {
    const Place place;
    pid_t spare = -1;
    {
        WarmProcesses warm({.answer = kPatience});
        begin(warm, place, "session,hang");
        WarmProcesses::Ready ready;
        REQUIRE(becomes_ready(warm, ready));
        spare = ready.pid;
    }
    CHECK(::kill(spare, 0) != 0);
    ChildSpec stray = place.rank("session,say-out:trained", 0);
    stray.environment.push_back("AUTOLAUNCH_SPARE=9");
    CHECK(end_of(spawn_child(stray)).exit_code == 5);
    CHECK(place.printed().empty());
    CHECK(read_file(place.folder.path() / "err").find("is no socket of this process") !=
          std::string::npos);
}

}  // namespace warm_processes_test
