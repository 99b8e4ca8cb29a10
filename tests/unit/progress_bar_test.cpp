#include "report/progress_bar.hpp"
#include "report/terminal_text.hpp"
#include "report/units.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

namespace progress_bar_test {

using namespace autolaunch::launcher;
using namespace std::chrono_literals;

namespace {

const ProgressBar::Time kStart{};

StepReported report(int rank, std::int64_t step) {
    StepReported reported;
    reported.rank = rank;
    reported.step = step;
    reported.total_steps = 5000;
    reported.tokens = 206'000;
    reported.loss = 2.713;
    reported.seconds = 0.5;
    return reported;
}

CheckpointPublished checkpoint(int rank, std::int64_t step, double stall) {
    return {rank, step, "c", stall};
}

}  // namespace

TEST_CASE("the line says step, bar, loss, rate, checkpoint and time left") {
    ProgressBar bar;
    CHECK_FALSE(bar.known());
    bar.add(report(0, 1250), kStart);
    bar.add(checkpoint(0, 1200, 0.015));
    bar.add(checkpoint(3, 1200, 0.02));  // the slowest rank's stall counts
    CHECK(bar.line(100) ==
          "step 1250/5000 ━━━━─────────────  loss 2.713 · 412k tok/s · saved @1200 (0.02 s stall) "
          "· 31 min left");
    CHECK(bar.plain() ==
          "step 1250/5000  loss 2.713 · 412k tok/s · saved @1200 (0.02 s stall) · 31 min left");
}

TEST_CASE("the line fits its width, and the bar gives way first") {
    ProgressBar bar;
    bar.add(report(0, 1250), kStart);
    for (int columns = 1; columns <= 200; ++columns)
        CHECK(display_width(bar.line(columns)) <= columns);
    CHECK(bar.line(60) == "step 1250/5000  loss 2.713 · 412k tok/s · 31 min left");
    CHECK(bar.line(20) == "step 1250/5000  los…");
}

TEST_CASE("the job's numbers are those of its lowest rank, not a sum") {
    ProgressBar bar;
    for (const int rank : {3, 0, 1, 2})
        bar.add(report(rank, 10 + rank), kStart);
    CHECK(bar.plain() == "step 10/5000  loss 2.713 · 412k tok/s · 42 min left");
}

TEST_CASE("without seconds the rate comes from the reports' times") {
    ProgressBar bar;
    StepReported first;
    first.total_steps = 110;
    first.tokens = 1000;
    bar.add(first, kStart);
    CHECK(bar.plain() == "step 0/110");
    first.step = 10;
    bar.add(first, kStart + 20s);
    CHECK(bar.plain() == "step 10/110  500 tok/s · 3 min left");
}

TEST_CASE("a restart forgets the rates and keeps what was saved") {
    ProgressBar bar;
    bar.add(report(0, 1250), kStart);
    bar.add(checkpoint(0, 1200, 0));
    bar.restart();
    CHECK_FALSE(bar.known());
    StepReported again;
    again.step = 1201;
    bar.add(again, kStart + 1h);
    CHECK(bar.plain() == "step 1201/5000  saved @1200 (0.00 s stall)");
}

TEST_CASE("the bar is full at the end and never beyond") {
    ProgressBar bar;
    for (const std::int64_t step : {5000, 5001}) {
        StepReported last;
        last.step = step;
        last.total_steps = 5000;
        bar.add(last, kStart);
        CHECK(bar.line(26).substr(15) == "━━━━━━━━━━━");
    }
}

TEST_CASE("durations, rates and sizes read as people write them") {
    CHECK(format_duration(0ms) == "under 1 ms");
    CHECK(format_duration(8ms) == "8 ms");
    CHECK(format_duration(400ms) == "0.4 s");
    CHECK(format_duration(9'949ms) == "9.9 s");
    CHECK(format_duration(9'950ms) == "10 s");
    CHECK(format_duration(63s) == "63 s");
    CHECK(format_duration(192s) == "3 min 12 s");
    CHECK(format_duration(125min) == "2 h 5 min");
    CHECK(format_duration(76h) == "3 d 4 h");
    CHECK(format_rate(7.25) == "7.2");
    CHECK(format_rate(950) == "950");
    CHECK(format_rate(999.6) == "1.0k");
    CHECK(format_rate(412'345) == "412k");
    CHECK(format_rate(1'230'000) == "1.2M");
    CHECK(format_bytes(812) == "812 B");
    CHECK(format_bytes(12'345'678) == "12.3 MB");
}

}  // namespace progress_bar_test
