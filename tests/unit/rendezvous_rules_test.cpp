// What the head decides about those who come, and what is said when they do not.
#include "control/fence_table.hpp"
#include "control/member_inbox.hpp"
#include "rendezvous/diagnosis.hpp"
#include "rendezvous/environment_comparison.hpp"
#include "rendezvous/node_order.hpp"
#include "rendezvous/program_digest.hpp"
#include "rendezvous/roll_call.hpp"
#include "rendezvous/slurm_lookup.hpp"
#include "rendezvous/welcome.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace rendezvous_rules_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace std::chrono_literals;

namespace {

using Order = std::vector<int>;

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

control::Join node(const std::string& name, const std::string& topology_address = {}) {
    control::Join join;
    join.version = "0.1.0";
    join.node_name = name;
    join.hostname = name;
    join.ranks = 8;
    join.topology_address = topology_address;
    join.program_digest = 1;
    join.spec_digest = 2;
    return join;
}

Expectation four_nodes() {
    Expectation expectation;
    expectation.node_names = {"node1", "node2", "node3", "node4"};
    expectation.node_count = 4;
    expectation.spec_name = "train.yaml";
    expectation.run_name = "run-1";
    expectation.head = node("node1");
    return expectation;
}

std::vector<std::string> names_of(const Roster& roster) {
    std::vector<std::string> names;
    for (const auto& entry : roster.nodes)
        names.push_back(entry.name);
    return names;
}

}  // namespace

TEST_CASE("nodes under the same switches become neighbours, and the head stays first") {
    CHECK(order_nodes({}) == Order{});
    CHECK(order_nodes({"", "", ""}) == Order{0, 1, 2});
    CHECK(order_nodes({"n1", "n2", "n3"}) == Order{0, 1, 2});  // topology/none
    // Two leaves, interleaved; the head is under s2.
    CHECK(order_nodes({"s0.s2.n3", "s0.s1.n1", "s0.s2.n4", "s0.s1.n2"}) == Order{0, 2, 1, 3});
    // Three levels: s0.b is nearer to s0.a than s9.a is.
    CHECK(order_nodes({"s0.a.n1", "s9.a.n2", "s0.b.n3", "s9.a.n4", "s0.a.n5", "s0.b.n6"}) ==
          Order{0, 4, 2, 5, 1, 3});
    // Different depths, a node without an address, the same switch name at two places, two agents
    // at one address.
    CHECK(order_nodes({"s0.s1.n1", "s0.n2", "s0.s1.n3", "", "s1.n4", "s0.n2"}) ==
          Order{0, 2, 1, 5, 3, 4});
}

TEST_CASE("what is in order stays in order") {
    std::vector<std::string> addresses;
    Order same;
    for (int i = 0; i < 4096; ++i) {
        addresses.push_back("core.leaf" + std::to_string(i / 32) + ".n" + std::to_string(i));
        same.push_back(i);
    }
    CHECK(order_nodes(addresses) == same);
}

TEST_CASE("the roll is complete when all have come, in whatever order") {
    RollCall roll(four_nodes());
    CHECK_FALSE(roll.complete());
    CHECK(roll.missing() == "node[2-4]");
    roll.enter(7, "10.0.0.4", node("node4"));
    roll.enter(8, "10.0.0.2", node("node2"));
    CHECK(roll.missing() == "node3");
    roll.leave(8);
    CHECK(roll.missing() == "node[2-3]");
    roll.enter(9, "10.0.0.3", node("node3"));
    roll.enter(10, "10.0.0.2", node("node2"));
    REQUIRE(roll.complete());
    REQUIRE_FALSE(roll.has_objections());
    const auto start = roll.start();
    CHECK(names_of(start.roster) == std::vector<std::string>{"node1", "node2", "node3", "node4"});
    CHECK(start.visitors == std::vector<RollCall::Visitor>{0, 10, 9, 7});
    CHECK(start.roster.world_size() == 32);
    CHECK(start.roster.run_name == "run-1");
}

TEST_CASE("the network's topology orders the nodes, unless a person did") {
    Expectation expectation = four_nodes();
    expectation.head.topology_address = "s0.s2.node1";
    const auto enter_all = [](RollCall& roll) {
        roll.enter(2, "", node("node2", "s0.s1.node2"));
        roll.enter(3, "", node("node3", "s0.s2.node3"));
        roll.enter(4, "", node("node4", "s0.s1.node4"));
    };
    RollCall roll(expectation);
    enter_all(roll);
    CHECK(names_of(roll.start().roster) ==
          std::vector<std::string>{"node1", "node3", "node2", "node4"});
    CHECK(roll.start().visitors == std::vector<RollCall::Visitor>{0, 3, 2, 4});
    expectation.keeps_node_order = true;
    RollCall kept(expectation);
    enter_all(kept);
    CHECK(names_of(kept.start().roster) ==
          std::vector<std::string>{"node1", "node2", "node3", "node4"});
}

