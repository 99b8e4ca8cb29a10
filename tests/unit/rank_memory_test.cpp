// Which memory the agent gives for slots: the table, and the files behind it.
#include "generation/rank_memory.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <string>

namespace rank_memory_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using D = MemoryDecision;

namespace {

struct Given {
    session::MemoryAnswer answer;
    ino_t inode = 0;  // 0: no file came
};

Given ask(RankMemory& memory, int generation, int shard, int slot, std::int64_t bytes) {
    Given given;
    session::MemoryAsked asked{"g", shard, slot, bytes};
    asked.answer = [&](const session::MemoryAnswer& answer, int file) {
        given.answer = answer;
        struct stat found {};
        if (file >= 0 && ::fstat(file, &found) == 0)
            given.inode = found.st_ino;
    };
    memory.answer(5, generation, asked);
    return given;
}

}  // namespace

TEST_CASE("state of a slot x request -> what is done") {
    MemoryTable table(1000);
    const MemorySlot slot{"g", 0, 0};
    CHECK(table.ask(slot, 0, 0) == D::nothing);
    CHECK(table.ask(slot, 0, 400) == D::fresh);
    CHECK(table.ask(slot, 0, 0) == D::what_is);
    CHECK(table.ask(slot, 0, 400) == D::what_is);
    CHECK(table.ask(slot, 0, 300) == D::what_is);
    CHECK(table.ask(slot, 0, 500) == D::fresh);  // the state has grown
    CHECK(table.held_bytes() == 500);
    CHECK(table.ask(slot, 1, 0) ==
          D::what_is);  // the next generation reads what the last one wrote …
    CHECK(table.ask(slot, 1, 0) == D::what_is);
    CHECK(table.ask(slot, 1, 500) == D::fresh);  // … and writes elsewhere
    CHECK(table.ask(slot, 1, 500) == D::what_is);
    CHECK(table.held_bytes() == 500);
}

TEST_CASE("the limit is of all slots together, and a refusal changes nothing") {
    MemoryTable table(1000);
    CHECK(table.ask({"g", 0, 0}, 0, 600) == D::fresh);
    CHECK(table.ask({"g", 0, 1}, 0, 500) == D::too_much);
    CHECK(table.ask({"g", 0, 1}, 0, 400) == D::fresh);
    CHECK(table.ask({"g", 0, 0}, 0, 601) == D::too_much);
    CHECK(table.ask({"g", 0, 0}, 0, 600) == D::what_is);
    CHECK(table.ask({"h", 0, 0}, 0, 1) == D::too_much);
    CHECK(table.ask({"h", 0, 0}, 0, INT64_MAX) == D::too_much);
    table.forget({"g", 0, 1});
    CHECK(table.ask({"h", 0, 0}, 0, 400) == D::fresh);
    CHECK(MemoryTable(0).ask({"g", 0, 0}, 0, 1) == D::too_much);
}

TEST_CASE("what no rank can mean is refused") {
    MemoryTable table(1000);
    CHECK(table.ask({"g", 0, 2}, 0, 1) == D::not_a_slot);
    CHECK(table.ask({"g", 0, -1}, 0, 1) == D::not_a_slot);
    CHECK(table.ask({"g", -1, 0}, 0, 1) == D::not_a_slot);
    CHECK(table.ask({"g", 0, 0}, 0, -1) == D::not_a_slot);
    CHECK(table.ask({std::string(65, 'g'), 0, 0}, 0, 1) == D::not_a_slot);
    CHECK(table.held_bytes() == 0);
}

TEST_CASE("files stay over generations, and are replaced where a later one writes") {
    RankMemory memory(100'000, "checkpoint.memory_limit", "node1");
    CHECK(ask(memory, 0, 0, 0, 0).inode == 0);
    const Given first = ask(memory, 0, 0, 0, 8192);
    CHECK(first.answer.bytes == 8192);
    REQUIRE(first.inode != 0);
    CHECK(ask(memory, 0, 0, 0, 0).inode == first.inode);
    CHECK(ask(memory, 1, 0, 0, 0).inode == first.inode);
    const Given other = ask(memory, 1, 0, 1, 8192);
    CHECK(other.inode != first.inode);
    const Given fresh = ask(memory, 1, 0, 0, 8192);
    CHECK(fresh.inode != first.inode);
    CHECK(ask(memory, 1, 0, 0, 4096).inode == fresh.inode);
}

TEST_CASE(
    "a refusal says who asked for how much, what is held, what sets the limit, and what to do") {
    RankMemory memory(10'000, "checkpoint.memory_limit", "node1");
    ask(memory, 0, 0, 0, 8192);
    const Given refused = ask(memory, 0, 0, 1, 8192);
    CHECK(refused.inode == 0);
    CHECK(refused.answer.bytes == 0);
    CHECK(refused.answer.refused ==
          "rank 5 asked for 8.2 kB for copies of its state, but node1 holds 8.2 kB already, and "
          "checkpoint.memory_limit allows 10.0 kB");
    CHECK(refused.answer.hint.find("checkpoint.memory_limit") != std::string::npos);
}

TEST_CASE("without a limit in the spec it is half of what the node's ranks may use") {
    LaunchPlan plan;
    plan.hostname = "node1";
    plan.node_memory_bytes = 16384;
    RankMemory half = make_rank_memory(plan);
    CHECK(ask(half, 0, 0, 0, 8192).answer.bytes == 8192);
    CHECK(ask(half, 0, 1, 0, 4096).answer.refused.find("half of the memory") != std::string::npos);
    plan.spec.checkpoint.memory_limit_bytes = 0;
    RankMemory none = make_rank_memory(plan);
    CHECK(ask(none, 0, 0, 0, 4096).answer.refused.find("checkpoint.memory_limit allows 0 B") !=
          std::string::npos);
}

}  // namespace rank_memory_test
