// Which of many failures was the others' reason.
#include "causes/root_cause.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

namespace root_cause_test {

using namespace autolaunch::launcher;
using namespace std::chrono_literals;

namespace {

Failure failure(int rank, Cause cause, std::string what, std::chrono::microseconds latest,
                std::string node = "node1", std::chrono::microseconds link = 1ms) {
    Failure made;
    made.record.rank = rank;
    made.record.cause = cause;
    made.record.what = std::move(what);
    made.record.node = std::move(node);
    made.latest = latest;
    made.earliest = latest - link;
    return made;
}

Failure follower(int rank, std::chrono::microseconds latest) {
    Failure made = failure(rank, Cause::network, "Connection closed by peer", latest);
    made.record.follows = true;
    return made;
}

}  // namespace

TEST_CASE("a follower is none, also when its report comes first") {
    const auto root = find_root_cause(
        {follower(0, 5ms), follower(1, 6ms), failure(7, Cause::program_error, "KeyError", 900ms)},
        {});
    CHECK(root.index == 2);
    CHECK(root.record.rank == 7);
    CHECK(root.record.followers == 2);
    CHECK(root.record.alike == 0);
    CHECK(root.absent.empty());
}

TEST_CASE("the words of a rank that was stopped count where all others only followed") {
    Failure stopped = failure(7, Cause::program_error, "KeyError", 900ms);
    stopped.asked_to_stop = true;
    CHECK(find_root_cause({follower(0, 5ms), stopped}, {}).record.rank == 7);
    CHECK(find_root_cause({failure(2, Cause::crash, "SIGSEGV", 950ms), stopped}, {}).record.rank ==
          2);
}

TEST_CASE("a thousand ranks that fail alike are one failure, of the first of them") {
    std::vector<Failure> failures;
    for (int node = 0; node < 125; ++node) {
        failures.push_back(failure(8 * node, Cause::program_error, "shard " + std::to_string(node),
                                   1s - std::chrono::milliseconds(node),
                                   "n" + std::to_string(node)));
        failures.back().record.alike = 7;
    }
    const auto root = find_root_cause(failures, {});
    CHECK(root.record.rank == 8 * 124);
    CHECK(root.record.alike == 999);
    CHECK(root.record.evidence.empty());
}

TEST_CASE("clocks that agree no better than a message takes leave a doubt, and it is said") {
    const auto root = [](std::chrono::microseconds link) {
        return find_root_cause({failure(0, Cause::crash, "SIGSEGV", 100ms, "node1", link),
                                failure(8, Cause::gpu, "Xid 79", 103ms, "node2", link)},
                               {})
            .record;
    };
    CHECK(root(1ms).evidence.empty());
    REQUIRE(root(5ms).evidence.size() == 1);
    CHECK(root(5ms).evidence[0].starts_with("rank 8 on node2 (gpu) failed at the same time"));
}

TEST_CASE("where all waited, who did not come is to blame") {
    const Failure timeout = failure(0, Cause::collective_timeout, "timed out", 5ms);
    Waiting waiting{.world_size = 4,
                    .culprit = "rank 3 has not entered all_reduce #2",
                    .missing = {3},
                    .finishers = {},
                    .survivors = {}};
    auto root = find_root_cause({timeout}, waiting);
    CHECK(root.record.rank == 3);
    CHECK(root.record.cause == Cause::collective_timeout);
    CHECK(root.record.certainty == Certainty::certain);
    CHECK(root.absent == waiting.culprit);
    waiting = {.world_size = 4,
               .culprit = {},
               .missing = {},
               .finishers = {{2, "node1", 2s}, {1, "node1", 1s}},
               .survivors = {}};
    root = find_root_cause({follower(0, 5ms)}, waiting);
    CHECK(root.record.rank == 1);
    CHECK(root.record.cause == Cause::program_error);
    CHECK(root.absent == "rank 1 (node1) exited with code 0 while other ranks went on");
    CHECK(root.record.node == "node1");
    const Failure own = failure(0, Cause::program_error, "TimeoutError: barrier: 3 of 4 came", 5ms);
    CHECK(find_root_cause({own}, waiting).record.rank == 1);
    const Failure server = failure(0, Cause::program_error, "TimeoutError: no answer", 5ms);
    CHECK(find_root_cause({server}, waiting).record.rank == 0);
    waiting = {.world_size = 2, .culprit = {}, .missing = {}, .finishers = {}, .survivors = {}};
    CHECK(find_root_cause({own}, waiting).record.rank == 0);
    CHECK(find_root_cause({timeout}, waiting).record.rank == 1);
    waiting.world_size = 4;
    root = find_root_cause({timeout}, waiting);
    CHECK(root.record.rank == 0);
    CHECK(root.record.evidence.back().starts_with("which rank did not come is not known"));
    CHECK(find_root_cause({follower(0, 5ms)}, waiting).record.evidence.back() ==
          "no other rank failed by itself");
    waiting.finishers = {{1, "node1", 1s}};  // of no interest where somebody failed by himself
    CHECK(find_root_cause({follower(0, 5ms), failure(3, Cause::crash, "SIGSEGV", 6ms)}, waiting)
              .record.rank == 3);
}

TEST_CASE("of ranks that all gave up but one, that one did not come") {
    Failure timeout = failure(2, Cause::collective_timeout, "Timed out waiting", 5ms);
    Failure closed = follower(0, 9ms);
    closed.record.alike = 4;
    Waiting waiting{.world_size = 7,
                    .culprit = {},
                    .missing = {},
                    .finishers = {},
                    .survivors = {{5, "node3", 9s}}};
    auto root = find_root_cause({timeout, closed}, waiting);
    CHECK(root.record.rank == 5);
    CHECK(root.record.node == "node3");
    CHECK(root.record.certainty == Certainty::likely);
    CHECK(root.absent == "rank 5 (node3) did not come to a collective, which 6 others gave up");
    waiting.world_size = 8;
    waiting.survivors.push_back({6, "node3", 9s});
    root = find_root_cause({timeout, closed}, waiting);
    CHECK(root.record.certainty == Certainty::possible);
    CHECK(root.absent ==
          "rank 5 (node3) or rank 6 (node3) did not come to a collective, which 6 others gave up");
    waiting.world_size = 9;  // of one nothing is known
    CHECK(find_root_cause({timeout, closed}, waiting).record.rank == 2);
    waiting.world_size = 2;  // one gave up at once, and the other might have a moment later
    waiting.survivors.resize(1);
    CHECK(find_root_cause({closed}, waiting).record.cause == Cause::network);
}

TEST_CASE("what a stopped rank had said of before, and not of the stop or of a peer") {
    const auto says = [](std::vector<std::string> lines) {
        RankEnd rank;
        rank.end.rank = 4;
        rank.end.signal = 15;
        rank.end.asked_to_stop = true;
        rank.words.last_lines = {"  File \"t.py\", line 3, in f"};
        rank.words.last_lines.insert(rank.words.last_lines.end(), lines.begin(), lines.end());
        return judge_stopped(rank);
    };
    REQUIRE(says({"ValueError: bad"}));
    CHECK(says({"ValueError: bad"})->what == "ValueError: bad");
    CHECK(says({"OSError: [Errno 28] No space left on device"})->cause == Cause::storage);
    CHECK_FALSE(says({"KeyboardInterrupt"}));
    CHECK_FALSE(says({"RuntimeError: got signal 15"}));
    CHECK_FALSE(says({"RuntimeError: Connection closed by peer"}));
    CHECK_FALSE(says({}));
}

TEST_CASE("failures of a node that are alike are one, and no more than wanted are told") {
    std::vector<Failure> failures;
    for (int rank = 0; rank < 6; ++rank)
        failures.push_back(failure(rank, Cause::crash, rank % 2 == 0 ? "SIGSEGV" : "SIGILL", 1ms));
    failures.push_back(failure(6, Cause::gpu, "Xid", 1ms));
    const auto folded =
        fold_alike(failures, 2, [](Failure& made) -> EndRecord& { return made.record; });
    REQUIRE(folded.size() == 2);
    CHECK(folded[0].record.rank == 0);
    CHECK(folded[0].record.alike == 2);
    CHECK(folded[1].record.alike == 2);
}

}  // namespace root_cause_test