TEST_CASE("node ranks that a person chose, and nodes that nobody listed") {
    Expectation expectation;
    expectation.node_count = 3;
    expectation.head = node("a");
    expectation.keeps_node_order = true;
    RollCall roll(expectation);
    CHECK(roll.missing() == "node ranks 1-2");
    auto second = node("x");
    second.node_rank = 2;
    roll.enter(1, "10.0.0.9", second);
    CHECK(roll.missing() == "node rank 1");
    auto first = node("y");
    first.node_rank = 1;
    roll.enter(2, "10.0.0.8", first);
    CHECK(names_of(roll.start().roster) == std::vector<std::string>{"a", "y", "x"});

    RollCall by_arrival(expectation);
    by_arrival.enter(1, "", node("p"));
    by_arrival.enter(2, "", node("q"));
    CHECK(names_of(by_arrival.start().roster) == std::vector<std::string>{"a", "p", "q"});
    by_arrival.enter(3, "10.0.0.7", node("r"));
    CHECK(by_arrival.objections().at(0).what == "r is not one of the job's 3 nodes");

    RollCall out_of_range(expectation);
    first.node_rank = 3;
    out_of_range.enter(1, "10.0.0.8", first);
    CHECK(contains(out_of_range.objections().at(0).hint, "y: at 10.0.0.8, with node rank 3"));
}

TEST_CASE("nodes that nobody numbered stand by name behind the head, and some may be missing") {
    Expectation expectation;
    expectation.node_count = 4;
    expectation.head = node("m");
    RollCall roll(expectation);
    roll.enter(1, "10.0.0.1", node("z"));
    roll.enter(2, "10.0.0.2", node("a"));
    roll.enter(3, "10.0.0.3", node("a"));  // two agents of one machine
    CHECK(roll.complete());
    CHECK(names_of(roll.start().roster) == std::vector<std::string>{"m", "a", "a", "z"});
    CHECK(roll.start().visitors == std::vector<RollCall::Visitor>{0, 2, 3, 1});

    expectation.fewest_nodes = 2;
    RollCall elastic(expectation);
    CHECK_FALSE(elastic.enough());
    elastic.enter(1, "10.0.0.1", node("z"));
    elastic.enter(2, "10.0.0.2", node("b"));
    elastic.leave(1);
    CHECK(elastic.enough());
    CHECK_FALSE(elastic.complete());
    CHECK(names_of(elastic.start().roster) == std::vector<std::string>{"m", "b"});
    expectation.fewest_nodes = 0;
    CHECK_FALSE(RollCall(expectation).enough());
}

TEST_CASE("of nodes with names or numbers, some may be missing between others") {
    Expectation listed = four_nodes();
    listed.fewest_nodes = 3;
    RollCall roll(listed);
    roll.enter(4, "", node("node4"));
    CHECK_FALSE(roll.enough());
    roll.enter(2, "", node("node2"));
    REQUIRE(roll.enough());
    CHECK(names_of(roll.start().roster) == std::vector<std::string>{"node1", "node2", "node4"});
    CHECK(roll.start().visitors == std::vector<RollCall::Visitor>{0, 2, 4});

    Expectation numbered;
    numbered.node_count = 4;
    numbered.fewest_nodes = 2;
    numbered.head = node("a");
    numbered.keeps_node_order = true;
    RollCall chosen(numbered);
    auto third = node("x");
    third.node_rank = 3;
    chosen.enter(1, "", third);
    CHECK(names_of(chosen.start().roster) == std::vector<std::string>{"a", "x"});
}

TEST_CASE("what differs is named with all nodes it differs on") {
    RollCall roll(four_nodes());
    auto other = node("node3");
    other.spec_digest = 0x33;
    roll.enter(1, "10.0.0.3", other);
    REQUIRE(roll.objections().size() == 1);
    CHECK(roll.objections()[0].what == "train.yaml differs on node3 from node1");
    CHECK(contains(roll.objections()[0].hint, "node3: 0000000000000033"));
    other = node("node4");
    other.spec_digest = 0x44;
    other.program_digest = 9;
    roll.enter(2, "10.0.0.4", other);
    auto newer = node("node2");
    newer.version = "0.2.0";
    newer.program_digest = 9;
    roll.enter(3, "10.0.0.2", newer);
    std::vector<std::string> sentences;
    for (const auto& objection : roll.objections())
        sentences.push_back(objection.what);
    CHECK(sentences ==
          std::vector<std::string>{"another version of autolaunch runs on node2",
                                   "another build of autolaunch 0.1.0 runs on node4",
                                   "train.yaml differs on each of node[3-4] from node1"});
}

