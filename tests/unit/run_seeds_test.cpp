// What the fuzzer of run directories' files checks holds for its seeds, in every build.

#include "../fuzz/run_record_check.hpp"
#include "fuzz_seeds.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace autolaunch;

TEST_CASE("events and histories of restarts are read or none, with any bit flipped") {
    std::size_t most = 0;
    CHECK(check_seeds("run_record", [&](const std::string& bytes) {
              most = std::max(most, launcher::check_run_bytes(bytes));
          }) >= 2);
    CHECK(most >= 2);
}
