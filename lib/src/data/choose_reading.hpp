#pragma once
#include <autolaunch/data/token_reader.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace autolaunch::data {

/// What ReadBy::automatic goes by.
struct ReadingFacts {
    bool is_network = false;
    bool is_memory = false;  ///< tmpfs, ramfs
    std::uint64_t data_bytes = 0;
    std::uint64_t largest_shard = 0;
    std::uint64_t random_bytes = 0;     ///< of a window, where they come in random order
    std::uint64_t available_bytes = 0;  ///< of memory, to this process; 0: not known
};

struct Reading {
    ReadBy by = ReadBy::mapping;
    std::string why;
};

/// Never automatic. The rules are at ReadBy::automatic. Pure.
Reading choose_reading(ReadBy wanted, const ReadingFacts& facts);

/// Of the file system of a file of the data set, and of memory.
ReadingFacts reading_facts(const std::filesystem::path& file);

/// The least of MemAvailable in /proc/meminfo, here its text, and of what the limits of the
/// process's cgroup (version 2) and those above it allow, here already found. 0: none is known.
/// Pure.
std::uint64_t available_memory(const std::string& meminfo, std::optional<std::uint64_t> limit);

}  // namespace autolaunch::data
