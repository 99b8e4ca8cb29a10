// When to save, and what to keep.
#include "checkpoint/save/save_clock.hpp"
#include "checkpoint/commit/retention.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace save_clock_test {

using namespace autolaunch;

namespace {

// Expected share of the time that is lost when a job saves for `cost` every `interval` seconds and
// failures come as a Poisson process: Daly's exact model without the restart: M (e^((interval +
// cost)/M) - 1) / interval.
double time_lost(double interval, double cost, double mean) {
    return mean * std::expm1((interval + cost) / mean) / interval;
}

}  // namespace

TEST_CASE("the optimal interval loses less than any other") {
    for (const double mean : {600.0, 3600.0, 86400.0, 6300.0 * 3600}) {
        for (const double cost : {0.01, 0.5, 5.0, 60.0, 300.0}) {
            CAPTURE(mean);
            CAPTURE(cost);
            const double best = optimal_save_interval(cost, mean);
            if (cost > mean / 10)
                continue;  // the formula is a series in cost / mean
            for (const double factor : {0.5, 0.8, 1.25, 2.0})
                CHECK(time_lost(best, cost, mean) < time_lost(best * factor, cost, mean));
        }
    }
    CHECK(optimal_save_interval(5, 86400) ==
          doctest::Approx(926.1).epsilon(0.001));  // sqrt(2dM) is 929.5
    CHECK(optimal_save_interval(500, 200) == 200);
}

TEST_CASE("steps, seconds, and the sooner of the two") {
    SaveSchedule schedule;
    schedule.every_steps = 50;
    SaveClock steps(schedule, 1, std::nullopt, 0);
    CHECK(steps.due(49, 10) == SaveReason::none);
    CHECK(steps.due(50, 20) == SaveReason::steps);
    CHECK_FALSE(steps.interval());
    schedule = {};
    schedule.every_seconds = 60;
    SaveClock seconds(schedule, 1, std::nullopt, 1000);
    CHECK(seconds.due(1, 1010) == SaveReason::none);
    CHECK(seconds.due(2, 1030) == SaveReason::none);
    CHECK(seconds.due(3, 1052) ==
          SaveReason::seconds);  // 8 s early, and the next step would end 14 s late
    seconds.began(1061);
    CHECK(seconds.due(4, 1070) == SaveReason::none);
    CHECK(seconds.due(5, 1125) == SaveReason::seconds);
    SaveClock never({}, 1, std::nullopt, 0);
    CHECK(never.due(1, 1e9) == SaveReason::none);
}

TEST_CASE("the optimal interval follows what saves cost, and is never shorter than a save") {
    SaveSchedule schedule;
    schedule.optimal = true;
    schedule.seconds_between_failures = 86400;
    SaveClock clock(schedule, 1, std::nullopt, 0);
    CHECK(*clock.interval() == doctest::Approx(optimal_save_interval(10, 86400)));
    clock.cost(0.02, 30);
    CHECK(*clock.interval() == doctest::Approx(optimal_save_interval(0.02, 86400)));
    clock.cost(0.02, 300);
    CHECK(*clock.interval() == 300);
    schedule.every_seconds = 40;
    SaveClock both(schedule, 1, std::nullopt, 0);
    CHECK(*both.interval() == 40);
    // By nodes: more nodes fail more often.
    schedule = {};
    schedule.optimal = true;
    CHECK(*SaveClock(schedule, 1, std::nullopt, 0).interval() >
          10 * *SaveClock(schedule, 1024, std::nullopt, 0).interval());
}

TEST_CASE("before the end there is time for another step and a save, or it is now") {
    SaveClock clock({}, 1, 1000.0, 0);
    clock.cost(1, 20);
    double now = 0;
    std::int64_t step = 0;
    SaveReason reason = SaveReason::none;
    while ((reason = clock.due(++step, now += 7)) == SaveReason::none)
        REQUIRE(now < 1000);
    CHECK(reason == SaveReason::deadline);
    CHECK(now + 20 < 1000);  // the save still fits
    CHECK(now > 1000 - 60);  // and not much was given away
    CHECK(slurm_deadline("1700000000") == std::chrono::system_clock::from_time_t(1700000000));
    // Asked to stop, it ends sooner; a later end changes nothing.
    SaveClock stopped({}, 1, 1000.0, 0);
    CHECK(stopped.seconds_left(100) == 900);
    stopped.end_by(150);
    stopped.end_by(500);
    CHECK(stopped.seconds_left(100) == 50);
    CHECK(stopped.due(1, 130) == SaveReason::deadline);
    CHECK_FALSE(stopped.expected_save());
    stopped.cost(1, 20);
    CHECK(stopped.expected_save().value() >= 20);
    CHECK_FALSE(SaveClock({}, 1, std::nullopt, 0).seconds_left(1));
    for (const char* text : {"", "0", "x", "4294967295", "-5"})
        CHECK_FALSE(slurm_deadline(text));
}

