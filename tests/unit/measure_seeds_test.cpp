// What fuzzers of what nodes measure, of who asks for it and of data's servers check holds for
// their seeds, in every build.

#include "../fuzz/remote_word_check.hpp"
#include "../fuzz/sample_line_check.hpp"
#include "../fuzz/scrape_request_check.hpp"
#include "fuzz_seeds.hpp"

#include <doctest/doctest.h>

#include <string>

namespace measure_seeds_test {

using namespace autolaunch;

TEST_CASE("a sample is one that is written to read the same or none, with any bit flipped") {
    std::size_t samples = 0;
    CHECK(check_seeds("sample_line", [&](const std::string& bytes) {
              samples += launcher::check_sample_bytes(bytes);
          }) >= 8);
    CHECK(samples >= 2);
}

TEST_CASE("what servers and archives say leads nowhere out, with any bit flipped") {
    std::size_t taken = 0;
    CHECK(check_seeds("remote_word", [&](const std::string& bytes) {
              taken += launcher::check_remote_bytes(bytes);
          }) >= 8);
    CHECK(taken >= 20);
}

TEST_CASE("a request to /metrics is one, none or not whole yet, with any bit flipped") {
    std::size_t requests = 0;
    CHECK(check_seeds("scrape_request", [&](const std::string& bytes) {
              requests += launcher::check_scrape_bytes(bytes) ? 1 : 0;
          }) >= 4);
    CHECK(requests >= 2);
}

}  // namespace measure_seeds_test
