// What fuzzers check holds for their seeds, in every build.

#include "fuzz_seeds.hpp"
#include "../fuzz/capture_check.hpp"
#include "../fuzz/flight_memory_check.hpp"
#include "../fuzz/manifest_check.hpp"
#include "../fuzz/safetensors_check.hpp"
#include "../fuzz/session_line_check.hpp"
#include "../fuzz/store_relay_check.hpp"
#include "../fuzz/store_request_check.hpp"
#include "base/file_io.hpp"
#include "sanitized.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

namespace fuzz_seeds_test {

using namespace autolaunch;

TEST_CASE("a store relay's bytes cost its node alone, with any bit flipped") {
    CHECK(check_seeds("store_relay", launcher::store_relay::check_relay_bytes) >= 7);
}

TEST_CASE("a flight recorder's memory is a picture or refused, with any bit flipped") {
    std::size_t recorders = 0;
    CHECK(check_seeds("flight_memory", [&](const std::string& bytes) {
              recorders += launcher::check_flight_bytes(bytes) ? 1 : 0;
          }) >= 3);
    CHECK(recorders > 8 * 64 / kStride);  // most flips are elsewhere than in what tells a recorder
}

TEST_CASE("a checkpoint's manifest is whole or refused, with any bit flipped") {
    std::size_t complete = 0;
    CHECK(check_seeds("manifest", [&](const std::string& bytes) {
              complete += check_manifest_bytes(bytes) ? 1 : 0;
          }) >= 5);
    CHECK(complete > 32 * 8 / kStride);  // the digest's own bits, at least
}

TEST_CASE("a safetensors file is valid or refused, with any bit flipped") {
    std::size_t valid = 0;
    CHECK(check_seeds("safetensors", [&](const std::string& bytes) {
              valid += check_safetensors_bytes(bytes) ? 1 : 0;
          }) >= 7);
    CHECK(valid > 8 * 22 / kStride);  // the data's bits, at least
}

TEST_CASE("a session's lines are messages or refused, with any bit flipped") {
    CHECK(check_seeds("session_line", session::check_session_bytes) >= 7);
}

TEST_CASE(
    "every seed of the store's fuzzer is whole requests, and stays consistent with a bit flipped") {
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(
             std::filesystem::path(AUTOLAUNCH_SOURCE_DIR) / "tests/fuzz/seeds/store_request")) {
        std::string bytes = read_file(entry.path());
        INFO(entry.path().string());
        CHECK(store::check_request_bytes(bytes) > 0);
        ++files;
        for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += kStride) {
            bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
            store::check_request_bytes(bytes);
            bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
        }
    }
    CHECK(files >= 4);
}

TEST_CASE(
    "a saved machine's file is a machine or refused, with any byte changed or the rest cut off") {
    std::size_t machines = 0;
    for (const char* folder : {"tests/data/topology", "tests/fuzz/seeds/capture"})
        for (const auto& entry : std::filesystem::directory_iterator(
                 std::filesystem::path(AUTOLAUNCH_SOURCE_DIR) / folder)) {
            const std::string bytes = read_file(entry.path());
            INFO(entry.path().string());
            if (!launcher::capture::check_capture_bytes(bytes))
                continue;  // hwloc's, and the README
            ++machines;
            for (std::size_t at = 0; at < bytes.size(); at += kStride) {
                std::string changed = bytes;
                changed[at] = static_cast<char>(changed[at] ^ 1 << at % 7);
                launcher::capture::check_capture_bytes(changed);
                launcher::capture::check_capture_bytes(std::string_view(bytes).substr(0, at));
            }
        }
    CHECK(machines >= 7);
}

}  // namespace fuzz_seeds_test
