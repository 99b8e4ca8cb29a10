#include "generation/stop_notice.hpp"
#include "spawn/process_condition.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <asio/io_context.hpp>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

namespace stop_notice_test {

using namespace autolaunch::launcher;
using namespace std::chrono_literals;

TEST_CASE("who is waited for is named, and until when") {
    std::tm noon{};
    noon.tm_mday = 2;
    noon.tm_mon = 3;
    noon.tm_year = 126;
    noon.tm_hour = 12;
    noon.tm_isdst = -1;
    const auto now = std::chrono::system_clock::from_time_t(std::mktime(&noon));
    CHECK(waiting_notice({{3, 812}}, 8, 2s, 13s, now) ==
          "still waiting for rank 3 (pid 812), asked to stop 2.0 s ago; SIGKILL at 12:00:13, in "
          "13 s");
    CHECK(waiting_notice({{3, 812}, {5, 814}, {6, 9}, {7, 8}}, 8, 2s, 13s, now)
              .starts_with("still waiting for 4 of 8 ranks, asked to stop "));
    CHECK(waiting_notice({{3, 812}, {5, 814}, {6, 9}, {7, 8, "is stopped"}}, 8, 2s, 13s, now)
              .ends_with(", in 13 s; rank 7 (pid 8) is stopped"));
    CHECK(killed_notice({{3, 812}}, 8, 15s) ==
          "rank 3 (pid 812) did not end within 15 s after the request to stop (SIGTERM), and was "
          "killed by SIGKILL");
    CHECK(killed_notice({{3, 812}, {5, 814}}, 8, 15s)
              .starts_with("rank 3 (pid 812), rank 5 (pid 814) did not end within 15 s"));
}

TEST_CASE("what keeps a process from ending") {
    const auto of = [](const std::string& state, const std::string& tracer = "0") {
        return process_condition("Name:\tx\nState:\t" + state + "\nTracerPid:\t" + tracer + "\n",
                                 tracer == "0" ? "" : "gdb", "nfs_wait");
    };
    CHECK(of("S (sleeping)").empty());
    CHECK(of("R (running)", "99").empty());
    CHECK(of("T (stopped)") == "is stopped (SIGSTOP, Ctrl-Z): SIGCONT would wake it");
    CHECK(of("t (tracing stop)", "99") == "is stopped by what traces it, pid 99 (gdb)");
    CHECK(of("D (disk sleep)").starts_with("hangs in the kernel (uninterruptible, in nfs_wait): "));
    CHECK(process_condition(::getpid()).empty());
    const pid_t child = ::fork();
    if (child == 0)
        for (;;)
            ::pause();
    ::kill(child, SIGSTOP);
    siginfo_t stopped{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &stopped, WSTOPPED) == 0);
    CHECK(process_condition(child).starts_with("is stopped (SIGSTOP"));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    CHECK(process_condition(child).empty());
}

TEST_CASE("a stop's notices come once, and only while somebody is waited for") {
    asio::io_context io;
    std::vector<std::string> said;
    StopNotice::Ranks ranks{{{3, 812}}, 8};
    StopNotice notice(
        io, [&] { return ranks; }, [&](const std::string& text) { said.push_back(text); }, 2ms);

    notice.killed(true);  // nobody was asked before
    CHECK(said.empty());
    notice.asked_to_end(15s);
    notice.asked_to_end(15s);
    io.run();
    REQUIRE(said.size() == 1);
    CHECK(said[0].starts_with("still waiting for rank 3 (pid 812)"));
    notice.killed(true);
    notice.killed(true);
    REQUIRE(said.size() == 2);
    CHECK(said[1].starts_with("rank 3 (pid 812) did not end within "));

    notice.begin_generation();
    notice.asked_to_end(15s);
    ranks.alive.clear();
    io.restart();
    io.run();
    notice.killed(true);
    CHECK(said.size() == 2);
    ranks.alive = {{3, 812}};
    notice.begin_generation();
    notice.asked_to_end(3ms);  // hardly longer than the notice would wait
    notice.killed(false);
    io.restart();
    CHECK(io.run() == 0);
    CHECK(said.size() == 2);
    CHECK(hung_notice({{0, 7}, {1, 9}}) ==
          "these processes did not end long after SIGKILL, and hang in the kernel: 7 (rank 0) 9 "
          "(rank 1)");
}

}  // namespace stop_notice_test
