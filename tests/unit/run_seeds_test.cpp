// What the fuzzers of run directories' files check holds for their seeds, in every build.

#include "../fuzz/head_record_check.hpp"
#include "../fuzz/kept_record_check.hpp"
#include "../fuzz/run_record_check.hpp"
#include "../fuzz/run_report_check.hpp"
#include "../fuzz/run_view_check.hpp"
#include "../fuzz/succession_word_check.hpp"
#include "fuzz_seeds.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

namespace run_seeds_test {

using namespace autolaunch;

TEST_CASE("events and histories of restarts are read or none, with any bit flipped") {
    std::size_t most = 0;
    CHECK(check_seeds("run_record", [&](const std::string& bytes) {
              most = std::max(most, launcher::check_run_bytes(bytes));
          }) >= 2);
    CHECK(most >= 2);
}

TEST_CASE("a head.json is a record or refused, with any bit flipped, and its ports are ports") {
    std::size_t records = 0;
    CHECK(check_seeds("head_record", [&](const std::string& bytes) {
              records += launcher::check_head_bytes(bytes) ? 1 : 0;
          }) >= 2);
    CHECK(records >= 1);
    launcher::HeadRecord record;
    record.ports = {20001};
    const std::string text = launcher::to_json(record);
    for (const char* port : {"70000", "-1", "1.5", "\"1\"", "null"}) {
        std::string wrong = text;
        wrong.replace(wrong.find("20001"), 5, port);
        CHECK(launcher::check_head_bytes(text));
        CHECK_FALSE(launcher::check_head_bytes(wrong));
    }
}

TEST_CASE("a word on who is head is read or refused, with any bit flipped") {
    std::size_t words = 0;
    CHECK(check_seeds("succession_word", [&](const std::string& bytes) {
              words += launcher::check_succession_bytes(bytes) ? 1 : 0;
          }) >= 8);
    CHECK(words >= 8);
}

TEST_CASE("what an earlier start has kept is read or nothing, with any bit flipped") {
    std::size_t kept = 0;
    CHECK(check_seeds(
              "kept_record",
              [&](const std::string& bytes) { kept += launcher::check_kept_bytes(bytes); },
              31) >= 5);
    CHECK(kept >= 5);
}

TEST_CASE("a run that somebody gave us makes a report, with bits flipped") {
    std::size_t events = 0;
    CHECK(check_seeds(
              "run_report",
              [&](const std::string& bytes) { events += launcher::check_report_bytes(bytes); },
              127) >= 2);
    CHECK(events >= 2);
}

TEST_CASE("a run that top follows can be shown, with bits flipped") {
    std::size_t ranks = 0;
    CHECK(check_seeds(
              "run_view",
              [&](const std::string& bytes) { ranks += launcher::check_view_bytes(bytes); },
              127) >= 3);
    CHECK(ranks >= 2);
}

}  // namespace run_seeds_test
