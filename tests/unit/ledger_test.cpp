// Where a job's time went: moments in, milliseconds out, which sum to the wall time.
#include "ledger/ledger_book.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>

namespace ledger_test {

using namespace autolaunch::launcher;
using namespace std::chrono_literals;
using Kind = LedgerKind;

namespace {

LedgerBook::Time at(std::int64_t ms) {
    return LedgerBook::Time(1'700'000'000'000ms + std::chrono::milliseconds(ms));
}

/// 4 ranks, one that started 100 ms before it spoke, ran after 300 ms and has done 10 steps of 100
/// ms behind 700 ms of initialisation: now it is 2000.
LedgerBook trained(int gpus = 4) {
    LedgerBook book;
    book.job_started(at(100), {.run_id = "7", .world_size = 4, .preparation = 100ms, .requeue = 0});
    book.generation_started(at(300), 0, gpus);
    for (int step = 1; step <= 10; ++step)
        book.step(at(1000 + 100 * step), 0, step, 0.1);
    return book;
}

void check_sums(const Ledger& ledger) { CHECK(total_ms(ledger) == ledger.wall_ms * ledger.units); }

}  // namespace

TEST_CASE("a job without trouble: launch, initialisation, steps") {
    LedgerBook book = trained();
    book.job_ended(at(2000), 0);
    const Ledger ledger = book.ledger();
    CHECK(ledger.unit == "gpu");
    CHECK(ledger.of(Kind::launch) == 300 * 4);
    CHECK(ledger.of(Kind::initialisation) == 700 * 4);  // the first step began before its report
    CHECK(ledger.of(Kind::steps) == 1000 * 4);
    CHECK(ledger.wall_ms == 2000);
    check_sums(ledger);
    CHECK(goodput(ledger) == doctest::Approx(0.5));
    CHECK_FALSE(mean_time_to_failure(ledger));
    CHECK(ledger.completed == true);
    CHECK(ledger_line(ledger) == "50% steps · 35% initialisation · 15% launch · goodput 50%");
}

TEST_CASE("without GPUs the unit is a rank; one that ends before the others is idle") {
    LedgerBook book = trained(0);
    book.rank_finished(at(2000));
    book.step(at(2400), 0, 11, 0.4);
    book.job_ended(at(2400), 0);
    const Ledger ledger = book.ledger();
    CHECK(ledger.unit == "rank");
    CHECK(ledger.of(Kind::idle) == 400);
    CHECK(ledger.of(Kind::steps) == 1000 * 4 + 400 * 3);
    check_sums(ledger);
}

TEST_CASE("a checkpoint's stall is none of the steps', and counts once, whoever reports it") {
    LedgerBook book = trained();
    book.checkpoint(at(2250), 10, 0.2);
    book.checkpoint(at(2250), 10, 0.25);
    book.job_ended(at(2250), 0);
    const Ledger ledger = book.ledger();
    CHECK(ledger.of(Kind::checkpoint_stall) == 250 * 4);
    CHECK(ledger.of(Kind::steps) == 1000 * 4);
    check_sums(ledger);
}

TEST_CASE("steps behind the last checkpoint are lost, also those done while it was written") {
    LedgerBook book = trained();
    book.checkpoint(at(2000), 6, 0.1);  // of step 6, published after step 10
    book.failure_found(at(2500), 200ms);
    book.generation_failed(at(2600), 0, true);
    book.generation_started(at(3000), 1, 4);
    book.step(at(3600), 0, 7, 0.1);
    book.job_ended(at(3700), 0);
    const Ledger ledger = book.ledger();
    // 600 ms are up to step 6. Of the 900 behind it 100 were a stall and 200 undetected.
    CHECK(ledger.of(Kind::checkpoint_stall) == 100 * 4);
    CHECK(ledger.of(Kind::detection) == 200 * 4);
    CHECK(ledger.of(Kind::lost_work) == 600 * 4);
    CHECK(ledger.of(Kind::recovery) == 500 * 4);
    CHECK(ledger.of(Kind::steps) == (600 + 200) * 4);
    CHECK(ledger.failures == 1);
    CHECK(ledger.generations == 2);
    CHECK(mean_time_to_failure(ledger) == 2900ms);
    check_sums(ledger);
}

TEST_CASE("a failure for good: what was not saved is lost, and what follows is idle") {
    LedgerBook book = trained();
    book.failure_found(at(2000), 0ms);
    book.generation_failed(at(2000), 0, false);
    book.job_ended(at(2100), 1);
    const Ledger ledger = book.ledger();
    CHECK(ledger.of(Kind::steps) == 0);
    CHECK(ledger.of(Kind::lost_work) == 1000 * 4);
    CHECK(ledger.of(Kind::idle) == 100 * 4);
    CHECK(ledger.completed == false);
    CHECK(share_used(ledger) > goodput(ledger));
    check_sums(ledger);
}

TEST_CASE("who reports no steps computes as long as it runs; a checkpoint keeps what was before") {
    LedgerBook book;
    book.job_started(at(0), {.run_id = "7", .world_size = 2});
    book.generation_started(at(100), 0, 0);
    book.checkpoint(at(600), 1, 0);
    book.generation_failed(at(1000), 0, true);
    book.generation_started(at(1100), 1, 0);
    book.job_ended(at(1300), 0);
    const Ledger ledger = book.ledger();
    CHECK_FALSE(ledger.steps_reported);
    CHECK(ledger.of(Kind::steps) == (500 + 200) * 2);
    CHECK(ledger.of(Kind::lost_work) == 400 * 2);
    CHECK(ledger.of(Kind::initialisation) == 0);
    check_sums(ledger);
}

TEST_CASE("a requeue goes on with the ledger; the scheduler's time is queue, a person's is none") {
    LedgerBook first = trained();
    first.checkpoint(at(2000), 10, 0);
    first.job_ended(at(2000), 75);
    const auto kept = parse_ledger(ledger_json(first.ledger()));
    REQUIRE(kept);
    LedgerBook requeued(*kept);
    requeued.job_started(at(5000),
                         {.run_id = "7", .world_size = 4, .requeue = 1, .first_generation = 1});
    requeued.generation_started(at(5100), 1, 4);
    requeued.step(at(5300), 0, 11, 0.1);
    requeued.job_ended(at(5300), 0);
    const Ledger ledger = requeued.ledger();
    CHECK(ledger.of(Kind::queue) == 3000 * 4);
    CHECK(ledger.of(Kind::steps) == 1100 * 4);
    CHECK(ledger.attempts == 2);
    CHECK(ledger.without_person);
    CHECK(ledger.gaps.empty());
    CHECK(ledger.wall_ms == 5300);
    check_sums(ledger);

    LedgerBook by_hand(*kept);
    by_hand.job_started(at(5000), {.run_id = "8", .world_size = 4, .first_generation = 3});
    by_hand.generation_started(at(5100), 3, 4);
    by_hand.job_ended(at(5300), 0);
    CHECK(by_hand.ledger().of(Kind::queue) == 0);
    CHECK_FALSE(by_hand.ledger().without_person);
    CHECK(by_hand.ledger().gaps.size() == 2);  // generations 1 and 2, and the time between
    CHECK(by_hand.ledger().wall_ms == 2300);
    check_sums(by_hand.ledger());
}

TEST_CASE("without steps, what an earlier attempt counted as such is judged again") {
    LedgerBook first;
    first.job_started(at(0), {.run_id = "7", .world_size = 1, .requeue = 0});
    first.generation_started(at(0), 0, 0);
    first.job_ended(at(1000), 75);
    CHECK(first.ledger().of(Kind::lost_work) == 1000);
    LedgerBook next(parse_ledger(ledger_json(first.ledger())).value());
    next.job_started(at(1000), {.run_id = "7", .world_size = 1, .requeue = 1});
    next.generation_started(at(1000), 1, 0);
    next.step(at(1500), 0, 1, 0.5);
    CHECK(next.ledger().of(Kind::lost_work) == 0);
    CHECK(next.ledger().of(Kind::initialisation) == 1000);
}

TEST_CASE("an agent that was killed leaves a failure, and another job in the folder a new ledger") {
    LedgerBook book = trained();
    book.job_started(at(9000), {.run_id = "7", .world_size = 4, .requeue = 1});
    CHECK(book.ledger().failures == 1);
    CHECK(book.ledger().of(Kind::lost_work) == 1000 * 4);
    CHECK(book.ledger().of(Kind::queue) == 7000 * 4);
    book.job_ended(at(9000), 0);
    book.job_started(at(10'000), {.run_id = "9", .world_size = 4});
    CHECK(book.ledger().attempts == 1);
    CHECK(total_ms(book.ledger()) == 0);
}

TEST_CASE("clocks that are set back take no time away, and nonsense of ranks no sum") {
    LedgerBook book = trained();
    book.step(at(500), 0, 11, -3.0);
    book.step(at(600), 0, 12, 1e300);
    book.checkpoint(at(700), 12, 1e300);
    book.job_ended(at(700), 0);
    check_sums(book.ledger());
    for (const std::int64_t ms : book.ledger().unit_ms)
        CHECK(ms >= 0);
}

TEST_CASE("whatever happens in whatever order, the kinds sum to the wall time") {
    std::mt19937 random(21);
    for (int job = 0; job < 400; ++job) {
        LedgerBook book;
        std::int64_t now = 0;
        int generation = 0;
        std::int64_t step = 0;
        book.job_started(at(0), {.run_id = "7", .world_size = 8, .requeue = 0});
        for (int event = 0; event < 60; ++event) {
            now += static_cast<std::int64_t>(random() % 500);
            const double seconds = static_cast<double>(random() % 700) / 1000;
            switch (random() % 8) {
                case 0:
                    book.generation_started(at(now), generation, 8);
                    break;
                case 1:
                    book.checkpoint(at(now), step - random() % 3, seconds);
                    break;
                case 2:
                    book.rank_finished(at(now));
                    break;
                case 3:
                    book.failure_found(at(now), std::chrono::milliseconds(random() % 900));
                    break;
                case 4:
                    book.generation_failed(at(now), generation++, random() % 2 == 0);
                    break;
                case 5:
                    book.last_seen(at(now));
                    break;
                default:
                    book.step(at(now), static_cast<int>(random() % 3), ++step, seconds);
            }
        }
        book.job_ended(at(now + 5), static_cast<int>(random() % 2));
        check_sums(book.ledger());
        CHECK(book.ledger().wall_ms == now + 5);
        for (const std::int64_t ms : book.ledger().unit_ms)
            REQUIRE(ms >= 0);
        const auto again = parse_ledger(ledger_json(book.ledger()));
        REQUIRE(again);
        CHECK(again->unit_ms == book.ledger().unit_ms);
    }
}

TEST_CASE("what is no ledger, or a later version's, is none") {
    const std::string text = ledger_json(trained().ledger());
    CHECK(parse_ledger(text));
    for (const std::string& broken :
         {std::string(), std::string("{}"), std::string("[1]"), text.substr(0, text.size() / 2),
          std::string(R"({"format":2})")})
        CHECK_FALSE(parse_ledger(broken));
    std::string negative = text;
    negative.replace(negative.find("\"wall_ms\": "), 11, "\"wall_ms\": -");
    CHECK_FALSE(parse_ledger(negative));
}

}  // namespace ledger_test
