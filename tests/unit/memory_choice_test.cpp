// What is decided about copies in memory: keepers, slots, and what a restart takes from where.
#include "checkpoint/memory/choice.hpp"
#include "checkpoint/memory/contents.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace memory_choice_test {

using namespace autolaunch;
using namespace autolaunch::memory;

namespace {

using Ints = std::vector<int>;

SaveName save(std::int64_t step, int generation = 0, std::int64_t sequence = 0) {
    return {step, generation, sequence};
}
Copy copy(SaveName name, int shard, int holder) { return {name, shard, holder, 100}; }

}  // namespace

TEST_CASE("a shard's second copy is on the next node, and nowhere on one node") {
    CHECK(choose_keepers(Ints{0}) == Ints{-1});
    CHECK(choose_keepers(Ints{3, 3, 3}) == Ints{-1, -1, -1});
    CHECK(choose_keepers(Ints{0, 1}) == Ints{1, 0});
    CHECK(choose_keepers(Ints{0, 0, 1, 1, 2, 2}) == Ints{2, 3, 4, 5, 0, 1});
    CHECK(choose_keepers(Ints{0, 1, 0, 1}) ==
          Ints{1, 0, 3, 2});  // ranks of a node need not follow each other
    CHECK(choose_keepers(Ints{0, 0, 0, 1}) ==
          Ints{3, 3, 3, 0});  // the small node keeps all of the large one's
    CHECK(choose_keepers(Ints{0, 1, 1, 1, 1}) == Ints{1, 0, 0, 0, 0});
}

TEST_CASE(
    "a copy is written where no whole one is, then over the older, never over the newest that all "
    "finished") {
    const auto a = save(10), b = save(20);
    CHECK(slot_to_write({}, std::nullopt) == 0);
    CHECK(slot_to_write({a, std::nullopt}, std::nullopt) == 1);
    CHECK(slot_to_write({std::nullopt, a}, a) == 0);
    CHECK(slot_to_write({a, b}, std::nullopt) == 0);
    CHECK(slot_to_write({b, a}, std::nullopt) == 1);
    CHECK(slot_to_write({a, b}, b) == 0);
    // Step 20 was finished here, but not by all: after the restart from 10 it is 20 that is given
    // up.
    CHECK(slot_to_write({a, b}, a) == 1);
    CHECK(slot_to_write({b, a}, a) == 0);
    // The same step of a later attempt is the newer one.
    CHECK(slot_to_write({save(20, 1), save(20, 0)}, std::nullopt) == 1);
}

TEST_CASE("a restart takes the newest save that every shard has a copy of") {
    const auto old = save(10, 0, 0), newer = save(20, 0, 1);
    std::vector<Copy> copies = {copy(old, 0, 0), copy(old, 1, 1), copy(newer, 0, 0)};
    auto choice = choose_restore(copies, 2, INT64_MAX);
    REQUIRE(choice);
    CHECK(choice->name == old);  // rank 1 was killed while it copied step 20

    copies.push_back(copy(newer, 1, 1));
    CHECK(choose_restore(copies, 2, INT64_MAX)->name == newer);
    CHECK(choose_restore(copies, 2, 20)->name == old);
    CHECK_FALSE(choose_restore(copies, 2, 10));
    CHECK_FALSE(choose_restore(copies, 3, INT64_MAX));
    CHECK_FALSE(choose_restore({}, 1, INT64_MAX));
}

TEST_CASE(
    "a lost node's shards come from their keepers; its own copy comes first for every other") {
    const auto name = save(30, 2, 4);
    // Ranks 0 and 1 on node A, 2 and 3 on node B; B lost its memory, and A keeps its copies.
    const std::vector<Copy> copies = {copy(name, 2, 0), copy(name, 0, 0), copy(name, 3, 1),
                                      copy(name, 1, 1)};
    const auto choice = choose_restore(copies, 4, INT64_MAX);
    REQUIRE(choice);
    Ints holders;
    for (const Copy& taken : choice->copies)
        holders.push_back(taken.holder);
    CHECK(holders == Ints{0, 1, 0, 1});

    std::vector<Copy> both = copies;
    both.insert(both.begin(), copy(name, 2, 2));
    CHECK(choose_restore(both, 4, INT64_MAX)->copies[2].holder == 2);
    both.erase(both.begin());
    both.push_back(copy(name, 2, 2));
    CHECK(choose_restore(both, 4, INT64_MAX)->copies[2].holder == 2);
}

