// Which nodes the next generation is of, and which wait.
#include "restart_policy/membership.hpp"
#include "restart_policy/node_limits.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace membership_test {

using namespace autolaunch::launcher;

namespace {

std::vector<Membership::Node> nodes(int count, int ranks = 2) {
    std::vector<Membership::Node> all;
    for (int node = 0; node < count; ++node)
        all.push_back({"node" + std::to_string(node), ranks});
    return all;
}

using Order = std::vector<int>;
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("the limits of a job are its spec's") {
    JobSpec spec;
    CHECK_FALSE(member_limits(spec, 4).fewest);
    CHECK(member_limits(spec, 4).most == 4);
    spec.resources.nodes = 2;
    spec.resources.most_nodes = 6;
    spec.resources.spare_nodes = 1;
    CHECK(member_limits(spec, 3).fewest == 2);
    CHECK(member_limits(spec, 3).most == 6);
    CHECK(member_limits(spec, 3).most_spares == 1);
}

TEST_CASE("nothing changes where no node does") {
    Membership job({.fewest = 2, .most = 4, .most_spares = 1}, nodes(4), 3);
    const World world = job.choose();
    CHECK_FALSE(world.changed);
    CHECK(world.order == Order{0, 1, 2});
    CHECK(world.ranks_per_node == std::vector{2, 2, 2, 0});
    CHECK(world.spares == Names{"node3"});
    CHECK(world.world_size() == 6);
    CHECK(job.spares_left() == 1);
    CHECK_FALSE(job.choose().changed);
}

TEST_CASE("a spare takes the lost node's seat, and the others keep theirs") {
    Membership job({.fewest = 3, .most = 3, .most_spares = 2}, nodes(5), 3);
    CHECK(job.can_do_without(1));
    CHECK(job.lose(1));
    CHECK_FALSE(job.lose(1));
    CHECK(job.is_missed(1));
    const World world = job.choose();
    CHECK(world.changed);
    CHECK(world.order == Order{0, 3, 2});
    CHECK(world.ranks_per_node == std::vector{2, 0, 2, 2, 0});
    CHECK(world.without == Names{"node1"});
    CHECK(world.joining == Names{"node3"});
    CHECK(job.lost_nodes() == 1);
}

TEST_CASE("the loss of a spare matters where it was needed next") {
    Membership job({.fewest = 2, .most = 2, .most_spares = 2}, nodes(4), 2);
    job.lose(3);
    CHECK_FALSE(job.is_missed(3));
    CHECK(job.can_do_without(1));
    job.lose(1);
    job.lose(2);  // was to take over
    CHECK(job.is_missed(2));
    CHECK_FALSE(job.can_do_without(2));
}

TEST_CASE("the world shrinks to the fewest and not below") {
    Membership job({.fewest = 2, .most = 4}, nodes(4), 4);
    job.lose(1);
    job.lose(2);
    CHECK(job.choose().order == Order{0, 3});
    CHECK_FALSE(job.can_do_without(3));
    CHECK_FALSE(job.can_do_without("node3"));
}

TEST_CASE("a job that needs every node does without none") {
    Membership job(member_limits(JobSpec{}, 2), nodes(2), 2);
    CHECK_FALSE(job.can_do_without(1));
    CHECK(job.drain(1).find("needs every node") != std::string::npos);
    CHECK(job.admit({"node2"}).find("takes in no nodes") != std::string::npos);
    CHECK(job.leave_out({{"node1", "its disk"}}).empty());
    CHECK_FALSE(job.choose().changed);
}

TEST_CASE("an unfit node is left out where the job can do without, and that is said once") {
    Membership job({.fewest = 2, .most = 3}, nodes(3), 3);
    CHECK(job.leave_out({{"node2", "its disk"}, {"node9", "is of another job"}}) ==
          Names{"node2 is left out for the rest of the job: its disk"});
    CHECK(job.leave_out({{"node2", "its disk"}}).empty());
    CHECK(job.leave_out({{"node0", "its GPU"}, {"node1", "its link"}}) ==
          Names{"node0 is not left out, for it is the head's, although its GPU",
                "node1 is not left out, for the job needs it, although its link"});
    CHECK(job.leave_out({{"node0", "its GPU"}, {"node1", "its link"}}).empty());
    CHECK(job.choose().order == Order{0, 1});
    job.lose(2);  // which changes nothing about its disk
    CHECK(job.admit({"node2", 2}) == "node2 was left out for the rest of the job: its disk");
    CHECK(job.admit({"node9", 2}).find("is of another job") != std::string::npos);
}

TEST_CASE("a node that returns is a new one of the same name") {
    Membership job({.fewest = 2, .most = 3}, nodes(3), 3);
    CHECK(job.admit({"node1", 2}) == "node1 is in the job already");
    job.lose(1);
    CHECK(job.choose().order == Order{0, 2});
    CHECK(job.admit({"node1", 2}).empty());
    CHECK(job.find("node1") == 3);
    CHECK(job.present("node1"));
    CHECK_FALSE(job.can_grow());  // it has not arrived
    CHECK(job.choose().order == Order{0, 2});
    job.ready(3);
    CHECK_FALSE(job.takes_part(3));
    CHECK(job.can_grow());
    const World world = job.choose();
    CHECK(world.order == Order{0, 3, 2});
    CHECK(world.joining == Names{"node1"});
    CHECK(world.without.empty());
    CHECK_FALSE(job.can_grow());
    CHECK(job.can_do_without("node1"));
    CHECK_FALSE(job.lose(1));  // the old one is still lost
    CHECK(job.admit({"node7", 2}).find("all nodes that it may have: 3") != std::string::npos);
}

TEST_CASE("who comes fills up the job where all spares are there") {
    Membership job({.fewest = 2, .most = 4, .most_spares = 1}, nodes(3), 2);
    CHECK(job.choose().order == Order{0, 1});
    CHECK(job.admit({"node3", 2}).empty());
    job.ready(3);
    CHECK(job.can_grow());
    CHECK(job.choose().order == Order{0, 1, 2});
    CHECK(job.spares_left() == 1);
    CHECK(job.admit({"node4", 2}).empty());
    CHECK(job.admit({"node5", 2}).find("4 and 1 as spares") != std::string::npos);
    job.ready(4);
    CHECK(job.choose().order == Order{0, 1, 2, 3});
    CHECK(job.admit({"node5", 2}).find("4 and 1 as spares") != std::string::npos);
}

TEST_CASE("a drained node is left, and may come back") {
    Membership job({.fewest = 2, .most = 2, .most_spares = 1}, nodes(3), 2);
    CHECK(job.drain(0).find("head's node") != std::string::npos);
    CHECK(job.drain(1).empty());
    CHECK(job.standing(1) == Membership::Standing::drained);
    CHECK(job.drain(1).find("takes no part any more") != std::string::npos);
    CHECK(job.drain(2).find("needs 2 nodes at least, and has 2") != std::string::npos);
    CHECK(job.choose().order == Order{0, 2});
    CHECK(job.admit({"node1", 2}).empty());
}

TEST_CASE("the head can be another node") {
    Membership job({.fewest = 1, .most = 3}, nodes(3), 3);
    job.lose(0);
    job.set_head(2);
    CHECK(job.drain(2).find("head's node") != std::string::npos);
    CHECK_FALSE(job.can_do_without("node2"));
    CHECK(job.choose().order == Order{1, 2});
}

TEST_CASE("groups take part whole or not at all") {
    Membership job({.fewest = 2, .most = 6, .group = 2}, nodes(6), 6);
    job.lose(2);
    CHECK(job.choose().order == Order{0, 1, 4, 5});  // 3 waits alone
    CHECK(job.spares_left() == 1);
    job.lose(5);
    const World mended = job.choose();  // 3 completes a group
    CHECK(mended.order == Order{0, 1, 4, 3});
    job.lose(1);
    CHECK(job.choose().order == Order{0, 3});  // the head's is kept
    CHECK(job.spares_left() == 1);
    CHECK(job.can_do_without(3));
    CHECK(job.can_do_without(4));
    job.lose(3);
    CHECK_FALSE(job.can_do_without(4));
    Membership odd({.fewest = 2, .most = 5, .group = 2}, nodes(5), 5);
    CHECK(odd.choose().order == Order{0, 1, 2, 3});
}

TEST_CASE(
    "whatever happens, a generation is of fit nodes, within the limits, and by whole groups") {
    for (unsigned seed = 0; seed < 2000; ++seed) {
        std::mt19937 random(seed);
        const auto any = [&](int below) {
            return static_cast<int>(random() % static_cast<unsigned>(below));
        };
        const int group = 1 + any(3);
        const int most = group * (1 + any(4)), spares = any(3);
        const int fewest = group * (1 + any(most / group));
        const int joined = fewest + any(most + spares - fewest + 1);
        Membership job({fewest, most, spares, group}, nodes(joined, 1),
                       std::clamp(joined - spares, fewest, most));
        CAPTURE(seed);
        for (int event = 0; event < 30; ++event) {
            const int node = any(job.size());
            switch (any(5)) {
                case 0:
                    if (node != 0 && job.can_do_without(node))
                        job.lose(node);
                    break;
                case 1:
                    job.drain(node);
                    break;
                case 2:
                    job.leave_out(node, "a reason");
                    break;
                default:
                    if (job.admit({"node" + std::to_string(any(12)), 1}).empty())
                        job.ready(job.size() - 1 - any(2));
            }
            const bool grows = job.can_grow();
            const int before = job.choose().world_size();
            const World world = job.choose();
            REQUIRE_FALSE(world.changed);  // the same question, the same answer
            REQUIRE(world.world_size() == before);
            REQUIRE((!grows || before > 0));
            REQUIRE(world.world_size() % group == 0);
            REQUIRE(world.world_size() >= fewest);
            REQUIRE(world.world_size() <= most);
            REQUIRE(std::find(world.order.begin(), world.order.end(), 0) != world.order.end());
            for (const int member : world.order)
                REQUIRE(job.is_fit(member));
            auto sorted = world.order;
            std::sort(sorted.begin(), sorted.end());
            REQUIRE(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
        }
    }
}

TEST_CASE("another head takes over who is lost and who is left out, and may take the latter back") {
    Membership job({.fewest = 2, .most = 3, .most_spares = 1}, nodes(4), 4, 1);
    job.restore({0, 1, 3}, {0}, {{"node2", "its links are slow"}});
    CHECK(job.standing(0) == Membership::Standing::lost);
    CHECK(job.standing(2) == Membership::Standing::unfit);
    CHECK(job.choose().order == Order{1, 3});
    CHECK_FALSE(job.take_back("node0"));
    CHECK(job.take_back("node2"));
    CHECK(job.choose().order == Order{2, 1, 3});
}

}  // namespace membership_test