TEST_CASE("schedules that make no sense are refused by name") {
    SaveSchedule schedule;
    schedule.every_steps = 0;
    CHECK_THROWS_WITH_AS(SaveClock(schedule, 1, std::nullopt, 0), doctest::Contains("every_steps"),
                         Error);
    schedule = {};
    schedule.every_seconds = -1;
    CHECK_THROWS_WITH_AS(SaveClock(schedule, 1, std::nullopt, 0),
                         doctest::Contains("every_seconds"), Error);
    schedule = {};
    schedule.seconds_between_failures = std::nan("");
    CHECK_THROWS_WITH_AS(SaveClock(schedule, 1, std::nullopt, 0),
                         doctest::Contains("seconds_between"), Error);
    CHECK(name_of(SaveReason::deadline) == "deadline");
}

namespace {

struct Shelf {
    // Steps newest first, with metrics; a NaN stands for "has none", and steps in `broken` are not
    // complete, and nothing is known of those in `unread`.
    std::map<std::int64_t, double, std::greater<>> metrics;
    std::vector<std::int64_t> broken = {};
    std::vector<std::int64_t> unread = {};

    std::vector<std::string> going(const CheckpointOptions& options, std::int64_t just_saved) {
        std::vector<KeptCheckpoint> checkpoints;
        for (const auto& [step, metric] : metrics)
            checkpoints.push_back({step, std::to_string(step)});
        return no_longer_kept(checkpoints, options, just_saved,
                              [&](const KeptCheckpoint& one) -> LookedAt {
                                  ++looked;
                                  if (std::count(unread.begin(), unread.end(), one.step) > 0)
                                      return {LookedAt::unknown, {}};
                                  if (std::count(broken.begin(), broken.end(), one.step) > 0)
                                      return {LookedAt::incomplete, {}};
                                  return {LookedAt::complete, metrics.at(one.step)};
                              });
    }
    int looked = 0;
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("the newest are kept, and what is not complete does not count") {
    Shelf shelf{{{500, 1}, {400, 1}, {300, 1}, {200, 1}, {100, 1}}};
    CheckpointOptions options;
    options.keep = 2;
    CHECK(shelf.going(options, 500) == Names{"300", "200", "100"});
    CHECK(shelf.looked == 4);  // what goes was looked at
    shelf.broken = {400, 300};
    CHECK(shelf.going(options, 500) == Names{"100"});  // 400 and 300 go with the next save
    options.keep = 1;
    CHECK(shelf.going(options, 500) == Names{"400", "300", "200", "100"});
    shelf.broken = {400, 300, 200, 100};
    options.keep = 3;
    CHECK(shelf.going(options, 500).empty());
}

TEST_CASE("what cannot be read stays, and does not count") {
    Shelf shelf{{{500, 1}, {400, 1}, {300, 1}, {200, 1}, {100, 1}}};
    shelf.unread = {400, 200};
    CheckpointOptions options;
    options.keep = 2;
    CHECK(shelf.going(options, 500) == Names{"100"});  // 300 is the second
    options.keep = 1;
    options.keep_best = 1;
    CHECK(shelf.going(options, 500) == Names{"100"});
    shelf.unread = {500, 400, 300, 200, 100};
    CHECK(shelf.going(options, 500).empty());
}

TEST_CASE("every n-th and the best stay besides") {
    const double none = std::nan("");
    Shelf shelf{{{900, 0.5},
                 {800, 0.3},
                 {700, 0.3},
                 {600, none},
                 {500, 0.9},
                 {400, 0.2},
                 {300, 0.1},
                 {250, 0.7}}};
    CheckpointOptions options;
    options.keep = 1;
    options.keep_every = 500;
    CHECK(shelf.going(options, 900) == Names{"800", "700", "600", "400", "300", "250"});
    options.keep_best = 2;
    CHECK(shelf.going(options, 900) == Names{"600", "800", "700", "250"});
    options.keep_best = 3;
    CHECK(shelf.going(options, 900) == Names{"600", "700", "250"});  // the newer one of equals
    options.keep_best = 1;
    options.lower_is_better = false;
    CHECK(shelf.going(options, 900) == Names{"600", "800", "700", "400", "300"});
    shelf.broken = {300};
    options.lower_is_better = true;
    CHECK(shelf.going(options, 900) == Names{"600", "300", "800", "700", "250"});
}

}  // namespace save_clock_test
