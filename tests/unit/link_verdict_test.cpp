// Which node goes when links between neighbours have trouble, and which pair is named.
#include "restart_policy/link_verdict.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace link_verdict_test {

using namespace autolaunch::launcher;

namespace {

constexpr std::uint64_t kMegabytes = 4u << 20;

// A ring of so many nodes in which all is well.
std::vector<LinkSeen> ring(int nodes, std::uint64_t us = 2000) {
    std::vector<LinkSeen> links;
    for (int node = 0; node < nodes; ++node)
        links.push_back(
            {.from = node, .to = (node + 1) % nodes, .bytes = kMegabytes, .best_us = us});
    return links;
}
std::string name_of(int node) { return "node" + std::to_string(node); }
LinkVerdict judge(const std::vector<LinkSeen>& links, int nodes_with_ranks = 99) {
    return judge_links(
        links, 0, [&](int node) { return node < nodes_with_ranks; }, name_of);
}
void miss(std::vector<LinkSeen>& links, int from, int to) {
    links.push_back({.from = from, .to = to, .reached = false});
}

}  // namespace

TEST_CASE("links without trouble say nothing, however slow all of them are") {
    for (const int nodes : {2, 3, 8})
        for (const std::uint64_t us : {500u, 4'000'000u}) {
            const LinkVerdict verdict = judge(ring(nodes, us));
            CHECK(verdict.out.empty());
            CHECK(verdict.lines.empty());
        }
    CHECK(judge({}).out.empty());
}

TEST_CASE("a node that both neighbours do not reach is the faulty one") {
    for (int bad = 1; bad < 5; ++bad) {
        auto links = ring(5);
        miss(links, bad - 1, bad);
        miss(links, (bad + 1) % 5, bad);
        miss(links, bad, (bad + 1) % 5);
        const LinkVerdict verdict = judge(links);
        REQUIRE(verdict.out.size() == 1);
        CHECK(verdict.out.begin()->first == bad);
        CHECK(verdict.out.begin()->second.find("neither") == std::string::npos);
    }
}

TEST_CASE("of one link that is cut neither end is proved faulty") {
    auto links = ring(5);
    miss(links, 3, 2);
    miss(links, 2, 3);
    CHECK(judge(links).out ==
          std::map<int, std::string>{
              {3, "node2 does not reach node3; neither is proved faulty, and it came later"}});
    auto heads = ring(3);
    miss(heads, 2, 0);
    CHECK(judge(heads).out ==
          std::map<int, std::string>{{2,
                                      "node2 does not reach node0; neither is proved faulty, and "
                                      "the other is the head's"}});
    auto spare = ring(4);
    miss(spare, 2, 1);
    CHECK(judge(spare, 2).out.begin()->second.find("node2 does not reach node1") == 0);
    CHECK(judge(spare, 2).out.contains(2));  // it has no ranks
}

TEST_CASE("data that arrives as other data") {
    auto links = ring(4);
    links[2].wrong = 3;
    const LinkVerdict verdict = judge(links);
    REQUIRE(verdict.out.contains(3));
    CHECK(verdict.out.at(3).find("of data from node2 to node3 3 bytes arrived as others") == 0);
    links[1].wrong = 9;
    REQUIRE(judge(links).out.size() == 1);
    CHECK(judge(links).out.contains(2));  // what it sends and what it gets
}

TEST_CASE("a slow link is named, and a node both of whose links are slow is left out") {
    for (const int nodes : {3, 4, 9}) {
        auto links = ring(nodes);
        links[1].best_us = 400'000;
        const LinkVerdict one = judge(links);
        CHECK(one.out.empty());
        REQUIRE(one.lines.size() == 1);
        CHECK(one.lines[0].find("node1 sends to node2 with 10.0 MiB/s, others with 2000") == 0);
        links[0].best_us = 300'000;
        const LinkVerdict both = judge(links);
        REQUIRE(both.out.size() == 1);
        CHECK(both.out.contains(1));
    }
    auto links = ring(4);
    links[1].best_us = kSlowLink_us;  // a machine that has something else to do
    CHECK(judge(links).lines.empty());
    links[1].best_us = 0;
    links[1].problem = "not all was sent in 3 s";
    REQUIRE(judge(links).lines.size() == 1);
    CHECK(judge(links).lines[0].find("node1 cannot send data to node2: not all was sent") == 0);
}

TEST_CASE("the head stays, with whatever links") {
    auto links = ring(5);
    miss(links, 4, 0);
    miss(links, 1, 0);
    CHECK_FALSE(judge(links).out.contains(0));
    CHECK(judge(links).out.size() == 2);
}

}  // namespace link_verdict_test
