#pragma once
#include <doctest/doctest.h>
#include <cstdint>
#include <filesystem>
#include <fstream>

namespace autolaunch::testing {

/// Damages a file as a disk would: one bit, and neither its size nor anything else.
inline void flip_byte(const std::filesystem::path& file, std::uint64_t offset) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(offset));
    const char byte = static_cast<char>(stream.get() ^ 0x10);
    stream.seekp(static_cast<std::streamoff>(offset));
    stream.put(byte);
    REQUIRE(stream.good());
}

}  // namespace autolaunch::testing
