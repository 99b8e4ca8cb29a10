#include "progress/standstill.hpp"
#include "progress/rank_activity.hpp"
#include "progress/step_watch.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

using namespace autolaunch::launcher;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

const StepWatch::Moment kStart{};

StepWatch watch_of(int steps, milliseconds each) {
    StepWatch watch;
    for (int step = 0; step <= steps; ++step)
        watch.step(0, kStart + step * each);
    return watch;
}

RankActivity does(int rank, Doing doing, const std::string& what = "") {
    return {.rank = rank, .pid = 100 + rank, .doing = doing, .cpu_percent = 99, .what = what};
}

StandstillFacts facts_of(std::vector<RankActivity> activities, std::vector<int> in_collective) {
    return {.overdue = {.rank = 0, .silence = milliseconds(6100), .usual = milliseconds(300)},
            .activities = std::move(activities),
            .in_collective = std::move(in_collective)};
}

/// Looks at it as an agent does, from `from` until `until`; the moment at which a step was overdue
/// first.
std::optional<StepWatch::Moment> first_overdue(const StepWatch& watch, StepWatch::Moment from,
                                               StepWatch::Moment until) {
    for (auto now = from; now < until; now += milliseconds(200))
        if (watch.look(now))
            return now;
    return std::nullopt;
}

}  // namespace

TEST_CASE("nothing is overdue before it is known what is usual") {
    const auto watch = watch_of(int(StepWatch::kLeastSteps) - 1, seconds(1));
    CHECK_FALSE(watch.look(kStart + hours(10)));
    CHECK_FALSE(StepWatch().look(kStart + hours(10)));
}

TEST_CASE("a step is overdue after three usual ones and half a second") {
    const auto watch = watch_of(20, milliseconds(300));
    const auto last = kStart + 20 * milliseconds(300);
    CHECK_FALSE(watch.look(last + milliseconds(1400)));
    const auto overdue = watch.look(last + milliseconds(1401));
    REQUIRE(overdue);
    CHECK(overdue->usual == milliseconds(300));
    CHECK(overdue->silence == milliseconds(1401));
    CHECK_FALSE(overdue->far);
    CHECK(watch.look(last + StepWatch::kShortestFar + milliseconds(1))->far);
}

TEST_CASE("a slow first step teaches nothing") {
    StepWatch watch;
    watch.step(0, kStart + seconds(60));
    for (int step = 1; step <= 10; ++step)
        watch.step(0, kStart + seconds(60 + step));
    CHECK(watch.usual() == seconds(1));
    CHECK(watch.near_limit() == milliseconds(3500));
}

TEST_CASE("a phase of its own is waited for, and teaches nothing") {
    auto watch = watch_of(20, seconds(1));
    const auto last = kStart + seconds(20);
    watch.phase(0, true, last + milliseconds(100));
    CHECK_FALSE(watch.look(last + hours(1)));
    watch.phase(0, false, last + hours(1));
    CHECK_FALSE(watch.look(last + hours(1) + seconds(3)));
    CHECK(watch.look(last + hours(1) + seconds(4)));
    watch.step(0, last + hours(1) + seconds(4));
    CHECK(watch.near_limit() == milliseconds(3500));
}

TEST_CASE("a pause that ended by itself is not told of another time") {
    auto watch = watch_of(20, seconds(1));
    watch.step(0, kStart + seconds(40));  // 20 s
    for (int step = 1; step <= 300; ++step)
        watch.step(0, kStart + seconds(40 + step));
    CHECK_FALSE(watch.look(kStart + seconds(340 + 25)));
    CHECK(watch.look(kStart + seconds(340 + 31)));
}

TEST_CASE("what shows that a rank moves, and its end, count") {
    auto watch = watch_of(20, seconds(1));
    watch.alive(0, kStart + seconds(29));
    CHECK_FALSE(watch.look(kStart + seconds(30)));
    watch.alive(7, kStart + seconds(29));  // which has done no step
    watch.ended(0);
    CHECK_FALSE(watch.look(kStart + hours(1)));
}

