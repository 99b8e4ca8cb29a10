// What fuzzers of what ranks and processes beside them say check holds for their seeds, in every
// build.

#include "../fuzz/helper_word_check.hpp"
#include "../fuzz/mpi_word_check.hpp"
#include "../fuzz/printed_line_check.hpp"
#include "../fuzz/torch_dump_check.hpp"
#include "fuzz_seeds.hpp"

#include <doctest/doctest.h>

#include <string>

namespace word_seeds_test {

using namespace autolaunch;

TEST_CASE("words for MPI are read or refused, with any bit flipped") {
    std::size_t read = 0;
    CHECK(check_seeds("mpi_word", [&](const std::string& bytes) {
              read += launcher::check_mpi_bytes(bytes) > 0 ? 1 : 0;
          }) >= 5);
    CHECK(read >= 5);
}

TEST_CASE("what processes of ours say through pipes is read or refused, with any bit flipped") {
    std::size_t read = 0;
    CHECK(check_seeds(
              "helper_word",
              [&](const std::string& bytes) {
                  read += launcher::check_helper_bytes(bytes) > 0 ? 1 : 0;
              },
              3) >= 8);
    CHECK(read >= 4);
}

TEST_CASE("what a rank prints can only put characters on a terminal, with any bit flipped") {
    std::size_t lines = 0;
    CHECK(check_seeds("printed_line", [&](const std::string& bytes) {
              lines += launcher::check_printed_bytes(bytes);
          }) >= 6);
    CHECK(lines >= 6);
}

TEST_CASE("a dump of PyTorch's is groups or corrupt, with any bit flipped") {
    std::size_t groups = 0;
    CHECK(check_seeds(
              "torch_dump",
              [&](const std::string& bytes) { groups += launcher::check_torch_bytes(bytes); },
              7) >= 6);
    CHECK(groups >= 3);
}

}  // namespace word_seeds_test
