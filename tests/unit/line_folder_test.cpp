#include "logs/line_folder.hpp"
#include "logs/line_prefix.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace line_folder_test {

using namespace autolaunch::launcher;
using namespace std::chrono_literals;

namespace {

const LineFolder::Time kStart{};

struct Folding {
    LineFolder folder;
    std::vector<FoldedLine> folded;

    explicit Folding(int ranks) {
        for (int rank = 0; rank < ranks; ++rank)
            folder.add_rank(rank);
    }
    void add(int rank, const std::string& text, LineFolder::Time at = kStart) {
        folder.add(rank, text, at, folded);
    }
    std::vector<std::string> take(LineFolder::Time at = kStart) {
        folder.give(at, folded);
        std::vector<std::string> texts;
        for (const auto& line : folded)
            texts.push_back(fold_prefix(line.ranks, "n") + " " + line.text);
        folded.clear();
        return texts;
    }
};

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a line that all ranks print is given once, as soon as the last one has printed it") {
    Folding folding(4);
    for (const int rank : {2, 0, 3})
        folding.add(rank, "hello");
    CHECK(folding.take().empty());
    folding.add(1, "hello");
    CHECK(folding.take() == Texts{"[ranks 0-3 ×4] hello"});
}

TEST_CASE("a line that some print is given after the window, with their ranks") {
    Folding folding(8);
    for (const int rank : {5, 0, 1, 2, 3})
        folding.add(rank, "warning", kStart);
    CHECK(folding.take(kStart + LineFolder::kWindow - 1ms).empty());
    CHECK(folding.take(kStart + LineFolder::kWindow) == Texts{"[ranks 0-3,5 ×5] warning"});
}

TEST_CASE("one rank alone is named with its host") {
    Folding folding(2);
    folding.add(1, "only me");
    CHECK(folding.take(kStart + 1s) == Texts{"[n 1] only me"});
}

TEST_CASE("a group that nobody can join any more is not waited for") {
    Folding folding(2);
    folding.add(0, "a");
    folding.add(0, "b");
    folding.add(1, "b");  // rank 1 has gone past "a"
    CHECK(folding.take() == Texts{"[n 0] a", "[ranks 0-1 ×2] b"});
}

TEST_CASE("ranks that have ended are not waited for") {
    Folding folding(3);
    folding.add(0, "x");
    folding.add(1, "x");
    folding.folder.rank_ended(2);
    CHECK(folding.take() == Texts{"[ranks 0-1 ×2] x"});
}

TEST_CASE("lines that differ stay between those that are alike") {
    Folding folding(2);
    for (const int rank : {0, 1})
        for (const std::string& text :
             {std::string("Traceback"), "rank " + std::to_string(rank), std::string("Error")})
            folding.add(rank, text);
    CHECK(folding.take(kStart + 1s) == Texts{"[ranks 0-1 ×2] Traceback", "[n 0] rank 0",
                                             "[n 0] Error", "[n 1] rank 1", "[n 1] Error"});
}

TEST_CASE("a line that a rank repeats is counted, not swallowed") {
    Folding folding(2);
    for (int i = 0; i < 2; ++i)
        for (const int rank : {0, 1})
            folding.add(rank, "again");
    CHECK(folding.take() == Texts{"[ranks 0-1 ×2] again", "[ranks 0-1 ×2] again"});
}

TEST_CASE("no rank's lines are reordered, lost or doubled, whatever the interleaving") {
    std::mt19937 random(7);
    for (int round = 0; round < 50; ++round) {
        constexpr int kRanks = 5;
        Folding folding(kRanks);
        std::map<int, std::vector<std::string>> printed, given;
        auto now = kStart;
        for (int i = 0; i < 2000; ++i) {
            const int rank = static_cast<int>(random() % kRanks);
            const std::string text = std::string(1, static_cast<char>('a' + random() % 4));
            printed[rank].push_back(text);
            folding.add(rank, text, now);
            now += std::chrono::milliseconds(random() % 3);
            if (random() % 8 == 0)
                folding.folder.give(now, folding.folded);
        }
        folding.folder.finish(folding.folded);
        for (const auto& line : folding.folded)
            for (const int rank : line.ranks)
                given[rank].push_back(line.text);
        REQUIRE(given == printed);
        CHECK(folding.folded.size() < 2000 * 3 / 4);  // and it does fold
    }
}

TEST_CASE("a flood of one rank is bounded") {
    Folding folding(2);
    for (std::size_t i = 0; i < 10 * LineFolder::kMaxGroups; ++i)
        folding.add(0, std::to_string(i));
    CHECK(folding.folded.size() == 9 * LineFolder::kMaxGroups);
}

TEST_CASE("torchrun's template for what stands before a line") {
    const std::map<std::string, std::string> values = {
        {"role_name", "trainer"}, {"rank", "13"}, {"local_rank", "5"}, {"hostname", "n2"}};
    CHECK(expand_prefix("[${role_name}${local_rank}]:", values) == "[trainer5]:");
    CHECK(expand_prefix("$hostname:$rank: ", values) == "n2:13: ");
    CHECK(expand_prefix("$$rank ${unknown} $ ${rank $", values) == "$rank ${unknown} $ ${rank $");
    CHECK(expand_prefix("", values).empty());
}

}  // namespace line_folder_test