TEST_CASE("a job stands still when nobody is left who could go on") {
    const auto still = does(3, Doing::still, "reads /data/7.bin");
    const auto found = judge_standstill(facts_of({does(0, Doing::working), still}, {0}));
    CHECK(found.sure);
    CHECK(found.ranks == std::vector{3});
    CHECK(found.lines == std::vector<std::string>{"rank 3 (pid 103) reads /data/7.bin"});
    CHECK(found.headline == "no step for 6.1 s, where one takes 0.3 s");
    // All wait in collectives, each for another one.
    CHECK(
        judge_standstill(facts_of({does(0, Doing::working), does(1, Doing::still)}, {0, 1})).sure);
}

TEST_CASE("a rank that works, or that a disk holds, may come to its next step") {
    for (const Doing doing : {Doing::working, Doing::blocked})
        CHECK_FALSE(judge_standstill(facts_of({does(0, Doing::still), does(1, doing)}, {0})).sure);
    auto silent = facts_of({does(0, Doing::still)}, {});
    silent.silent_nodes = 1;
    CHECK_FALSE(judge_standstill(silent).sure);
    CHECK(judge_standstill(silent).lines.back() == "1 node has not answered in time");
    CHECK_FALSE(judge_standstill(facts_of({}, {})).sure);
}

TEST_CASE("who is stopped is named, also within a collective, and not before 5 s") {
    auto facts = facts_of({does(0, Doing::working), does(1, Doing::stopped, "is stopped")}, {0, 1});
    CHECK(judge_standstill(facts).sure);
    CHECK(judge_standstill(facts).ranks == std::vector{1});
    facts.overdue.silence = milliseconds(3000);
    CHECK_FALSE(judge_standstill(facts).sure);
}

TEST_CASE("of many ranks four are told of") {
    std::vector<RankActivity> all;
    for (int rank = 4095; rank >= 0; --rank)
        all.push_back(does(rank, Doing::still));
    const auto found = judge_standstill(facts_of(all, {}));
    CHECK(found.ranks.size() == 4096);
    CHECK(found.lines.size() == 4);
    CHECK(found.lines.front() == "rank 0 (pid 100) stands still");
    CHECK(found.lines.back() == "and 4093 other ranks");
}

TEST_CASE("work is CPU time and bytes; a watchdog's glances are none") {
    const ActivityLook first{kStart, milliseconds(1000), 5000};
    const auto after = [&](int cpu, std::uint64_t bytes) {
        return ActivityLook{kStart + seconds(1), milliseconds(1000 + cpu), 5000 + bytes};
    };
    CHECK(compare_looks(first, after(10, 100), 'S').doing == Doing::still);
    CHECK(compare_looks(first, after(100, 0), 'R').doing == Doing::working);
    CHECK(compare_looks(first, after(100, 0), 'R').cpu_percent == 10);
    CHECK(compare_looks(first, after(0, 1 << 20), 'S').doing == Doing::working);
    CHECK(compare_looks(first, after(0, 0), 'R').doing == Doing::working);
    CHECK(compare_looks(first, after(0, 0), 'D').doing == Doing::blocked);
    CHECK(compare_looks(first, after(0, 1 << 20), 'D').doing == Doing::working);
    CHECK(compare_looks(first, after(0, 0), 'T').doing == Doing::stopped);
    CHECK(compare_looks(first, after(0, 0), 't').doing == Doing::traced);
    // A child ended between the looks, and took its time along.
    CHECK(compare_looks(after(900, 1 << 20), first, 'S').cpu_percent == 0);
}

