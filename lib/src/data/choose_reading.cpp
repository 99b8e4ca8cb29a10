#include "data/choose_reading.hpp"

#include "base/file_io.hpp"
#include "base/network_file_system.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <sys/statfs.h>

#include <algorithm>

namespace autolaunch::data {

namespace fs = std::filesystem;

namespace {

// Of windows that are smaller an SSD reads no more a second than of these.
constexpr std::uint64_t kSmallWindow = 256 << 10;

std::string in_gib(std::uint64_t bytes) {
    const std::uint64_t tenths = bytes / ((std::uint64_t{1} << 30) / 10);
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB";
}

// Files of the kernel that a container may not have.
std::string text_of(const fs::path& path) {
    try {
        return read_file(path);
    } catch (const Error&) {
        return {};
    }
}

std::optional<std::uint64_t> number_in(const std::string& text) {
    long long number = 0;
    if (!parse_integer(trim(text), number) || number < 0)
        return std::nullopt;  // "max"
    return static_cast<std::uint64_t>(number);
}

/// Of the cgroup that this process is in and those above it, of version 2.
std::optional<std::uint64_t> cgroup_limit() {
    const fs::path root = "/sys/fs/cgroup";
    std::optional<std::uint64_t> least;
    for (const std::string& line : split(text_of("/proc/self/cgroup"), '\n')) {
        if (!line.starts_with("0::/"))
            continue;
        for (fs::path group = fs::path(line.substr(4));; group = group.parent_path()) {
            if (const auto limit = number_in(text_of(root / group / "memory.max")))
                least = std::min(least.value_or(*limit), *limit);
            if (group.empty())
                break;
        }
    }
    return least;
}

}  // namespace

std::uint64_t available_memory(const std::string& meminfo, std::optional<std::uint64_t> limit) {
    std::uint64_t available = limit.value_or(0);
    for (const std::string& line : split(meminfo, '\n')) {
        if (!line.starts_with("MemAvailable:") || !line.ends_with(" kB"))
            continue;
        const auto kib = number_in(line.substr(13, line.size() - 13 - 3));
        if (kib && (!limit || *kib * 1024 < *limit))
            available = *kib * 1024;
    }
    return available;
}

ReadingFacts reading_facts(const fs::path& file) {
    constexpr unsigned long kTmpfs = 0x01021994, kRamfs = 0x858458f6;
    ReadingFacts facts;
    struct statfs system = {};
    if (::statfs(file.c_str(), &system) == 0) {
        const auto type = static_cast<unsigned long>(system.f_type) & 0xFFFFFFFFUL;
        facts.is_memory = type == kTmpfs || type == kRamfs;
    }
    facts.is_network = is_network_file_system(file);
    facts.available_bytes = available_memory(text_of("/proc/meminfo"), cgroup_limit());
    return facts;
}

Reading choose_reading(ReadBy wanted, const ReadingFacts& facts) {
    if (wanted != ReadBy::automatic)
        return {wanted, "as asked"};
    if (facts.is_network)
        return {ReadBy::page_cache,
                "on a network's file system, where another machine may cut what is mapped"};
    if (facts.is_memory)
        return {ReadBy::mapping, "in memory already"};
    const std::string sizes =
        in_gib(facts.data_bytes) + " of data, " +
        (facts.available_bytes == 0 ? "and nobody knows how much memory"
                                    : in_gib(facts.available_bytes) + " of memory available");
    if (facts.data_bytes <= facts.available_bytes / 2)
        return {ReadBy::mapping, sizes};
    if (facts.random_bytes > 0 && facts.random_bytes < kSmallWindow &&
        facts.largest_shard <= facts.available_bytes / 4)
        return {ReadBy::mapping, sizes + ", of which a shard's windows come from its pages"};
    return {ReadBy::direct, sizes};
}

}  // namespace autolaunch::data
