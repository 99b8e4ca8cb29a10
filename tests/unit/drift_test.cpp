// What is a drift from the plan, and what is not.

#include "placement_watch/drift.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

namespace drift_test {

using namespace autolaunch::launcher;

namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

MemoryPlacement read_lines(const std::string& text) {
    MemoryPlacement bytes;
    std::size_t begin = 0;
    for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
        add_numa_maps_line(std::string_view(text).substr(begin, end - begin), bytes);
    return bytes;
}

}  // namespace

TEST_CASE("CPUs within the plan are no drift, fewer are the program's own choice") {
    const PlannedPlacement planned{{0, 1, 2, 3}, {}};
    CHECK(is_within({0, 1, 2, 3}, planned));
    CHECK(is_within({2}, planned));
    CHECK_FALSE(is_within({3, 4}, planned));
    CHECK(is_within({900}, {}));
    CHECK_FALSE(find_cpu_drift({{1, "a", {0, 1}}, {2, "b", {3}}}, planned));
    CHECK_FALSE(find_cpu_drift({}, planned));
    CHECK_FALSE(find_cpu_drift({{1, "a", {77}}}, {}));
}

TEST_CASE("threads outside are counted, the first is named") {
    const PlannedPlacement planned{{0, 1, 2, 3}, {}};
    CHECK(find_cpu_drift({{1, "python3", {0, 1}}, {2, "loader", {0, 1, 2, 3, 4, 5}}}, planned) ==
          "may run on CPUs 0-5, planned were 0-3 (thread loader)");
    CHECK(find_cpu_drift({{1, "python3", {8}}, {2, "b", {1}}, {3, "c", {9}}, {4, "d", {9}}},
                         planned) ==
          "may run on CPU 8, planned were 0-3 (thread python3, and 2 more)");
    CHECK(find_cpu_drift({{1, "x", {0, 1}}}, {{1}, {}}) ==
          "may run on CPUs 0-1, planned was 1 (thread x)");
}

TEST_CASE("numa_maps: what the process itself has written, by node") {
    const MemoryPlacement bytes = read_lines(
        "55d8c0 default file=/usr/bin/python3 anon=4 dirty=4 N0=4 kernelpagesize_kB=4\n"
        "7f2c40 prefer:0 anon=8192 dirty=8192 N0=8000 N1=192 kernelpagesize_kB=4\n"
        "7f2d00 prefer:0 anon=3 dirty=3 N1=3 kernelpagesize_kB=2048\n"
        "7f2e00 default file=/dev/zero\\040(deleted) dirty=100 mapped=100 N3=100 "
        "kernelpagesize_kB=4\n"
        "7f2f00 prefer:0 huge anon=2 dirty=2 N0=2 kernelpagesize_kB=1048576\n"
        "7f3000 default\n"
        "7ffd00 default stack anon=9 dirty=9 active=1 N12=9 kernelpagesize_kB=4\n");
    const MemoryPlacement expected = {
        {0, 8000 * 4096ULL + 2 * kGiB}, {1, 192 * 4096ULL + 3 * (2ULL << 20)}, {12, 9 * 4096ULL}};
    CHECK(bytes == expected);
}

TEST_CASE("lines that are no numa_maps say nothing") {
    MemoryPlacement bytes;
    for (const char* line :
         {"", " ", "anon=", "anon=1 N=1", "anon=1 Nx=1", "anon=1 N0=", "anon=1 N0=-5",
          "anon=1 N-1=5", "anon=1 N99999999999=5", "anon=1 N0=99999999999999999999", "N0=5"})
        add_numa_maps_line(line, bytes);
    CHECK(bytes.empty());
    add_numa_maps_line("x anon=1 N0=1 kernelpagesize_kB=0", bytes);
    CHECK(bytes == MemoryPlacement{{0, 4096}});
}

TEST_CASE("memory elsewhere counts from a tenth and 256 MiB on") {
    const PlannedPlacement planned{{}, {0}};
    CHECK(find_memory_drift({{0, 11 * kGiB}, {1, 3 * kGiB}}, planned) ==
          "has 21 % of its memory (3.0 GiB) on NUMA node 1, planned was 0");
    CHECK(find_memory_drift({{1, kGiB}, {3, kGiB}}, planned) ==
          "has 100 % of its memory (2.0 GiB) on NUMA nodes 1,3, planned was 0");
    CHECK_FALSE(find_memory_drift({{0, 40 * kGiB}, {1, 3 * kGiB}}, planned));
    CHECK_FALSE(find_memory_drift({{1, kGiB / 8}}, planned));
    CHECK_FALSE(find_memory_drift({{0, 2 * kGiB}, {1, 2 * kGiB}}, {{}, {0, 1}}));
    CHECK_FALSE(find_memory_drift({{1, 9 * kGiB}}, {{}, {}}));
    CHECK_FALSE(find_memory_drift({}, planned));
}

}  // namespace drift_test