TEST_CASE("two agents for one node, and nodes that are not the job's") {
    RollCall roll(four_nodes());
    roll.enter(1, "10.0.0.2", node("node2"));
    roll.enter(2, "10.0.0.12", node("node2"));
    CHECK(roll.objections().at(0).what ==
          "node rank 1 joined twice: from node2 (10.0.0.2) and node2 (10.0.0.12)");
    RollCall second_head(four_nodes());
    second_head.enter(1, "10.0.0.9", node("node1"));
    CHECK(second_head.objections().at(0).what ==
          "node rank 0 joined twice: from node1 (the head) and node1 (10.0.0.9)");
    RollCall stranger(four_nodes());
    stranger.enter(1, "10.0.0.9", node("login1"));
    CHECK(stranger.objections().at(0).what == "login1 is not one of the job's 4 nodes");
    CHECK(contains(stranger.objections()[0].hint, "expected: node[1-4]"));
    for (const char* name : {"", "a,b", "n[1-2]", "two words", "bell\a"}) {
        RollCall impossible(four_nodes());
        impossible.enter(1, "10.0.0.9", node(name));
        CHECK(impossible.objections().at(0).what == "a node says of itself what cannot be");
    }
    RollCall rankless(four_nodes());
    auto none = node("node2");
    none.ranks = 0;
    rankless.enter(1, "10.0.0.2", none);
    CHECK(contains(rankless.objections().at(0).hint, "node2: 0 ranks"));
}

TEST_CASE("a welcome carries the roster in few bytes") {
    Roster roster;
    for (int i = 0; i < 16384; ++i)
        roster.nodes.push_back({"node" + std::to_string(i), i == 0 ? 4 : 8});
    roster.run_name = "run-1";
    auto welcome = make_welcome(roster);
    CHECK(welcome.nodes.size() + welcome.ranks.size() < 64);
    welcome.self = 16383;
    const Roster read = read_welcome(welcome);
    CHECK(names_of(read) == names_of(roster));
    CHECK(read.world_size() == roster.world_size());
    CHECK(read.self == 16383);
    CHECK(read.run_name == "run-1");
    welcome.self = 16384;
    CHECK_THROWS_AS(read_welcome(welcome), Error);
    welcome.self = 0;
    welcome.ranks = "8(x3)";
    CHECK_THROWS_AS(read_welcome(welcome), Error);
}

TEST_CASE("environments: what differs by nature does not count, values never leave") {
    const EnvironmentMap environment = {{"SLURM_PROCID", "3"},         {"SLURMD_NODENAME", "n"},
                                        {"OMPI_COMM_WORLD_RANK", "1"}, {"TOKEN", "hunter2"},
                                        {"LD_LIBRARY_PATH", "/a"},     {"HOSTNAME", "n"},
                                        {"CUDA_VISIBLE_DEVICES", "0"}};
    const auto table = describe_environment(environment);
    REQUIRE(table.variables.size() == 2);
    CHECK(table.variables[0].first == "LD_LIBRARY_PATH");
    CHECK(table.variables[1].first == "TOKEN");
    auto changed = environment;
    changed["TOKEN"] = "hunter3";
    changed["SLURM_PROCID"] = "4";
    changed["NEW"] = "";
    const auto other = describe_environment(changed);
    CHECK(digest_of(other) != digest_of(table));
    CHECK(differing_variables(table, other) == std::vector<std::string>{"NEW", "TOKEN"});
    changed = environment;
    changed["SLURM_PROCID"] = "4";
    changed["PET_NODE_RANK"] = "1";
    changed["VC_TASK_INDEX"] = "1";
    CHECK(digest_of(describe_environment(changed)) == digest_of(table));
}

