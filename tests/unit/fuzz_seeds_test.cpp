// What the store's fuzzer checks holds for its seeds, in every build.

#include "../fuzz/store_request_check.hpp"
#include "base/file_io.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

using namespace autolaunch;

TEST_CASE("every seed of the store's fuzzer is whole requests, and stays consistent with a bit flipped") {
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(AUTOLAUNCH_SOURCE_DIR) /
                                                                 "tests/fuzz/seeds/store_request")) {
        std::string bytes = read_file(entry.path());
        INFO(entry.path().string());
        CHECK(store::check_request_bytes(bytes) > 0);
        ++files;
        for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
            bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
            store::check_request_bytes(bytes);
            bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
        }
    }
    CHECK(files >= 4);
}
