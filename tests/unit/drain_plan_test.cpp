// What is copied to the far tier next, and what leaves it.

#include "checkpoint/drain/drain_plan.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/drain/rate_limit.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace drain_plan_test {

using namespace autolaunch;

namespace {

std::vector<FarCheckpoint> far(std::vector<std::int64_t> complete,
                               std::vector<std::int64_t> unfinished = {}) {
    std::vector<FarCheckpoint> all;
    for (const std::int64_t step : complete)
        all.push_back({checkpoint_name(step), step, true, true});
    for (const std::int64_t step : unfinished)
        all.push_back({checkpoint_name(step), step, false, false});
    return all;
}

std::vector<NearCheckpoint> near(std::vector<std::int64_t> steps) {
    std::vector<NearCheckpoint> all;
    for (const std::int64_t step : steps)
        all.push_back({step});
    return all;
}

std::set<std::int64_t> removed(const DrainDecision& decision) {
    std::set<std::int64_t> steps;
    for (const FarCheckpoint& checkpoint : decision.remove)
        steps.insert(checkpoint.step);
    return steps;
}

using Steps = std::set<std::int64_t>;

}  // namespace

TEST_CASE("the newest goes first, and only what will stay goes at all") {
    CHECK(decide_drain(near({}), {}, {}).copy == std::nullopt);
    CHECK(decide_drain(near({100, 200, 300}), {}, {.keep = 2}).copy == 300);
    CHECK(decide_drain(near({100, 200, 300}), far({300}), {.keep = 2}).copy == 200);
    CHECK(decide_drain(near({100, 200, 300}), far({200, 300}), {.keep = 2}).copy == std::nullopt);
    CHECK(
        decide_drain(near({100, 200, 300}), far({200, 300}), {.keep = 2, .keep_every = 100}).copy ==
        100);
    CHECK(decide_drain(near({400}), far({200, 300}), {.keep = 1}).copy == 400);
    CHECK(decide_drain(near({150}), far({200, 300}), {.keep = 2}).copy == std::nullopt);
}

TEST_CASE("one that was begun is finished, if it is still wanted") {
    CHECK(decide_drain(near({300}), far({200}, {300}), {.keep = 2}).copy == 300);
    CHECK(removed(decide_drain(near({300}), far({200}, {300}), {.keep = 2})).empty());
    CHECK(removed(decide_drain(near({400}), far({200, 400}, {300}), {.keep = 2})) == Steps{300});
}

TEST_CASE("what need not stay leaves once there is nothing to copy") {
    CHECK(removed(decide_drain(near({400}), far({100, 200, 300}), {.keep = 2})).empty());
    CHECK(removed(decide_drain(near({400}), far({100, 200, 300, 400}), {.keep = 2})) ==
          Steps{100, 200});
    CHECK(removed(decide_drain(near({400}), far({100, 200, 300, 400}),
                               {.keep = 2, .keep_every = 200})) == Steps{100});
    CHECK(removed(decide_drain(near({}), far({}, {100}), {.keep = 1})).empty());
}

TEST_CASE("the best by their metric go and stay, besides the newest") {
    auto there = far({100, 200, 300, 400});
    for (std::size_t i = 0; i < 3; ++i)
        there[i].metric = std::vector{0.5, 0.3, 0.9}[i];
    CHECK(removed(decide_drain({}, there, {.keep = 1, .keep_best = 1})) == Steps{100, 300});
    CHECK(removed(decide_drain({}, there, {.keep = 1, .keep_best = 2})) == Steps{300});
    CHECK(removed(decide_drain({}, there, {.keep = 1, .keep_best = 1, .lower_is_better = false})) ==
          Steps{100, 200});
    CHECK(removed(decide_drain({}, there, {.keep = 1, .keep_every = 200, .keep_best = 1})) ==
          Steps{300});
    there[0].metric = 0.3;
    CHECK(removed(decide_drain({}, there, {.keep = 1, .keep_best = 1})) ==
          Steps{100, 300});  // the newer of equals
    there[1].metric = std::nan("");
    CHECK(removed(decide_drain({}, there, {.keep = 1, .keep_best = 4})) ==
          Steps{200});  // without a metric none is best
    // A better one here is copied after the newest; a worse one is not.
    CHECK(decide_drain({{150, 0.1}, {350, 0.8}, {500, 2.0}}, there, {.keep = 1, .keep_best = 1})
              .copy == 500);
    there.push_back(far({500})[0]);
    CHECK(decide_drain({{150, 0.1}, {350, 0.8}, {500, 2.0}}, there, {.keep = 1, .keep_best = 1})
              .copy == 150);
    CHECK(decide_drain({{350, 0.8}, {500, 2.0}}, there, {.keep = 1, .keep_best = 1}).copy ==
          std::nullopt);
}

