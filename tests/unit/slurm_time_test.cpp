#include "allocation/slurm_time.hpp"
#include "allocation/slurm_conf.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <string>

using namespace autolaunch;
using namespace autolaunch::launcher;
using std::chrono::seconds;

TEST_CASE("Slurm's forms of a length of time") {
    CHECK(parse_slurm_time("90") == seconds(90 * 60));
    CHECK(parse_slurm_time("10:00") == seconds(600));
    CHECK(parse_slurm_time("0:07") == seconds(7));
    CHECK(parse_slurm_time("1:29:59") == seconds(5399));
    CHECK(parse_slurm_time("1-00") == seconds(86'400));
    CHECK(parse_slurm_time("1-02:03") == seconds(86'400 + 2 * 3600 + 3 * 60));
    CHECK(parse_slurm_time("7-00:00:00") == seconds(7 * 86'400));
    CHECK(parse_slurm_time("2-03:05:00\n") == seconds(2 * 86'400 + 3 * 3600 + 5 * 60));
    CHECK(parse_slurm_time("0") == seconds(0));
    CHECK(parse_slurm_time("365-00:00:00") == seconds(365LL * 86'400));
    CHECK(parse_slurm_time("999999999-999999999:999999999:999999999").has_value());
}

TEST_CASE("no limit, no answer, no time") {
    for (const char* text :
         {"UNLIMITED", "INFINITE", "NOT_SET", "INVALID", "N/A", "",        " ",
          "-1",        "-1:00",    "1-",      "1:",      ":1",  "1:2:3:4", "1-2:3:4:5",
          "1--2",      "+5",       "5 6",     "5m",      "1.5", "0x10",    "99999999999"}) {
        INFO(text);
        CHECK_FALSE(parse_slurm_time(text));
    }
}

TEST_CASE("KillWait of a slurm.conf") {
    CHECK(kill_wait_in("") == seconds(30));  // Slurm's default
    CHECK(kill_wait_in("SlurmdTimeout=300\nKillWait=5\n") == seconds(5));
    CHECK(kill_wait_in("  killwait=60 # a minute\n#KillWait=7\n") == seconds(60));
    CHECK(kill_wait_in("KillWait=5\nKillWait=9") == seconds(9));
    CHECK(kill_wait_in("KillWait=soon") == seconds(30));
    CHECK(kill_wait_in("UnkillableStepTimeout=60 KillWait=12") == seconds(12));
}

TEST_CASE("slurm.conf is the file that SLURM_CONF names, or where Slurm keeps it") {
    const FileReader read = [](const std::string& path) -> std::string {
        if (path == "/run/slurm/conf/slurm.conf")
            return "KillWait=5";
        if (path == "/named")
            return "KillWait=6";
        throw SystemError(2, "open " + path);
    };
    CHECK(read_kill_wait({}, read) == seconds(5));
    CHECK(read_kill_wait({{"SLURM_CONF", "/named"}}, read) == seconds(6));
    const FileReader none = [](const std::string& path) -> std::string {
        throw SystemError(2, "open " + path);
    };
    CHECK_FALSE(read_kill_wait({}, none));
}
