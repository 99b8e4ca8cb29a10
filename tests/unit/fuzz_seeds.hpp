#pragma once
#include "base/file_io.hpp"
#include "sanitized.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

namespace autolaunch {

/// Checks each seed of the folder, and what it is with any bit flipped; of slow checks every
/// `stride`th bit. How many there were.
template <class Check>
std::size_t check_seeds(const std::string& folder, Check check, std::size_t stride = 1) {
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(
             std::filesystem::path(AUTOLAUNCH_SOURCE_DIR) / "tests/fuzz/seeds" / folder)) {
        std::string bytes = read_file(entry.path());
        INFO(entry.path().string());
        check(bytes);
        ++files;
        for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += stride * kStride) {
            bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
            check(bytes);
            bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
        }
    }
    return files;
}

}  // namespace autolaunch