TEST_CASE("copies of one step that different attempts made are never mixed") {
    const std::vector<Copy> copies = {copy(save(10, 0), 0, 0), copy(save(10, 1), 1, 1)};
    CHECK_FALSE(choose_restore(copies, 2, INT64_MAX));
    const std::vector<Copy> again = {copy(save(10, 1, 0), 0, 0), copy(save(10, 1, 1), 1, 1)};
    CHECK_FALSE(choose_restore(again, 2, INT64_MAX));
}

TEST_CASE("copies of shards that this world has not are passed over") {
    const std::vector<Copy> copies = {copy(save(10), 0, 0), copy(save(10), 7, 0),
                                      copy(save(10), -1, 0)};
    const auto choice = choose_restore(copies, 1, INT64_MAX);
    REQUIRE(choice);
    CHECK(choice->copies.size() == 1);
}

namespace {

fsdp::StateTensor tensor(const char* name, std::int64_t count, bool replicated, std::byte* data) {
    fsdp::StateTensor made;
    made.name = name;
    made.shape = {count};
    made.replicated = replicated;
    made.pieces = {{0, count, data}};
    return made;
}

}  // namespace

TEST_CASE("replicated tensors have one owner each, and owners have about as many bytes") {
    std::vector<std::byte> bytes(64);
    const fsdp::State state = {
        tensor("a", 8, true, bytes.data()), tensor("b", 2, true, bytes.data()),
        tensor("c", 3, true, bytes.data()), tensor("d", 1, false, bytes.data())};
    const auto names = [&](int rank) {
        std::string all;
        for (const SavedRun& run : plan_copy(state, {}, rank, 2).contents.runs)
            all += run.name;
        return all;
    };
    CHECK(names(0) == "ad");
    CHECK(names(1) == "bcd");
    CHECK(plan_copy(state, {}, 0, 2).bytes == 4 * (8 + 1));
    CHECK(plan_copy(state, {}, 1, 2).bytes == 4 * (2 + 3 + 1));
    CHECK(plan_copy(state, {}, 1, 2).contents.runs[2].position == 4 * (2 + 3));
}

TEST_CASE("a copy fills what it was made of, a part of it, and nothing else") {
    std::vector<std::byte> bytes(64);
    const fsdp::State state = {tensor("a", 4, false, bytes.data()),
                               tensor("b", 2, true, bytes.data())};
    const Contents contents =
        Contents::decode(plan_copy(state, {.extra = "[1]"}, 0, 1).contents.encode());
    CHECK(contents.extra == "[1]");
    const FillPlan all = plan_fill(contents, state);
    REQUIRE(all.runs.size() == 2);
    CHECK(all.runs[1].position == 16);
    CHECK(all.runs[1].bytes == 8);
    CHECK(all.owned == std::vector<std::uint8_t>{0, 1});
    CHECK(plan_fill(contents, {state[1]}).runs.size() == 1);

    const fsdp::State more = {tensor("c", 4, false, bytes.data()),
                              tensor("d", 4, true, bytes.data())};
    CHECK(plan_fill(contents, more).missing ==
          std::vector<std::uint8_t>{1, 0});  // d: another rank may have it
    const auto complaint = [&](fsdp::StateTensor changed) {
        try {
            plan_fill(contents, {changed});
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    fsdp::StateTensor changed = state[0];
    changed.type = DataType::i32;
    CHECK(complaint(changed) == "tensor a has another type in the copy in memory");
    changed = state[0];
    changed.shape = {2, 2};
    CHECK(complaint(changed) == "tensor a has another shape in the copy in memory");
    changed = state[0];
    changed.pieces = {{0, 3, bytes.data()}};
    CHECK(complaint(changed) == "tensor a has another cut in the copy in memory");
}

TEST_CASE(
    "opaque state is kept byte by byte, rank 0's for all and each rank's own; garbage is no copy's "
    "text") {
    const std::string odd("\0\xff{\n", 4);
    const SaveOptions options{.extra = "{}",
                              .opaque = {{"loader", odd, false}, {"rng", odd + "x", true}}};
    const Contents first = Contents::decode(plan_copy({}, options, 0, 2).contents.encode());
    const Contents second = Contents::decode(plan_copy({}, options, 1, 2).contents.encode());
    CHECK(first.shared_opaque.at("loader") == odd);
    CHECK(first.own_opaque.at("rng") == odd + "x");
    CHECK(second.shared_opaque.empty());
    CHECK(second.own_opaque.at("rng") == odd + "x");
    const std::string text = plan_copy({}, options, 0, 2).contents.encode();
    for (std::size_t cut = 0; cut < text.size(); ++cut)
        CHECK_THROWS_AS(Contents::decode(std::string_view(text).substr(0, cut)), Error);
}

}  // namespace memory_choice_test