TEST_CASE("environments: one table speaks for all nodes of its digest") {
    EnvironmentMap environment = {{"A", "1"}, {"B", "1"}};
    EnvironmentComparison comparison(describe_environment(environment));
    CHECK_FALSE(comparison.must_ask("node2", digest_of(describe_environment(environment))));
    environment["B"] = "2";
    const auto other = describe_environment(environment);
    CHECK(comparison.must_ask("node4", digest_of(other)));
    CHECK_FALSE(comparison.must_ask("node3", digest_of(other)));
    CHECK(comparison.outstanding() == 1);
    CHECK(comparison.warnings("node1").empty());
    comparison.answer(digest_of(other), other);
    comparison.answer(digest_of(other), other);
    CHECK(comparison.outstanding() == 0);
    CHECK(comparison.warnings("node1") ==
          std::vector<std::string>{"the environment of node[3-4] is not that of node1: B"});
    for (int i = 0; i < 200; ++i)
        comparison.must_ask("x", static_cast<std::uint64_t>(i));
    CHECK(comparison.outstanding() == EnvironmentComparison::kMaxAsked - 1);
}

TEST_CASE("fences count every node of their set once") {
    FenceTable fences(4);
    const control::Fence all{1, "all", {}, "x"};
    for (int i = 3; i > 0; --i)
        CHECK_FALSE(fences.contribute(i, control::Fence(all)));
    CHECK_THROWS_AS(fences.contribute(2, control::Fence(all)), Error);
    const auto done = fences.contribute(0, {1, "all", {}, ""});
    REQUIRE(done);
    CHECK(done->blobs == std::vector<std::pair<int, std::string>>{{1, "x"}, {2, "x"}, {3, "x"}});
    CHECK_FALSE(fences.contribute(1, {1, "some", {3, 1}, "a"}));
    CHECK_THROWS_AS(fences.contribute(2, {1, "some", {3, 1}, ""}), Error);
    CHECK_THROWS_AS(fences.contribute(3, {1, "some", {}, ""}), Error);
    CHECK_THROWS_AS(fences.contribute(1, {1, "beyond", {1, 4}, ""}), Error);
    CHECK(fences.contribute(3, {1, "some", {1, 3}, ""})->nodes == std::vector<int>{1, 3});
    CHECK_FALSE(fences.contribute(3, {1, "old", {}, ""}));
    CHECK(fences.pending() == 1);
    fences.begin_generation(2);
    CHECK(fences.pending() == 0);
    CHECK_FALSE(fences.contribute(3, {1, "old", {3}, ""}));
    CHECK(fences.pending() == 0);
}

TEST_CASE("fences do not wait for nodes that a generation goes on without") {
    FenceTable fences(4);
    fences.begin_generation(1, {2, 0, 2, 2});
    CHECK_FALSE(fences.contribute(0, {1, "all", {}, ""}));
    CHECK_FALSE(fences.contribute(3, {1, "all", {}, "x"}));
    CHECK_THROWS_AS(fences.contribute(1, {1, "all", {}, ""}), Error);
    CHECK(fences.contribute(2, {1, "all", {}, ""}));
    fences.begin_generation(2);  // as before
    CHECK_FALSE(fences.contribute(0, {2, "all", {}, ""}));
    CHECK_FALSE(fences.contribute(2, {2, "all", {}, ""}));
    CHECK(fences.contribute(3, {2, "all", {}, ""}));
}

TEST_CASE("what comes early waits for who asks, what comes late is dropped") {
    MemberInbox inbox;
    std::vector<std::string> seen;
    const auto note = [&](int source, std::string_view bytes) {
        seen.push_back(std::to_string(source) + ":" + std::string(bytes));
    };
    const auto pmix = control::RelayChannel::pmix;
    const auto relay = [&](int generation, const std::string& bytes) {
        inbox.deliver(control::Relay{static_cast<std::uint8_t>(pmix), generation, 3, 0, bytes});
    };
    inbox.begin_generation(1);
    relay(0, "late");
    relay(2, "early");
    relay(1, "now");
    inbox.listen(pmix, 1, note);
    relay(1, "later");
    inbox.listen(pmix, 1, nullptr);
    relay(1, "for nobody");
    inbox.begin_generation(2);
    inbox.listen(pmix, 2, note);
    CHECK(seen == std::vector<std::string>{"3:now", "3:later", "3:early"});

    std::size_t blobs = 0;
    inbox.expect_fence(2, "f", [&](auto&& done) { blobs = done.size(); });
    CHECK_THROWS_AS(inbox.expect_fence(2, "f", {}), Error);
    inbox.deliver(control::FenceDone{2, "f", true, {{0, "a"}}});
    CHECK(blobs == 0);
    inbox.deliver(control::FenceDone{2, "f", false, {{1, "b"}}});
    CHECK(blobs == 2);
    inbox.expect_fence(2, "g", [&](auto&&) { blobs = 99; });
    inbox.begin_generation(3);
    inbox.deliver(control::FenceDone{2, "g", false, {}});
    CHECK(blobs == 2);
    for (int i = 0; i < 80; ++i)
        relay(4, std::string(1 << 20, 'x'));
    inbox.begin_generation(4);
    seen.clear();
    inbox.listen(pmix, 4, note);
    CHECK(seen.size() == 64);
}

