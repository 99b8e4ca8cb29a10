// What is copied to the far tier next, and what leaves it.

#include "checkpoint/drain/drain_plan.hpp"
#include "checkpoint/commit/catalog.hpp"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

using namespace autolaunch;

namespace {

std::vector<FarCheckpoint> far(std::vector<std::int64_t> complete, std::vector<std::int64_t> unfinished = {}) {
    std::vector<FarCheckpoint> all;
    for (const std::int64_t step : complete) all.push_back({checkpoint_name(step), step, true, true});
    for (const std::int64_t step : unfinished) all.push_back({checkpoint_name(step), step, false, false});
    return all;
}

std::set<std::int64_t> removed(const DrainDecision& decision) {
    std::set<std::int64_t> steps;
    for (const FarCheckpoint& checkpoint : decision.remove) steps.insert(checkpoint.step);
    return steps;
}

using Steps = std::set<std::int64_t>;

}  // namespace

TEST_CASE("the newest goes first, and only what will stay goes at all") {
    CHECK(decide_drain({}, {}, {}).copy == std::nullopt);
    CHECK(decide_drain({100, 200, 300}, {}, {.keep = 2}).copy == 300);
    CHECK(decide_drain({100, 200, 300}, far({300}), {.keep = 2}).copy == 200);
    CHECK(decide_drain({100, 200, 300}, far({200, 300}), {.keep = 2}).copy == std::nullopt);
    CHECK(decide_drain({100, 200, 300}, far({200, 300}), {.keep = 2, .keep_every = 100}).copy == 100);
    CHECK(decide_drain({400}, far({200, 300}), {.keep = 1}).copy == 400);
    CHECK(decide_drain({150}, far({200, 300}), {.keep = 2}).copy == std::nullopt);
}

TEST_CASE("one that was begun is finished, if it is still wanted") {
    CHECK(decide_drain({300}, far({200}, {300}), {.keep = 2}).copy == 300);
    CHECK(removed(decide_drain({300}, far({200}, {300}), {.keep = 2})).empty());
    CHECK(removed(decide_drain({400}, far({200, 400}, {300}), {.keep = 2})) == Steps{300});
}

TEST_CASE("what need not stay leaves once there is nothing to copy") {
    CHECK(removed(decide_drain({400}, far({100, 200, 300}), {.keep = 2})).empty());
    CHECK(removed(decide_drain({400}, far({100, 200, 300, 400}), {.keep = 2})) == Steps{100, 200});
    CHECK(removed(decide_drain({400}, far({100, 200, 300, 400}), {.keep = 2, .keep_every = 200})) == Steps{100});
    CHECK(removed(decide_drain({}, far({}, {100}), {.keep = 1})).empty());
}

TEST_CASE("whatever there is, the newest complete one stays, and a drain comes to its end") {
    std::mt19937 random(7);
    const auto some = [&] {
        std::vector<std::int64_t> steps;
        for (std::int64_t step = 1; step <= 12; ++step)
            if (random() % 3 == 0) steps.push_back(step);
        return steps;
    };
    for (int i = 0; i < 20'000; ++i) {
        const auto near = some(), complete = some();
        std::vector<std::int64_t> unfinished;
        for (const std::int64_t step : some())
            if (std::find(complete.begin(), complete.end(), step) == complete.end()) unfinished.push_back(step);
        auto there = far(complete, unfinished);
        const DrainRetention retention{1 + static_cast<int>(random() % 3), static_cast<std::int64_t>(random() % 4)};
        for (int turns = 0;; ++turns) {
            REQUIRE(turns < 20);
            const DrainDecision decision = decide_drain(near, there, retention);
            std::int64_t newest = 0;
            for (const auto& checkpoint : there)
                if (checkpoint.complete) newest = std::max(newest, checkpoint.step);
            for (const FarCheckpoint& checkpoint : decision.remove) {
                REQUIRE(newest > 0);
                REQUIRE((!checkpoint.complete || checkpoint.step < newest));
            }
            if (!decision.copy && decision.remove.empty()) break;
            std::erase_if(there, [&](const FarCheckpoint& checkpoint) {
                return removed(decision).contains(checkpoint.step) || checkpoint.step == decision.copy;
            });
            if (decision.copy) there.push_back({checkpoint_name(*decision.copy), *decision.copy, true, true});
        }
    }
}
