#include "comm/hierarchical/node_plan.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace node_plan_test {

using namespace autolaunch;

namespace {

/// Ranks that fill one node after the other.
std::vector<RankPlace> filled(const std::vector<int>& ranks_per_node) {
    std::vector<RankPlace> places;
    for (std::size_t node = 0; node < ranks_per_node.size(); ++node)
        for (int local = 0; local < ranks_per_node[node]; ++local)
            places.push_back({static_cast<std::int32_t>(node), local, ranks_per_node[node]});
    return places;
}

bool mentions(const NodePlan& plan, const char* text) {
    return plan.obstacle.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("nodes that are filled in order and equally can share memory") {
    const NodePlan plan = plan_nodes(filled({3, 3}), false);
    CHECK(plan.possible());
    CHECK(plan.nodes == 2);
    CHECK(plan.ranks_per_node == 3);
    CHECK(plan_nodes(filled({1, 1, 1}), true).nodes == 3);
    CHECK(plan_nodes(filled({4}), true).nodes == 1);
}

TEST_CASE("a fixed order over all ranks needs a power of two on each node") {
    CHECK(plan_nodes(filled({4, 4, 4}), true).possible());
    CHECK(mentions(plan_nodes(filled({3, 3}), true), "power of two"));
}

TEST_CASE("uneven nodes are named") {
    CHECK(mentions(plan_nodes(filled({2, 2, 1}), false), "ranks 0 and 4 have 2 and 1 ranks"));
    CHECK(mentions(plan_nodes(filled({1, 2}), false), "ranks 0 and 1 have 1 and 2 ranks"));
}

TEST_CASE("ranks that take turns on the nodes are named") {
    const std::vector<RankPlace> round_robin = {{0, 0, 2}, {1, 0, 2}, {0, 1, 2}, {1, 1, 2}};
    CHECK(mentions(plan_nodes(round_robin, false), "rank 1 is local rank 0 of node 1"));
    // What a launcher leads us to assume of a round robin: local ranks and counts are right, nodes
    // are guessed.
    const std::vector<RankPlace> guessed = {{0, 0, 2}, {0, 0, 2}, {0, 1, 2}, {1, 1, 2}};
    CHECK_FALSE(plan_nodes(guessed, false).possible());
    const std::vector<RankPlace> one_number = {{0, 0, 2}, {0, 1, 2}, {0, 0, 2}, {0, 1, 2}};
    CHECK_FALSE(plan_nodes(one_number, false).possible());
    auto cut = filled({2, 2});
    cut.pop_back();
    CHECK_FALSE(plan_nodes(cut, false).possible());
}

}  // namespace node_plan_test