TEST_CASE("by a limit of ours a job is ended when that is sure, far, and nobody's wish") {
    const auto facts = facts_of({does(0, Doing::working), does(1, Doing::still)}, {0});
    auto overdue = facts.overdue;
    const auto ends = [&](const Standstill& found, bool told = false) {
        return ends_generation(found, overdue, seconds(300), told);
    };
    const auto sure = judge_standstill(facts);
    overdue.far = true;
    overdue.silence = seconds(299);
    CHECK_FALSE(ends(sure));
    CHECK_FALSE(ends(sure, true));
    overdue.silence = seconds(300);
    CHECK(ends(sure));
    overdue.far = false;
    CHECK_FALSE(ends(sure));
    overdue.far = true;
    const auto works = judge_standstill(facts_of({does(1, Doing::working)}, {}));
    CHECK_FALSE(ends(works));
    CHECK(ends(works, true));
    auto held = facts_of({does(1, Doing::stopped)}, {});
    CHECK(judge_standstill(held).sure);
    CHECK_FALSE(ends(judge_standstill(held)));
    CHECK(ends(judge_standstill(held), true));
    held.activities = {does(1, Doing::traced)};
    CHECK(judge_standstill(held).sure);
    CHECK_FALSE(ends(judge_standstill(held), true));
}

TEST_CASE("a limit that was told counts from the first step on, and however long steps take") {
    StepWatch watch;
    watch.tell_limit(seconds(30));
    CHECK_FALSE(watch.look(kStart + hours(1)));  // it may load and compile
    watch.step(0, kStart + hours(1));
    CHECK_FALSE(watch.look(kStart + hours(1) + seconds(30)));
    const auto overdue = watch.look(kStart + hours(1) + seconds(31));
    REQUIRE(overdue);
    CHECK(overdue->far);
    CHECK(judge_standstill({.overdue = *overdue, .activities = {}}).headline ==
          "no step for 31.0 s");
    auto slow = watch_of(20, seconds(20));
    slow.tell_limit(seconds(30));
    CHECK(slow.look(kStart + seconds(400 + 31))->far);
    slow.phase(0, true, kStart + seconds(401));
    CHECK_FALSE(slow.look(kStart + hours(2)));
}

TEST_CASE("time in which nobody looked is no silence") {
    auto watch = watch_of(20, seconds(1));
    watch.forgive(hours(1));  // the agent was stopped
    CHECK_FALSE(watch.look(kStart + hours(1) + seconds(20)));
    watch.step(0, kStart + hours(1) + seconds(21));
    CHECK(watch.near_limit() == milliseconds(3500));
}

// An agent looks every 200 ms; what is overdue is judged by what the ranks do then. Evaluations,
// saves and pauses of the garbage collector use the CPU or the disk.
TEST_CASE("a day of training with evaluations, saves and pauses raises no false alarm") {
    std::mt19937 random(7);
    StepWatch watch;
    auto now = kStart + seconds(20);  // the first step compiles
    int overdue = 0, named = 0;
    bool saw_hang = false;
    watch.step(0, now);
    for (int step = 1; now < kStart + hours(24); ++step) {
        milliseconds time(std::uniform_int_distribution<int>(900, 1300)(random));
        if (step % 500 == 0)
            time += seconds(45);  // an evaluation, not declared
        else if (step % 100 == 0)
            time += seconds(8);  // a save
        else if (step % 37 == 0)
            time += milliseconds(2500);  // garbage, or another shape is compiled
        if (const auto at = first_overdue(watch, now, now + time)) {
            ++overdue;
            const auto it = *watch.look(now + time);
            if (judge_standstill({.overdue = it, .activities = {does(0, Doing::working)}}).sure ||
                it.far)
                ++named;
        }
        now += time;
        watch.step(0, now);
    }
    CHECK(overdue > 0);  // it did look at them
    CHECK(named == 0);
    if (const auto at = first_overdue(watch, now, now + hours(1))) {
        const auto it = *watch.look(*at);
        saw_hang = judge_standstill({.overdue = it, .activities = {does(0, Doing::still)}}).sure;
    }
    CHECK(saw_hang);
}
