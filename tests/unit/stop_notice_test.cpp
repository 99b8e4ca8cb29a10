#include "supervise/stop_notice.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <ctime>

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
    CHECK(killed_notice({{3, 812}}, 8, 15s) ==
          "rank 3 (pid 812) did not end within 15 s after the request to stop (SIGTERM), and was "
          "killed by SIGKILL");
    CHECK(killed_notice({{3, 812}, {5, 814}}, 8, 15s)
              .starts_with("rank 3 (pid 812), rank 5 (pid 814) did not end within 15 s"));
}
