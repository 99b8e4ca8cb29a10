// What is concluded from many ranks' flight recorders: made-up rings, and what a person is told of
// them.
#include "flight_view/flight_picture.hpp"
#include "control/control_message.hpp"
#include "flight/flight_recorder.hpp"
#include "flight_view/flight_json.hpp"
#include "flight_view/flight_lines.hpp"
#include "flight_view/last_call.hpp"
#include "flight_view/rank_recorders.hpp"
#include "flight_view/stragglers.hpp"
#include "sanitized.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace flight_picture_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using flight::Kind;
using flight::State;

namespace {

constexpr std::int64_t kSecond = 1'000'000;

flight::RecordedCall call(Kind kind, std::uint64_t sequence, State state, std::int64_t seconds_ago,
                          std::uint64_t bytes = 4 << 20,
                          const std::string& label = "h.0 gradients") {
    flight::RecordedCall made;
    made.sequence = sequence;
    made.kind = static_cast<std::uint8_t>(kind);
    made.state = static_cast<std::uint8_t>(state);
    made.bytes = bytes;
    made.label = label;
    made.enqueued_us = seconds_ago * kSecond;
    if (state != State::enqueued)
        made.started_us = seconds_ago * kSecond;
    if (state == State::finished || state == State::failed)
        made.finished_us = seconds_ago * kSecond - kSecond / 2;
    return made;
}

flight::RecordedGroup group(int place, int size, std::vector<flight::RecordedCall> calls,
                            const std::string& name = "world", std::uint64_t id = 7) {
    flight::RecordedGroup made;
    made.id = id;
    made.name = name;
    made.backend = "shm";
    made.size = size;
    made.place = place;
    made.in_use = true;
    for (const auto& one : calls)
        if (!flight::is_message(static_cast<Kind>(one.kind)))
            made.collectives = one.sequence;
    made.calls = std::move(calls);
    return made;
}

flight::RecordedRank rank_in(int rank, std::vector<flight::RecordedGroup> groups,
                             bool ended = false) {
    return {.rank = rank, .ended = ended, .no_groups = {}, .groups = std::move(groups)};
}

const flight::RecordedCall kGather =
    call(Kind::all_gather, 411, State::finished, 32, 1 << 20, "h.0 parameters");
const flight::RecordedCall kWaiting = call(Kind::all_reduce, 412, State::started, 31);

/// `size` ranks of world that wait in #412; the test makes one different.
std::vector<flight::RecordedRank> waiting_ranks(int size) {
    std::vector<flight::RecordedRank> ranks;
    for (int rank = 0; rank < size; ++rank)
        ranks.push_back(rank_in(rank, {group(rank, size, {kGather, kWaiting})}));
    return ranks;
}

std::vector<std::string> lines_of(const std::vector<flight::RecordedRank>& ranks) {
    return flight_lines(draw_flight_picture(ranks), 6);
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a rank that has not entered what the others wait in") {
    auto ranks = waiting_ranks(8);
    ranks[3] = rank_in(3, {group(3, 8, {kGather})});
    const FlightPicture picture = draw_flight_picture(ranks);
    const FlightGroup& world = picture.groups.at(0);
    CHECK(world.stuck == 412);
    CHECK(world.stuck_us == 31 * kSecond);
    CHECK(world.all_finished == 411);
    REQUIRE(members_behind(world).size() == 1);
    CHECK(members_behind(world)[0]->rank == 3);
    CHECK(flight_lines(picture, 6) ==
          Lines{"ranks 0-2,4-7 wait in all_reduce #412 (4 MiB, h.0 gradients) for 31 s",
                "rank 3 has not entered it: it was last in all_gather #411 (1 MiB, h.0 "
                "parameters), until 31 s ago"});
}

TEST_CASE("the order in which ranks are heard of does not matter") {
    auto ranks = waiting_ranks(8);
    ranks[3] = rank_in(3, {group(3, 8, {kGather})});
    const Lines expected = lines_of(ranks);
    std::reverse(ranks.begin(), ranks.end());
    CHECK(lines_of(ranks) == expected);
}

TEST_CASE("a rank that was killed is told from one that waits") {
    auto ranks = waiting_ranks(4);
    ranks[2].ended = true;
    CHECK(lines_of(ranks) ==
          Lines{"ranks 0-1,3 wait in all_reduce #412 (4 MiB, h.0 gradients) for 31 s, rank 2 ended "
                "within it"});
    ranks[2] = rank_in(2, {group(2, 4, {})}, true);
    CHECK(lines_of(ranks)[1] ==
          "rank 2, which ended, has not entered it: it had entered none before");
}

TEST_CASE("a failure in it is no waiting") {
    auto ranks = waiting_ranks(2);
    ranks[1] = rank_in(1, {group(1, 2, {kGather, call(Kind::all_reduce, 412, State::failed, 31)})});
    CHECK(lines_of(ranks) == Lines{"rank 0 waits in all_reduce #412 (4 MiB, h.0 gradients) for 31 "
                                   "s, rank 1 failed in it after 500 ms"});
}

TEST_CASE("who has not come is to blame where another gave up waiting") {
    const auto gave_up = call(Kind::all_reduce, 412, State::failed, 31);
    auto ranks = waiting_ranks(4);
    ranks[3] = rank_in(3, {group(3, 4, {kGather})});
    const auto culprit = [&](int failed_rank) {
        return flight_culprit(draw_flight_picture(ranks), failed_rank).text;
    };
    CHECK(culprit(0).empty());  // it waited, and failed by something else
    ranks[0] = rank_in(0, {group(0, 4, {kGather, gave_up})});
    CHECK(culprit(0) == "rank 3 has not entered all_reduce #412 (4 MiB, h.0 gradients)");
    CHECK(culprit(3).empty());
    ranks[2] = rank_in(2, {group(2, 4, {kGather})}, true);
    CHECK(culprit(0) == "ranks 2-3 have not entered all_reduce #412 (4 MiB, h.0 gradients)");
    for (int rank : {2, 3})
        ranks[static_cast<std::size_t>(rank)] = rank_in(rank, {group(rank, 4, {kGather, gave_up})});
    CHECK(culprit(0).empty());  // all came: nobody is to blame
    ranks = {rank_in(0, {group(0, 2, {kGather, gave_up})}), rank_in(1, {group(1, 2, {kGather})})};
    CHECK(culprit(0) == "rank 1 has not entered all_reduce #412 (4 MiB, h.0 gradients)");
}

TEST_CASE("a failure that the group survived is of the past") {
    auto ranks = waiting_ranks(2);
    for (int rank : {0, 1})
        ranks[static_cast<std::size_t>(rank)] = rank_in(
            rank, {group(rank, 2, {call(Kind::all_reduce, 1, State::failed, 40), kGather})});
    CHECK(
        lines_of(ranks) ==
        Lines{"no rank is in a collective; the last was all_gather #411 (1 MiB, h.0 parameters) of "
              "world, until 31 s ago"});
}

TEST_CASE("ranks that call different collectives are a desync, named by who does what") {
    auto ranks = waiting_ranks(8);
    ranks[3] = rank_in(3, {group(3, 8,
                                 {kGather, call(Kind::all_gather, 412, State::started, 30, 1 << 20,
                                                "h.1 parameters")})});
    const FlightPicture picture = draw_flight_picture(ranks);
    CHECK(picture.groups[0].differs_at == 412);
    CHECK(flight_lines(picture, 6) == Lines{"ranks 0-2,4-7 call all_reduce #412 (4 MiB, f32, sum, "
                                            "h.0 gradients), but rank 3 calls all_gather #412 "
                                            "(1 MiB, f32, h.1 parameters)"});
}

TEST_CASE("a desync is in bytes, type, operation or root too, where the kind has them") {
    const auto differs = [](flight::RecordedCall other, Kind kind) {
        const flight::RecordedCall here = call(kind, 1, State::started, 1);
        other.kind = here.kind;
        const std::vector<flight::RecordedRank> ranks = {rank_in(0, {group(0, 2, {here})}),
                                                         rank_in(1, {group(1, 2, {other})})};
        return draw_flight_picture(ranks).groups[0].differs_at == 1;
    };
    flight::RecordedCall other = call(Kind::all_reduce, 1, State::started, 1);
    CHECK_FALSE(differs(other, Kind::all_reduce));
    other.op = 2;
    CHECK(differs(other, Kind::all_reduce));
    CHECK_FALSE(differs(other, Kind::all_gather));
    other.op = 0;
    other.type = 2;
    CHECK(differs(other, Kind::all_gather));
    other.type = 0;
    other.root = 1;
    CHECK(differs(other, Kind::broadcast));
    CHECK_FALSE(differs(other, Kind::all_reduce));
    other.root = -1;
    other.bytes = 1;
    CHECK(differs(other, Kind::barrier));
    CHECK_FALSE(differs(other, Kind::all_to_all));
    other.label = "another";
    other.bytes = 4 << 20;
    CHECK_FALSE(differs(other, Kind::all_reduce));
}

TEST_CASE("an early difference is found, though all go on") {
    auto ranks = waiting_ranks(4);
    ranks[1].groups[0].calls[0].bytes = 12;
    CHECK(draw_flight_picture(ranks).groups[0].differs_at == 411);
    const Lines lines = lines_of(ranks);
    CHECK(lines[0].find("but rank 1 calls all_gather #411 (12 B") != std::string::npos);
    CHECK(lines[1] == "ranks 0-3 wait in all_reduce #412 (4 MiB, h.0 gradients) for 31 s");
}

TEST_CASE("a rank that is behind because it waits elsewhere says so") {
    std::vector<flight::RecordedRank> ranks = waiting_ranks(4);
    const flight::RecordedCall inner = call(Kind::broadcast, 9, State::started, 33, 8, "");
    ranks[3] = rank_in(3, {group(3, 4, {kGather}), group(1, 2, {inner}, "world/1.1", 9)});
    ranks[2] = rank_in(2, {group(2, 4, {kGather, kWaiting}), group(0, 2, {}, "world/1.1", 9)});
    const Lines lines = lines_of(ranks);
    CHECK(lines ==
          Lines{"a deadlock of two communicators: rank 3 waits in world/1.1 for rank 2, which "
                "waits in world for it",
                "world/1.1: rank 3 waits in broadcast #9 (8 B) for 33 s",
                "world/1.1: rank 2 has not entered it: it is in all_reduce #412 (4 MiB, h.0 "
                "gradients) of world "
                "for 31 s",
                "ranks 0-2 wait in all_reduce #412 (4 MiB, h.0 gradients) for 31 s",
                "rank 3 has not entered it: it is in broadcast #9 (8 B) of world/1.1 for 33 s"});
}

TEST_CASE("who has left already, and who has only queued it") {
    auto ranks = waiting_ranks(3);
    ranks[0] =
        rank_in(0, {group(0, 3, {kGather, call(Kind::all_reduce, 412, State::finished, 31)})});
    ranks[1].groups[0].calls[1] = call(Kind::all_reduce, 412, State::enqueued, 20);
    CHECK(
        lines_of(ranks) ==
        Lines{
            "rank 2 waits in all_reduce #412 (4 MiB, h.0 gradients) for 31 s, rank 1 has queued it",
            "rank 0 is past it"});
    const auto past = [](State state) {
        const flight::RecordedCall over = call(Kind::all_reduce, 412, State::finished, 31);
        return std::vector<flight::RecordedCall>{kGather, over,
                                                 call(Kind::all_gather, 413, state, 30, 64, "")};
    };
    ranks = waiting_ranks(4);
    for (int rank : {0, 2})
        ranks[static_cast<std::size_t>(rank)] =
            rank_in(rank, {group(rank, 4, past(State::started))});
    CHECK(lines_of(ranks)[1] == "ranks 0,2 are past it, in all_gather #413 (64 B) for 30 s");
    ranks[0] = rank_in(0, {group(0, 4, past(State::finished))});
    CHECK(lines_of(ranks)[1] == "ranks 0,2 are past it, one in all_gather #413 (64 B) for 30 s");
}

TEST_CASE("a device's later end tells of the earlier ones") {
    auto ranks = waiting_ranks(2);
    for (auto& rank : ranks) {
        rank.groups[0].calls[0].state = static_cast<std::uint8_t>(State::started);
        rank.groups[0].calls[0].on_device = true;
        rank.groups[0].calls[1].state = static_cast<std::uint8_t>(State::finished);
        rank.groups[0].calls[1].finished_us = kSecond;
    }
    CHECK_FALSE(draw_flight_picture(ranks).groups[0].stuck);
}

TEST_CASE("sends and receives are between two ranks, and no collectives") {
    auto ranks = waiting_ranks(2);
    for (auto& rank : ranks)
        rank.groups[0].calls.pop_back();
    for (auto& rank : ranks)
        rank.groups[0].collectives = 411;
    flight::RecordedCall recv = call(Kind::recv, 412, State::started, 5, 64, "");
    recv.root = 0;
    ranks[1].groups[0].calls.push_back(recv);
    CHECK(lines_of(ranks) == Lines{"rank 1 waits in recv #412 (64 B) from rank 0 for 5 s"});
}

TEST_CASE("ranks of which nothing is known") {
    auto ranks = waiting_ranks(4);
    ranks[2] = {.rank = 2,
                .ended = false,
                .no_groups = "it has no communicator of autolaunch",
                .groups = {}};
    const FlightPicture picture = draw_flight_picture(ranks);
    CHECK(picture.groups[0].unknown_places == std::vector<int>{2});
    CHECK(picture.groups[0].all_finished == 0);
    CHECK(flight_lines(picture, 6) ==
          Lines{"ranks 0-1,3 wait in all_reduce #412 (4 MiB, h.0 gradients) for 31 s",
                "rank 2 has no recorder",
                "nothing is known of rank 2: it has no communicator of autolaunch"});
    CHECK(lines_of({ranks[2]}) ==
          Lines{"nothing is known of rank 2: it has no communicator of autolaunch"});
    CHECK(lines_of({}).empty());
}

TEST_CASE("a ring that came round, with torn entries, says what it still knows") {
    const auto recorder = FlightRecorder::create(1, 0);
    FlightRing ring(recorder, "world", 1, 2, "shm");
    for (int i = 0; i < 1000; ++i) {
        auto entry = ring.enqueue({.kind = Kind::all_reduce, .bytes = 8}, true);
        ring.end(entry, false);
    }
    auto open = ring.enqueue({.kind = Kind::all_gather, .bytes = 16}, true);
    auto torn = ring.enqueue({.kind = Kind::all_gather, .bytes = 16}, true);
    flight::write_word(torn.words[flight::kEntryVersion], torn.version + 1);
    const auto contents = flight::read_contents(flight::memory_source(recorder->memory()));
    const flight::RecordedRank read = summarize(1, true, contents.value());
    const flight::RecordedGroup& world = read.groups.at(0);
    CHECK(world.calls.size() == 32);
    CHECK(world.torn == 1);
    const std::vector<flight::RecordedRank> ranks = {read};
    const FlightPicture picture = draw_flight_picture(ranks);
    const FlightMember& member = picture.groups.at(0).members.at(0);
    CHECK(member.entered == 1002);
    CHECK(member.finished == 1000);
    REQUIRE(member.current != nullptr);
    CHECK(member.current->sequence == 1001);
    CHECK(open.words != nullptr);
}

TEST_CASE("of a long queue both ends are told") {
    const auto recorder = FlightRecorder::create(1, 0);
    FlightRing ring(recorder, "world", 1, 2, "shm");
    for (int i = 0; i < 200; ++i)
        ring.enqueue({.kind = Kind::all_reduce, .bytes = 8}, false);
    const auto contents = flight::read_contents(flight::memory_source(recorder->memory()));
    const flight::RecordedRank read = summarize(1, false, contents.value());
    const auto& calls = read.groups.at(0).calls;
    CHECK(calls.size() == 40);
    CHECK(calls.front().sequence == 1);
    CHECK(calls.back().sequence == 200);
}

TEST_CASE("who waits least, three times in a row, is the one that the others wait for") {
    // Ten steps of 100 ms, of which a rank waits for `waits` ms.
    const auto stepping = [](int rank, int waits) {
        std::vector<flight::RecordedCall> calls;
        for (int step = 10; step > 0; --step) {
            auto one = call(Kind::all_reduce, std::uint64_t(20 - step), State::finished, 0);
            one.enqueued_us = step * 100'000;
            one.finished_us = one.enqueued_us - waits * 1000;
            calls.push_back(one);
        }
        return rank_in(rank, {group(rank, 4, calls)});
    };
    CHECK(share_in_calls(stepping(0, 40)).value() == doctest::Approx(0.4));
    CHECK_FALSE(share_in_calls(rank_in(0, {})));
    const std::vector<flight::RecordedRank> ranks{stepping(0, 40), stepping(1, 45), stepping(2, 2),
                                                  stepping(3, 42)};
    StragglerBook book;
    CHECK(book.see(ranks).empty());
    CHECK(book.see({stepping(0, 40), stepping(1, 45), stepping(2, 41), stepping(3, 42)}).empty());
    for (int look = 1; look < StragglerBook::kLooks; ++look)
        CHECK(book.see(ranks).empty());
    const auto found = book.see(ranks);
    REQUIRE(found.size() == 1);
    CHECK(found[0].rank == 2);
    CHECK(found[0].busy == doctest::Approx(0.98));
    CHECK(found[0].others == doctest::Approx(0.58));
    int told = 0;  // then it is known
    for (int look = StragglerBook::kLooks; look < StragglerBook::kSilence; ++look)
        told += static_cast<int>(book.see(ranks).size());
    CHECK(told == 0);
    // What lasts is another thing than what is told of: rank 2 has been slow for 30 looks.
    REQUIRE(book.lasting());
    CHECK(book.lasting()->rank == 2);
    // Calls that overlap count once, and unfinished ones until now.
    auto two = stepping(0, 40);
    two.groups.push_back(two.groups[0]);
    CHECK(share_in_calls(two).value() == doctest::Approx(0.4));
}

TEST_CASE("a rank is replaced for what lasts, not for what comes and goes") {
    const auto waiting = [](int rank, std::int64_t waits) {
        std::vector<flight::RecordedCall> calls;
        for (std::int64_t step = 20; step > 0; --step) {
            auto one =
                call(Kind::all_reduce, static_cast<std::uint64_t>(21 - step), State::finished, 0);
            one.enqueued_us = step * 100'000;
            one.finished_us = one.enqueued_us - waits * 1000;
            calls.push_back(one);
        }
        return rank_in(rank, {group(rank, 3, calls)});
    };
    // Of 100 ms, the others wait for 40.
    const auto look = [&](StragglerBook& book, std::int64_t waits) {
        book.see({waiting(0, 40), waiting(1, 40), waiting(2, waits)});
        return book.lasting().has_value();
    };
    StragglerBook book;
    for (int slow = 1; slow < StragglerBook::kLooksThatLast; ++slow)
        CHECK_FALSE(look(book, 2));
    CHECK(look(book, 2));
    CHECK_FALSE(look(book, 28));  // neither far nor near: not now, and not forgotten
    CHECK(look(book, 2));
    CHECK_FALSE(look(book, 38));  // near: all begins anew
    for (int slow = 1; slow < StragglerBook::kLooksThatLast; ++slow)
        CHECK_FALSE(look(book, 2));
    CHECK(look(book, 2));
    StragglerBook flapping;  // every other look
    for (int at = 0; at < 100; ++at)
        CHECK_FALSE(look(flapping, at % 2 == 0 ? 2 : 38));
}

TEST_CASE("two communicators of which each waits for the other") {
    const auto in_a = call(Kind::all_reduce, 5, State::started, 12),
               in_b = call(Kind::all_gather, 9, State::started, 12);
    const auto done_a = call(Kind::all_reduce, 4, State::finished, 20),
               done_b = call(Kind::all_gather, 8, State::finished, 20);
    std::vector<flight::RecordedRank> ranks;
    for (int rank = 0; rank < 2; ++rank)
        ranks.push_back(rank_in(
            rank, {group(rank, 3, {done_a, in_a}, "a", 1), group(rank, 3, {done_b}, "b", 2)}));
    ranks.push_back(
        rank_in(2, {group(2, 3, {done_a}, "a", 1), group(2, 3, {done_b, in_b}, "b", 2)}));
    const auto line = lines_of(ranks).front();
    CHECK_MESSAGE((line == "a deadlock of two communicators: ranks 0-1 wait in a for rank 2, which "
                           "waits in b for them" ||
                   line == "a deadlock of two communicators: rank 2 waits in b for ranks 0-1, "
                           "which wait in a for it"),
                  line);
    ranks[2] = rank_in(2, {group(2, 3, {done_a}, "a", 1), group(2, 3, {done_b}, "b", 2)});
    CHECK(lines_of(ranks).front().find("deadlock") == std::string::npos);
}

TEST_CASE("a thousand ranks: few lines, short ones") {
    auto ranks = waiting_ranks(1000);
    for (int rank = 0; rank < 1000; rank += 2)
        ranks[static_cast<std::size_t>(rank)] = rank_in(rank, {group(rank, 1000, {kGather})});
    const FlightPicture picture = draw_flight_picture(ranks);
    const Lines lines = flight_lines(picture, 6);
    REQUIRE(lines.size() == 2);
    for (const auto& line : lines)
        CHECK(line.size() < 200);
    CHECK(lines[0].starts_with("ranks 1,3,5,"));
    CHECK(lines[0].find(",… (500 ranks) wait in") != std::string::npos);
    CHECK(lines[1].find("have not entered it: e.g. rank 0 was last in all_gather #411") !=
          std::string::npos);
    const auto json = nlohmann::json::parse(flight_json(picture, lines, 2, "SIGUSR2", {}));
    // Those alike are written once.
    CHECK(json.at("groups").at(0).at("members").empty());
    const auto& folded = json.at("groups").at(0).at("folded");
    REQUIRE(folded.size() == 2);
    CHECK(folded[0].at("count") == 500);
    CHECK(folded[1].at("count") == 500);
    CHECK(json.at("groups").at(0).at("behind").size() == 500);
}

TEST_CASE(
    "tens of thousands of ranks: the file has the newest calls of each, and what they are in") {
    std::vector<flight::RecordedCall> calls = {kWaiting};
    for (std::uint64_t sequence = 413; sequence < 440; ++sequence)
        calls.push_back(call(Kind::all_gather, sequence, State::enqueued, 30));
    std::vector<flight::RecordedRank> ranks;
    for (int rank = 0; rank < 20'000; ++rank)
        ranks.push_back(rank_in(rank, {group(rank, 20'000, calls)}));
    const FlightPicture picture = draw_flight_picture(ranks);
    const Lines lines = flight_lines(picture, 6);
    CHECK(lines == Lines{"ranks 0-19999 wait in all_reduce #412 (4 MiB, h.0 gradients) for 31 s"});
    const auto json = nlohmann::json::parse(flight_json(picture, lines, 0, "SIGUSR2", {}));
    const auto& folded = json.at("groups").at(0).at("folded");
    REQUIRE(folded.size() == 1);
    CHECK(folded[0].at("ranks") == "0-19999");
    CHECK(folded[0].at("in") == 412);
    CHECK(folded[0].at("in_for_seconds") == nlohmann::json{31.0, 31.0});
    const auto& kept = folded[0].at("calls");
    CHECK(kept.size() == 17);
    CHECK(kept.at(0).at("sequence") == 412);
    CHECK(kept.at(16).at("sequence") == 439);
}

TEST_CASE("ranks of which each did something else: the file does not grow without bounds") {
    std::vector<flight::RecordedRank> ranks;
    for (int rank = 0; rank < 4096; ++rank) {
        std::vector<flight::RecordedCall> calls;
        for (std::uint64_t sequence = 1; sequence <= 32; ++sequence)
            calls.push_back(call(Kind::all_gather, sequence, State::finished, 30,
                                 static_cast<std::uint64_t>(rank) + 1));
        ranks.push_back(rank_in(rank, {group(rank, 4096, calls)}));
    }
    const FlightPicture picture = draw_flight_picture(ranks);
    const std::string text = flight_json(picture, {}, 0, "SIGUSR2", {});
    MESSAGE("4096 ranks, none alike: " << text.size() << " bytes");
    CHECK(text.size() < 10 << 20);
    const auto json = nlohmann::json::parse(text);
    const auto& members = json.at("groups").at(0).at("members");
    REQUIRE(members.size() == 4096);
    CHECK(members[0].at("calls").size() == 16);
    CHECK(members[4095].at("calls_left_out") == true);
}

namespace {

// As 4,096 ranks of a job that stands still have written it: every rank is in the world, in one
// group of eight and in one of 512, and rank 1234 has not come to the newest all_reduce.
flight::RecordedRank recorded_by(int rank, int size) {
    constexpr int kSteps = 100;
    const auto recorder = FlightRecorder::create(rank, 0);
    const int eight = rank / 8, row = rank % 8;
    FlightRing world(recorder, "world", rank, size, "nccl"),
        node(recorder, "world/0." + std::to_string(eight), row, 8, "nccl"),
        rows(recorder, "world/1." + std::to_string(row), eight, size / 8, "nccl");
    for (int step = 0; step <= kSteps; ++step) {
        for (FlightRing* ring : {&node, &rows}) {
            ring->set_label("h." + std::to_string(step % 12) + " parameters");
            auto entry = ring->enqueue({.kind = Kind::all_gather, .bytes = 1 << 20}, true);
            ring->end(entry, false);
        }
        if (step == kSteps && rank == 1234)
            break;
        world.set_label("gradients");
        auto entry = world.enqueue({.kind = Kind::all_reduce, .bytes = 4 << 20}, true);
        if (step < kSteps)
            world.end(entry, false);
    }
    RankRecorders recorders;
    const int copy = ::fcntl(recorder->file().get(), F_DUPFD_CLOEXEC, 0);
    recorders.take(rank, std::make_shared<UniqueFd>(copy));
    return recorders.read(rank, false);
}

// Of this process's CPU: others may share the machine.
double seconds_since(std::clock_t begun) {
    return static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
}

}  // namespace

// Recorders, the agents' reading, the messages to the head, its picture and its file: all the real
// code, but for the network.
TEST_CASE("the recorders of 4096 ranks: who is missing, in a small file and in seconds") {
    const int ranks = trials(4096);
    std::vector<flight::RecordedRank> heard;
    double reading = 0, head = 0;
    std::size_t bytes = 0;
    for (int first = 0; first < ranks; first += static_cast<int>(control::kFlightRanks)) {
        control::FlightRead part{.generation = 0, .request = 1, .more = true, .ranks = {}};
        const int end = std::min(ranks, first + static_cast<int>(control::kFlightRanks));
        auto begun = std::clock();
        for (int rank = first; rank < end; ++rank)
            part.ranks.push_back(recorded_by(rank, ranks));
        reading += seconds_since(begun);
        const std::string frame = control::encode(control::Report{std::move(part)});
        begun = std::clock();
        bytes += frame.size();
        control::MessageReader reader(64 << 20);
        reader.feed(frame);
        auto report = std::get<control::Report>(reader.next().value());
        auto& read = std::get<control::FlightRead>(report);
        std::move(read.ranks.begin(), read.ranks.end(), std::back_inserter(heard));
        head += seconds_since(begun);
    }
    REQUIRE(heard.size() == static_cast<std::size_t>(ranks));
    const auto begun = std::clock();
    drop_impossible_calls(heard);
    const FlightPicture picture = draw_flight_picture(heard);
    const Lines lines = flight_lines(picture, 6);
    const std::string text = flight_json(picture, lines, 0, "no step", {});
    head += seconds_since(begun);
    MESSAGE(ranks << " ranks: written and read in " << reading << " s of CPU, " << bytes
                  << " bytes to the head, there " << head << " s, a file of " << text.size()
                  << " bytes");
    const int missing = ranks > 1234 ? 1234 : -1;
    if (missing >= 0) {
        REQUIRE(lines.size() >= 2);
        CHECK(lines[0].find("wait in all_reduce #101 (4 MiB, gradients)") != std::string::npos);
        CHECK(lines[1].starts_with("rank 1234 has not entered it: it was last in "));
    }
    CHECK(text.size() < 10 << 20);
    CHECK(head < 10);
    const auto json = nlohmann::json::parse(text);
    const auto& world = json.at("groups").at(0);
    REQUIRE(world.at("name") == "world");
    REQUIRE(world.at("folded").size() == 1);  // all but the one
    CHECK(world.at("folded")[0].at("count") == ranks - (missing >= 0 ? 1 : 0));
    CHECK(world.at("members").size() == (missing >= 0 ? 1 : 0));
}

TEST_CASE("the file says what the lines say, and all else") {
    auto ranks = waiting_ranks(2);
    ranks[1].groups[0].calls[1].label = "\xff";
    const FlightPicture picture = draw_flight_picture(ranks);
    const auto json =
        nlohmann::json::parse(flight_json(picture, {"a line"}, 2, "rank 1 failed", {}));
    CHECK(json.at("format") == "autolaunch flight 2");
    CHECK(json.at("generation") == 2);
    CHECK(json.at("reason") == "rank 1 failed");
    CHECK(json.at("lines").at(0) == "a line");
    const auto& world = json.at("groups").at(0);
    CHECK(world.at("stuck_in") == 412);
    CHECK(world.at("stuck_seconds") == 31.0);
    const auto& waiting = world.at("members").at(0).at("calls").at(1);
    CHECK(waiting.at("kind") == "all_reduce");
    CHECK(waiting.at("op") == "sum");
    CHECK(waiting.at("state") == "started");
    CHECK(waiting.at("started_seconds_ago") == 31.0);
    CHECK_FALSE(waiting.contains("ended_seconds_ago"));
}

TEST_CASE("what no recorder says is dropped before it is looked at") {
    auto ranks = waiting_ranks(2);
    flight::RecordedCall& bad = ranks[0].groups[0].calls[0];
    for (std::uint8_t* field : {&bad.kind, &bad.op, &bad.type, &bad.state}) {
        const std::uint8_t good = *field;
        *field = 200;
        auto copy = ranks;
        drop_impossible_calls(copy);
        CHECK(copy[0].groups[0].calls.size() == 1);
        *field = good;
    }
    ranks[1].groups[0].size = INT32_MAX;
    ranks[1].groups[0].place = -5;
    drop_impossible_calls(ranks);
    CHECK_FALSE(lines_of(ranks).empty());
    std::swap(ranks[0], ranks[1]);
    CHECK_FALSE(lines_of(ranks).empty());
}

TEST_CASE("what a rank did last: the newest call that it was in, else the newest that was over") {
    using std::chrono::seconds;
    flight::RecordedRank rank;
    CHECK(last_call(rank, seconds(0)).empty());
    rank.groups = {group(0, 2,
                         {call(Kind::all_reduce, 1, State::finished, 9),
                          call(Kind::all_gather, 2, State::finished, 5)}),
                   group(0, 2, {call(Kind::barrier, 1, State::finished, 7)}, "tp", 8)};
    CHECK(last_call(rank, seconds(1)) ==
          "behind all_gather #2 (4 MiB, h.0 gradients), which was over 3 s before");
    rank.groups[1].calls.push_back(call(Kind::barrier, 2, State::started, 8, 0, ""));
    CHECK(last_call(rank, seconds(1)) == "inside tp: barrier #2 since 7 s");
    CHECK(last_call(rank, seconds(20)).ends_with("since 0 us"));  // clocks differ
}

}  // namespace flight_picture_test
