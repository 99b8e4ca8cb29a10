// Which rank gets autolaunch's stdin, and how: decisions alone.

#include "input/input_plan.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

namespace input_plan_test {

using namespace autolaunch::launcher;

namespace {

constexpr InputSpec kDefault{};
constexpr InputSpec kNone{.to = InputSpec::To::none, .chosen = true};
constexpr InputSpec kAll{.to = InputSpec::To::all, .chosen = true};
constexpr InputSpec to_rank(int rank) { return {InputSpec::To::rank, rank, true}; }

InputWay way(const InputSpec& wish, InputKind kind, int rank, bool can_restart = false,
             int world_size = 4) {
    return way_of_input({.wish = wish,
                         .kind = kind,
                         .on_head = true,
                         .can_restart = can_restart,
                         .world_size = world_size},
                        rank);
}

Roster roster_of(const std::vector<int>& ranks) {
    Roster roster;
    for (const int count : ranks)
        roster.nodes.push_back({"node", count});
    return roster;
}

}  // namespace

TEST_CASE("rank 0 gets a file or a pipe itself, and nobody else gets anything") {
    for (const InputKind kind : {InputKind::file, InputKind::stream}) {
        CHECK(way(kDefault, kind, 0) == InputWay::descriptor);
        CHECK(way(kDefault, kind, 1) == InputWay::nothing);
        CHECK(way(kNone, kind, 0) == InputWay::nothing);
    }
    CHECK(way(kDefault, InputKind::nothing, 0) == InputWay::nothing);
    CHECK(way(to_rank(2), InputKind::file, 2) == InputWay::descriptor);
    CHECK(way(to_rank(2), InputKind::file, 0) == InputWay::nothing);
}

TEST_CASE("a pipe that may be wanted again passes through the agent; a file need not") {
    CHECK(way(kDefault, InputKind::stream, 0, true) == InputWay::pipe);
    CHECK(way(kDefault, InputKind::file, 0, true) == InputWay::descriptor);
}

TEST_CASE("a terminal is only a chosen rank's") {
    CHECK(way(kDefault, InputKind::terminal, 0) == InputWay::nothing);
    CHECK(way(to_rank(0), InputKind::terminal, 0) == InputWay::descriptor);
    CHECK(way(to_rank(0), InputKind::terminal, 0, true) == InputWay::descriptor);
    CHECK(way(kAll, InputKind::terminal, 0, false, 1) == InputWay::descriptor);
}

TEST_CASE("all ranks have a position of their own in a file, and copies of a pipe") {
    for (int rank = 0; rank < 4; ++rank) {
        CHECK(way(kAll, InputKind::file, rank) == InputWay::own_file);
        CHECK(way(kAll, InputKind::stream, rank) == InputWay::pipe);
        CHECK(way(kAll, InputKind::nothing, rank) == InputWay::nothing);
    }
}

TEST_CASE("ranks of other nodes get it through a pipe, whatever it is on the head") {
    const InputSituation elsewhere{.wish = to_rank(5),
                                   .kind = InputKind::file,
                                   .on_head = false,
                                   .can_restart = false,
                                   .world_size = 8};
    CHECK(way_of_input(elsewhere, 5) == InputWay::pipe);
    CHECK(way_of_input(elsewhere, 4) == InputWay::nothing);
    const Roster roster = roster_of({2, 3, 3});
    CHECK(nodes_fed(kDefault, roster).empty());
    CHECK(nodes_fed(kNone, roster).empty());
    CHECK(nodes_fed(to_rank(1), roster).empty());
    CHECK(nodes_fed(to_rank(4), roster) == std::vector{1});
    CHECK(nodes_fed(to_rank(5), roster) == std::vector{2});
    CHECK(nodes_fed(kAll, roster) == std::vector{1, 2});
}

TEST_CASE("a wish that cannot be granted is an objection") {
    const auto objection = [](const InputSpec& wish, InputKind kind, int world_size) {
        return object_to_input({.wish = wish,
                                .kind = kind,
                                .on_head = true,
                                .can_restart = false,
                                .world_size = world_size})
            .what;
    };
    CHECK(objection(to_rank(3), InputKind::terminal, 4).empty());
    CHECK(objection(kAll, InputKind::terminal, 2) ==
          "stdin is a terminal, which cannot go to all ranks");
    CHECK(objection(kAll, InputKind::terminal, 1).empty());
    CHECK(objection(kAll, InputKind::file, 2).empty());
}

TEST_CASE("what a descriptor is") {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    CHECK(kind_of_input(ends[0]) == InputKind::stream);
    CHECK(can_pile_up(ends[0]));
    ::close(ends[0]);
    ::close(ends[1]);
    CHECK(kind_of_input(ends[0]) == InputKind::nothing);
    const auto kind_of_file = [](const char* path) {
        const int fd = ::open(path, O_RDWR | O_CLOEXEC | O_NOCTTY);
        REQUIRE(fd >= 0);
        const InputKind kind = kind_of_input(fd);
        ::close(fd);
        return kind;
    };
    CHECK(kind_of_file("/dev/null") == InputKind::nothing);
    CHECK(kind_of_file("/dev/zero") == InputKind::stream);
    CHECK(kind_of_file("/dev/ptmx") == InputKind::terminal);
    std::FILE* const file = std::tmpfile();
    REQUIRE(file != nullptr);
    CHECK(kind_of_input(::fileno(file)) == InputKind::file);
    CHECK_FALSE(can_pile_up(::fileno(file)));
    std::fclose(file);
}

}  // namespace input_plan_test
