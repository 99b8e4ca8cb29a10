#include "comm/mpi/pairs.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace mpi_pairs_test {

using namespace autolaunch::mpi;

namespace {

/// ((0+1)+(2+3))+4, as reduce_elements() takes them.
std::string pairwise_sum(int ranks) {
    std::vector<std::string> sums;
    for (int rank = 0; rank < ranks; ++rank)
        sums.push_back(std::to_string(rank));
    while (sums.size() > 1) {
        std::vector<std::string> next;
        for (std::size_t i = 0; i < sums.size(); i += 2)
            next.push_back(i + 1 < sums.size() ? fmt::format("({}+{})", sums[i], sums[i + 1])
                                               : sums[i]);
        sums = std::move(next);
    }
    return sums.front();
}

std::string added(const Pair& pair, const std::string& own, const std::string& other) {
    return pair.own_is_lower ? fmt::format("({}+{})", own, other)
                             : fmt::format("({}+{})", other, own);
}

std::vector<std::string> own_numbers(int ranks) {
    std::vector<std::string> sums;
    for (int rank = 0; rank < ranks; ++rank)
        sums.push_back(std::to_string(rank));
    return sums;
}

}  // namespace

TEST_CASE("recursive doubling gives every rank the pairwise sum") {
    for (int ranks = 1; ranks <= 70; ++ranks) {
        CAPTURE(ranks);
        std::vector<std::string> sums = own_numbers(ranks);
        for (int width = 1; width < ranks; width *= 2) {
            std::map<std::pair<int, int>, std::string> messages;  // from, to
            for (int rank = 0; rank < ranks; ++rank) {
                const auto pair = pair_of(rank, width, ranks);
                if (!pair)
                    continue;
                const Doubling step(*pair, rank);
                for (int peer = step.send_first; peer < step.send_end; peer += step.send_stride)
                    messages[{rank, peer}] = sums[static_cast<std::size_t>(rank)];
            }
            for (int rank = 0; rank < ranks; ++rank) {
                const auto pair = pair_of(rank, width, ranks);
                if (!pair)
                    continue;
                const auto message = messages.find({Doubling(*pair, rank).receive_from, rank});
                REQUIRE(message != messages.end());
                auto& sum = sums[static_cast<std::size_t>(rank)];
                sum = added(*pair, sum, message->second);
                messages.erase(message);
            }
            CHECK(messages.empty());  // nobody sends what nobody receives
        }
        for (const auto& sum : sums)
            CHECK(sum == pairwise_sum(ranks));
    }
}

TEST_CASE("the tree gives its root the pairwise sum") {
    for (int ranks = 1; ranks <= 33; ++ranks) {
        for (int root = 0; root < ranks; ++root) {
            CAPTURE(ranks);
            CAPTURE(root);
            std::vector<std::string> sums = own_numbers(ranks);
            for (int width = 1; width < ranks; width *= 2) {
                for (int first = 0; first < ranks; first += 2 * width) {
                    const int left = leader_of(first, width, root);
                    const auto pair = pair_of(left, width, ranks);
                    if (!pair)
                        continue;
                    CHECK(pair->own_is_lower);
                    const int right = leader_of(pair->other_first, pair->other_count, root);
                    const int both = leader_of(first, pair->own_count + pair->other_count, root);
                    REQUIRE((both == left || both == right));
                    const auto at = [&](int rank) -> std::string& {
                        return sums[static_cast<std::size_t>(rank)];
                    };
                    at(both) = added(*pair, at(left), at(right));
                }
            }
            CHECK(sums[static_cast<std::size_t>(root)] == pairwise_sum(ranks));
        }
    }
}

}  // namespace mpi_pairs_test