TEST_CASE("whatever there is, the newest complete one stays, and a drain comes to its end") {
    std::mt19937 random(7);
    const auto some = [&] {
        std::vector<std::int64_t> steps;
        for (std::int64_t step = 1; step <= 12; ++step)
            if (random() % 3 == 0)
                steps.push_back(step);
        return steps;
    };
    for (int i = 0; i < 20'000; ++i) {
        const auto here = some(), complete = some();
        std::vector<std::int64_t> unfinished;
        for (const std::int64_t step : some())
            if (std::find(complete.begin(), complete.end(), step) == complete.end())
                unfinished.push_back(step);
        auto there = far(complete, unfinished);
        const DrainRetention retention{.keep = 1 + static_cast<int>(random() % 3),
                                       .keep_every = static_cast<std::int64_t>(random() % 4),
                                       .keep_best = static_cast<int>(random() % 3)};
        for (FarCheckpoint& checkpoint : there)
            if (random() % 2 == 0)
                checkpoint.metric = static_cast<double>(random() % 5);
        for (int turns = 0;; ++turns) {
            REQUIRE(turns < 20);
            const DrainDecision decision = decide_drain(near(here), there, retention);
            std::int64_t newest = 0;
            for (const auto& checkpoint : there)
                if (checkpoint.complete)
                    newest = std::max(newest, checkpoint.step);
            for (const FarCheckpoint& checkpoint : decision.remove) {
                REQUIRE(newest > 0);
                REQUIRE((!checkpoint.complete || checkpoint.step < newest));
            }
            if (!decision.copy && decision.remove.empty())
                break;
            std::erase_if(there, [&](const FarCheckpoint& checkpoint) {
                return removed(decision).contains(checkpoint.step) ||
                       checkpoint.step == decision.copy;
            });
            if (decision.copy)
                there.push_back({checkpoint_name(*decision.copy), *decision.copy, true, true});
        }
    }
}

TEST_CASE("a place that wants them further apart gets those that are far enough from its newest") {
    const DrainRetention every{.keep = 3, .every_steps = 500};
    CHECK(decide_drain(near({100, 200}), {}, every).copy == 200);  // it has none
    CHECK(decide_drain(near({300, 400, 600}), far({200}), every).copy == std::nullopt);
    CHECK(decide_drain(near({600, 700, 800}), far({200}), every).copy == 800);
    CHECK(decide_drain(near({700}), far({800}), every).copy == std::nullopt);  // older than its own
    // What shall stay for good comes, whenever it was saved.
    CHECK(decide_drain(near({300, 400}), far({200}),
                       {.keep = 1, .keep_every = 400, .every_steps = 500})
              .copy == 400);
    // At the end the newest comes, and it alone.
    const DrainDecision last = decide_drain(near({300, 400}), far({200}), every, true);
    CHECK(last.left == std::vector<std::int64_t>{400});
    CHECK(decide_drain(near({300, 400}), far({400}), every, true).copy == std::nullopt);
}

TEST_CASE("and further apart in time, by when they were saved") {
    const auto at = [](std::int64_t step, std::optional<std::int64_t> saved_ms) {
        return NearCheckpoint{step, {}, saved_ms};
    };
    auto there = far({200});
    there[0].saved_ms = 10'000;
    const DrainRetention every{.keep = 3, .every_ms = 5'000};
    CHECK(decide_drain({at(300, 14'999)}, there, every).copy == std::nullopt);
    CHECK(decide_drain({at(300, 15'000)}, there, every).copy == 300);
    CHECK(decide_drain({at(300, std::nullopt)}, there, every).copy == 300);  // nobody knows
    there[0].saved_ms.reset();
    CHECK(decide_drain({at(300, 10'001)}, there, every).copy == 300);
}

TEST_CASE("what is to be copied is all named, the newest first") {
    const DrainDecision decision =
        decide_drain(near({100, 200, 300, 400}), far({200}), {.keep = 3});
    CHECK(decision.left == std::vector<std::int64_t>{400, 300});
    CHECK(decide_drain(near({100}), far({100}), {.keep = 3}).left.empty());
}

TEST_CASE("bytes pass at their rate, and after a pause a tenth of a second's at once") {
    using namespace std::chrono_literals;
    const RateLimit::Clock::time_point start{1h};
    RateLimit limit(1'000'000);
    CHECK(limit.pass(100'000, start) == start);
    CHECK(limit.pass(1'000'000, start) == start + 1s);
    CHECK(limit.pass(500'000, start) == start + 1500ms);
    CHECK(limit.pass(500'000, start + 1s) == start + 2s);
    CHECK(limit.pass(100'000, start + 1h) == start + 1h);  // an hour of nothing is no credit
    CHECK(limit.pass(1'000'000, start + 1h) == start + 1h + 1s);
    RateLimit none(0);
    CHECK(none.pass(std::uint64_t{1} << 60, start) == start);
    RateLimit stopped(1);
    stopped.take(1 << 20, [] { return true; });  // or this takes twelve days
}

}  // namespace drain_plan_test
