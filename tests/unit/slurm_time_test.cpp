#include "allocation/slurm_time.hpp"

#include <doctest/doctest.h>

#include <chrono>

namespace slurm_time_test {

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

}  // namespace slurm_time_test