TEST_CASE("scontrol's words are read") {
    CHECK(read_node_address("NodeName=n1 Arch=x86_64 NodeAddr=10.1.2.3 NodeHostName=n1 Port=1\n") ==
          "10.1.2.3");
    CHECK(read_node_address("NodeName=n1 NodeAddr=n1.ib\n") == "n1.ib");
    CHECK(read_node_address("Node n1 not found\n").empty());
}

TEST_CASE("the program has a digest, and keeps it") {
    CHECK(program_digest() != 0);
    CHECK(program_digest() == program_digest());
}

TEST_CASE("a node that finds no head says what it tried") {
    SearchRecord record;
    record.head_name = "node1";
    record.timeout = 300s;
    record.lookups = {{{"node1", "the first node of the job", true}, {"10.0.0.1", "fd00::1"}, ""},
                      {{"10.9.9.9", "where srun runs", false}, {"10.9.9.9"}, ""}};
    record.dials = {{"10.0.0.1",
                     "eth0, 10.0.0.5",
                     {{61000, "refused"}, {61001, "refused"}, {61002, "timed out"}}},
                    {"fd00::1", "", {{61000, "its network is unreachable"}}}};
    const auto diagnosis = diagnose(record);
    CHECK(diagnosis.what == "the head, node1, was not reached within 300 s");
    CHECK(diagnosis.hint ==
          "node1 (the first node of the job) is 10.0.0.1, fd00::1\n"
          "10.9.9.9 is where srun runs\n"
          "10.0.0.1 (through eth0, 10.0.0.5), ports 61000, 61001: refused\n"
          "10.0.0.1 (through eth0, 10.0.0.5), port 61002: timed out\n"
          "fd00::1 (no way leads there), port 61000: its network is unreachable\n"
          "what does not answer is mostly a firewall: let these ports through between the nodes\n"
          "where a connection is refused nobody listens: was the agent started on node1, and what "
          "did it print?\n"
          "if the head only starts late, raise rendezvous.timeout (300 s)");
}

TEST_CASE("a name that does not resolve, and a head that went away") {
    SearchRecord record;
    record.head_name = "node1";
    record.timeout = 1500ms;
    record.lookups = {
        {{"node1", "the first node of the job", true}, {}, "Name or service not known"}};
    auto diagnosis = diagnose(record);
    CHECK(contains(diagnosis.what, "within 1.5 s"));
    CHECK(contains(
        diagnosis.hint,
        "node1 (the first node of the job) does not resolve: Name or service not known\n"));
    CHECK(contains(diagnosis.hint, "getent hosts node1"));
    CHECK_FALSE(contains(diagnosis.hint, "firewall"));
    record.lookups.clear();
    CHECK(contains(diagnose(record).hint, "the resolver has not answered for node1"));
    record.broken_off = "connection reset by peer";
    diagnosis = diagnose(record);
    CHECK(diagnosis.what == "the head, node1, was reached and went away again");
    CHECK(contains(diagnosis.hint, "its connection ended: connection reset by peer\n"));
}

TEST_CASE("the head says who is missing and who was turned away") {
    WaitRecord record;
    record.head_name = "node1";
    record.node_count = 4;
    record.timeout = 30s;
    record.missing_count = 2;
    record.missing = "node[3-4]";
    record.own_addresses = {"10.0.0.1 (eth0)", "fd00::1 (eth0)"};
    record.port = 61001;
    record.ports = {61000, 61001};
    record.strangers["10.0.0.9"] = {"it is of another job", 3};
    const auto diagnosis = diagnose(record);
    CHECK(diagnosis.what == "2 of 4 nodes did not join within 30 s: node[3-4]");
    CHECK(diagnosis.hint ==
          "10.0.0.9 was turned away, 3 times: it is of another job\n"
          "the head, node1, listened on IPv4 and IPv6 port 61001, at 10.0.0.1 (eth0), fd00::1 "
          "(eth0)\n"
          "look at what the agents of node[3-4] print: each says what it tried\n"
          "if a firewall is between the nodes, let TCP ports 61000, 61001 through\n"
          "if nodes only start late, raise rendezvous.timeout (30 s)");
    for (int i = 0; i < 20; ++i)
        record.strangers["10.0.1." + std::to_string(i)] = {"sent nonsense", 1};
    CHECK(contains(diagnose(record).hint, "and 13 more addresses\n"));
}

}  // namespace rendezvous_rules_test
