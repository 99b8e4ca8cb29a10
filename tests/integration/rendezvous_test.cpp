// Nodes that join a job over real sockets, and what they say to one another afterwards.
#include "rendezvous_nodes.hpp"

#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "control/control_security.hpp"
#include "control/job_identity.hpp"
#include "control/job_key.hpp"
#include "rendezvous/head_join.hpp"
#include "rendezvous/member_join.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <set>

namespace rendezvous_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace autolaunch::testing;
using namespace std::chrono_literals;
using Blobs = std::vector<std::pair<int, std::string>>;

namespace {

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// A peer that connects to the head's first port and says `bytes`.
UniqueFd stranger(const TestNode& head, const std::string& bytes) {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port =
        htons(job_identity(head.allocation, head.spec, head.request.run_id).ports.front());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 2000; ++i) {
        if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
            0)
            break;
        std::this_thread::sleep_for(1ms);
    }
    if (!bytes.empty())
        CHECK(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0);
    return socket;
}

}  // namespace

TEST_CASE("one node joins at once, and its head and member talk") {
    asio::io_context io;
    Allocation allocation;
    allocation.node_names = {"alone"};
    JoinRequest request;
    request.ranks_here = 8;
    request.run_name = "run-7";
    Joined joined = join_job(io, RendezvousSpec{}, allocation, {}, request);
    CHECK(joined.roster.world_size() == 8);
    CHECK(joined.roster.nodes.at(0).name == "alone");
    CHECK(joined.roster.run_name == "run-7");
    CHECK(joined.summary.key_source.empty());
    REQUIRE(joined.head != nullptr);

    std::vector<std::string> seen;
    joined.head->set_handlers({.on_report =
                                   [&](int node, control::Report&& report) {
                                       seen.push_back("report of " + std::to_string(node));
                                       CHECK(std::get<control::StopAsked>(report).signal == 15);
                                   },
                               .on_node_lost = [&](int, const std::string&) { FAIL("lost"); }});
    joined.head->command(control::StopRanks{0, true, "SIGTERM"});  // before the member listens
    joined.member->set_handlers(
        {.on_command =
             [&](const control::Command& command) {
                 seen.push_back("command " + std::get<control::StopRanks>(command).reason);
             },
         .on_head_lost = [&](const std::string&) { FAIL("head lost"); }});
    joined.member->report(control::StopAsked{15});
    joined.member->fence(0, "f", {}, "blob", [&](Blobs&& blobs) {
        REQUIRE(blobs.size() == 1);
        seen.push_back("fence " + blobs[0].second);
    });
    joined.member->relay(control::RelayChannel::pmix, 0, 0, "hello");
    joined.member->relay(control::RelayChannel::pmix, 1, 0, "of the next generation");
    joined.member->on_relay(control::RelayChannel::pmix, 0, [&](int, std::string_view bytes) {
        seen.push_back("relay " + std::string(bytes));
    });
    CHECK(seen.empty());  // nothing from within the calls
    io.run();
    CHECK(seen ==
          std::vector<std::string>{"command SIGTERM", "report of 0", "fence blob", "relay hello"});
    seen.clear();

    joined.member->begin_generation(1);
    joined.member->relay(control::RelayChannel::pmix, 0, 0, "too late");
    joined.member->on_relay(control::RelayChannel::pmix, 1, [&](int, std::string_view bytes) {
        seen.push_back(std::string(bytes));
    });
    io.restart();
    io.run();
    CHECK(seen == std::vector<std::string>{"of the next generation"});
    CHECK(joined.head->all_left());
}

TEST_CASE("nodes join, whatever their number") {
    for (const int count : {2, 8, 64}) {
        CAPTURE(count);
        TestJob job(count);
        for (std::size_t i = 0; i < job.nodes.size(); ++i)
            job.nodes[i].request.ranks_here = 1 + static_cast<int>(i) % 3;
        job.join_all();
        for (const auto& node : job.nodes)
            REQUIRE_MESSAGE(node.exit_code == 0, node.what, "\n", node.hint);
        REQUIRE(job.all_joined());
        const Roster& first = job.nodes[0].joined.roster;
        for (std::size_t i = 0; i < job.nodes.size(); ++i) {
            const Joined& joined = job.nodes[i].joined;
            CHECK(joined.roster.self == static_cast<int>(i));
            CHECK(joined.member->node_rank() == static_cast<int>(i));
            CHECK(joined.member->node_count() == count);
            CHECK((joined.head != nullptr) == (i == 0));
            CHECK(joined.roster.nodes.size() == static_cast<std::size_t>(count));
            CHECK(joined.roster.nodes.back().name == first.nodes.back().name);
            CHECK(joined.roster.world_size() == first.world_size());
            CHECK(joined.roster.nodes[i].ranks == job.nodes[i].request.ranks_here);
            CHECK(joined.roster.run_name == "run-of-node0");
            CHECK(joined.summary.key_source == "AUTOLAUNCH_JOB_KEY");
            CHECK(joined.summary.head_address == "127.0.0.1");
            CHECK(joined.summary.local_address == "127.0.0.1");
            CHECK(joined.summary.warnings.empty());
        }
        MESSAGE(count, " nodes joined in ", job.nodes[0].joined.summary.took.count(), " us");
    }
}

TEST_CASE("the topology of the network orders the nodes") {
    TestJob job(4);
    const char* addresses[] = {"s0.s1.node0", "s0.s2.node1", "s0.s1.node2", "s0.s2.node3"};
    for (std::size_t i = 0; i < 4; ++i)
        job.nodes[i].allocation.topology_address = addresses[i];
    job.join_all();
    REQUIRE(job.all_joined());
    CHECK(job.nodes[2].joined.member->node_rank() == 1);
    CHECK(job.nodes[1].joined.roster.nodes.at(1).name == "node2");
    CHECK(job.nodes[1].joined.roster.self == 2);
}

TEST_CASE("commands reach all, reports reach the head, fences and relays reach whom they concern") {
    TestJob job(3);
    job.join_all();
    REQUIRE(job.all_joined());
    std::vector<std::string> reports;
    job.nodes[0].joined.head->set_handlers(
        {.on_report =
             [&](int node, control::Report&& report) {
                 reports.push_back(std::to_string(node) + " " +
                                   std::get<control::NodeWarning>(report).text);
             },
         .on_node_lost = [&](int, const std::string& why) { FAIL(why); }});
    int commands = 0;
    job.nodes[0].joined.head->command(control::StartGeneration{1, "10.0.0.1", 29500, {}});
    CHECK(job.run_until([&] { return true; }));
    std::this_thread::sleep_for(20ms);
    for (auto& node : job.nodes)
        node.poll();  // the command is there before anybody listens
    for (auto& node : job.nodes) {
        node.joined.member->set_handlers(
            {.on_command =
                 [&](const control::Command& command) {
                     CHECK(std::get<control::StartGeneration>(command).master_port == 29500);
                     ++commands;
                 },
             .on_head_lost = [&](const std::string& why) { FAIL(why); }});
    }
    CHECK(job.run_until([&] { return commands == 3; }));
    for (int i = 0; i < 3; ++i) {
        auto& member = *job.nodes[static_cast<std::size_t>(i)].joined.member;
        member.begin_generation(1);
        member.report(control::NodeWarning{"of " + std::to_string(i)});
    }
    CHECK(job.run_until([&] { return reports.size() == 3; }));
    CHECK(std::count(reports.begin(), reports.end(), "2 of 2") == 1);

    SUBCASE("fences over all, over some, empty, and large ones in parts") {
        std::vector<Blobs> done;
        const auto fence = [&](std::size_t node, const std::string& name,
                               const std::vector<int>& nodes, std::string blob) {
            job.nodes[node].joined.member->fence(
                1, name, nodes, std::move(blob),
                [&](Blobs&& blobs) { done.push_back(std::move(blobs)); });
        };
        for (std::size_t i = 0; i < 3; ++i)
            fence(i, "all", {}, "blob" + std::to_string(i));
        REQUIRE(job.run_until([&] { return done.size() == 3; }));
        for (const auto& blobs : done)
            CHECK(blobs == Blobs{{0, "blob0"}, {1, "blob1"}, {2, "blob2"}});
        done.clear();
        fence(1, "some", {2, 1}, "x");
        fence(2, "some", {1, 2}, "");
        REQUIRE(job.run_until([&] { return done.size() == 2; }));
        for (const auto& blobs : done)
            CHECK(blobs == Blobs{{1, "x"}});
        done.clear();
        for (std::size_t i = 0; i < 3; ++i)
            fence(i, "barrier", {}, "");
        REQUIRE(job.run_until([&] { return done.size() == 3; }));
        CHECK(done[0].empty());
        done.clear();
        for (std::size_t i = 0; i < 3; ++i)
            fence(i, "large", {}, std::string(30U << 20, static_cast<char>('a' + i)));
        REQUIRE(job.run_until([&] { return done.size() == 3; }));
        for (const auto& blobs : done) {
            REQUIRE(blobs.size() == 3);
            for (std::size_t i = 0; i < 3; ++i)
                CHECK(blobs[i].second == std::string(30U << 20, static_cast<char>('a' + i)));
        }
        done.clear();
        fence(2, "alone", {2}, "me");
        REQUIRE(job.run_until([&] { return done.size() == 1; }));
        CHECK(done[0] == Blobs{{2, "me"}});
        CHECK_THROWS_AS(fence(0, "not mine", {1, 2}, ""), Error);
        CHECK_THROWS_AS(fence(0, "beyond", {0, 3}, ""), Error);
        CHECK_THROWS_AS(fence(0, "huge", {}, std::string(64U << 20, 'x')), Error);
    }
    SUBCASE("relays between any two") {
        std::vector<std::string> seen;
        const auto pmix = control::RelayChannel::pmix;
        for (int to = 0; to < 3; ++to)
            job.nodes[static_cast<std::size_t>(to)].joined.member->on_relay(
                pmix, 1, [&seen, to](int source, std::string_view bytes) {
                    seen.push_back(std::to_string(source) + ">" + std::to_string(to) + " " +
                                   std::string(bytes));
                });
        for (int from = 0; from < 3; ++from)
            for (int to = 0; to < 3; ++to)
                job.nodes[static_cast<std::size_t>(from)].joined.member->relay(pmix, 1, to,
                                                                               "hello");
        job.nodes[1].joined.member->relay(control::RelayChannel::store, 1, 2, "for nobody yet");
        CHECK(job.run_until([&] { return seen.size() == 9; }));
        CHECK(std::set<std::string>(seen.begin(), seen.end()).size() == 9);
        CHECK(std::count(seen.begin(), seen.end(), "1>2 hello") == 1);
    }
    SUBCASE("a generation that began drops what belongs to the one before") {
        int done = 0;
        job.nodes[1].joined.member->fence(1, "f", {}, "", [&](Blobs&&) { ++done; });
        job.nodes[0].joined.head->command(control::StartGeneration{2, "", 29500, {}});
        CHECK(job.run_until([&] { return commands == 6; }));
        for (auto& node : job.nodes)
            node.joined.member->begin_generation(2);
        job.nodes[0].joined.member->fence(1, "f", {}, "", [&](Blobs&&) { ++done; });
        job.nodes[2].joined.member->fence(1, "f", {}, "", [&](Blobs&&) { ++done; });
        for (auto& node : job.nodes)
            node.joined.member->fence(2, "f", {}, "", [&](Blobs&&) { done += 10; });
        CHECK(job.run_until([&] { return done >= 30; }));
        CHECK(done == 30);
    }
}

TEST_CASE("after Finish the nodes leave, and nobody is lost") {
    TestJob job(3);
    job.join_all();
    REQUIRE(job.all_joined());
    std::vector<std::string> lost;
    int finished = 0;
    job.nodes[0].joined.head->set_handlers(
        {.on_report = [](int, control::Report&&) {},
         .on_node_lost = [&](int, const std::string& why) { lost.push_back(why); }});
    for (auto& node : job.nodes)
        node.joined.member->set_handlers(
            {.on_command =
                 [&](const control::Command& command) {
                     CHECK(std::get<control::Finish>(command).exit_code == 3);
                     ++finished;
                     node.joined.member.reset();
                 },
             .on_head_lost = [&](const std::string& why) { lost.push_back(why); }});
    CHECK_FALSE(job.nodes[0].joined.head->all_left());
    job.nodes[0].joined.head->command(control::Finish{3, "failed"});
    CHECK(job.run_until([&] { return job.nodes[0].joined.head->all_left(); }));
    CHECK(finished == 3);
    CHECK(lost.empty());
}

TEST_CASE("a node whose connection breaks is named at once, and a head that goes too") {
    TestJob job(3);
    job.join_all();
    REQUIRE(job.all_joined());
    std::vector<std::string> lost;
    std::string head_lost;
    job.nodes[2].joined.member->set_handlers(
        {.on_command = {}, .on_head_lost = [&](const std::string& why) { head_lost = why; }});
    job.nodes[1].joined.member.reset();
    job.run_until([] { return false; }, 50ms);  // before the head's owner listens
    job.nodes[0].joined.head->set_handlers({.on_report = [](int, control::Report&&) {},
                                            .on_node_lost =
                                                [&](int node, const std::string& why) {
                                                    lost.push_back(std::to_string(node) + " " +
                                                                   why);
                                                }});
    CHECK(job.run_until([&] { return lost.size() == 1; }));
    CHECK(lost.at(0) == "1 node1 (127.0.0.1) broke its connection: it closed the connection");
    CHECK(head_lost.empty());
    job.nodes[0].joined.head->command(control::KillRanks{0});  // leaves the lost one out
    job.nodes[0].joined.member.reset();
    job.nodes[0].joined.head.reset();
    CHECK(job.run_until([&] { return !head_lost.empty(); }));
    CHECK(head_lost ==
          "the head, node0 (127.0.0.1), broke its connection: it closed the connection");
}

TEST_CASE("a head or a node that starts late") {
    TestJob job(3);
    job.start(1);
    std::this_thread::sleep_for(300ms);
    job.start(0);
    std::this_thread::sleep_for(300ms);
    job.start(2);
    job.wait();
    REQUIRE(job.all_joined());
    CHECK(job.nodes[0].took >= 250ms);
    CHECK(job.nodes[1].took >= 550ms);
}

TEST_CASE("a node that never comes is named, to all, by the deadline") {
    TestJob job(4);
    for (auto& node : job.nodes)
        node.spec.timeout = 700ms;
    job.start(0);
    job.start(2);
    job.wait();
    const TestNode& head = job.nodes[0];
    CHECK(head.exit_code == 68);
    CHECK(head.what == "2 of 4 nodes did not join within 0.7 s: node[1,3]");
    CHECK(contains(head.hint, "the head, node0, listened on IPv4"));
    CHECK(contains(head.hint, "look at what the agents of node[1,3] print"));
    CHECK(contains(head.hint, "raise rendezvous.timeout (0.7 s)"));
    CHECK(head.took < 20s);
    CHECK(job.nodes[2].exit_code == 68);
    CHECK(job.nodes[2].what == head.what);  // the same words
    CHECK(job.nodes[2].hint == "node0, the head, prints what is known of them");
}

TEST_CASE("a node that finds no head says what it tried") {
    TestJob job(2);
    job.nodes[1].spec.timeout = 300ms;
    job.nodes[1].allocation.head_address.clear();
    job.nodes[1].allocation.node_names = {"localhost", "node1"};
    job.start(1);
    job.wait();
    CHECK(job.nodes[1].exit_code == 68);
    CHECK(job.nodes[1].what == "the head, localhost, was not reached within 0.3 s");
    CHECK(contains(job.nodes[1].hint, "localhost (the first node of the job) is "));
    CHECK(contains(job.nodes[1].hint, "127.0.0.1 (through lo, 127.0.0.1), ports "));
    CHECK(contains(job.nodes[1].hint, ": refused"));
    CHECK(contains(job.nodes[1].hint, "was the agent started on localhost"));

    job.nodes[1].allocation.node_names = {"no-such-host.invalid", "node1"};
    job.start(1);
    job.wait();
    CHECK(contains(job.nodes[1].what, "no-such-host.invalid, was not reached"));
    CHECK((contains(job.nodes[1].hint, "does not resolve") ||
           contains(job.nodes[1].hint, "has not answered")));
    CHECK(contains(job.nodes[1].hint, "getent hosts no-such-host.invalid"));
}

TEST_CASE("another key is refused, and both ends say so") {
    TestJob job(2);
    job.nodes[0].spec.timeout = 1500ms;
    job.nodes[1].spec.timeout = 700ms;
    job.nodes[1].environment["AUTOLAUNCH_JOB_KEY"] = "another secret: 0123456789";
    job.join_all();
    CHECK(job.nodes[1].exit_code == 77);
    CHECK(contains(job.nodes[1].hint, "another key"));
    CHECK(job.nodes[0].exit_code == 77);
    CHECK(contains(job.nodes[0].hint, "127.0.0.1 was turned away"));
    CHECK(contains(job.nodes[0].hint, "another key"));
}

TEST_CASE("what an agent with another key breaks off later does not hide the key") {
    TestJob job(2);
    job.nodes[0].spec.timeout = 3s;
    job.nodes[1].spec.timeout = 500ms;
    job.nodes[1].environment["AUTOLAUNCH_JOB_KEY"] = "another secret: 0123456789";
    job.start(0);
    job.start(1);
    std::this_thread::sleep_for(1s);   // it was refused, and has given up
    (void)stranger(job.nodes[0], "");  // as a try that its deadline cuts short
    (void)stranger(job.nodes[0], "auto");
    job.wait();
    CHECK(job.nodes[0].exit_code == 77);
    CHECK(contains(job.nodes[0].hint, "another key"));
}

TEST_CASE("three jobs that are given the same ports") {
    asio::io_context io;
    const std::vector<std::uint16_t> ports = {21'011, 21'012, 21'013, 21'014};
    std::vector<std::shared_ptr<HeadJoin>> heads;
    std::vector<std::shared_ptr<MemberJoin>> members;
    std::vector<HeadJoin::Outcome> welcomed;
    std::vector<MemberJoin::Outcome> joined;
    for (int number = 0; number < 3; ++number) {
        const TestJob names(3);
        const auto& node = names.nodes[0];
        const JobIdentity identity{"test/job" + std::to_string(number), ports};
        const KeyPlan plan = plan_job_key(node.spec, node.environment, identity, "");
        for (int i = 1; i < 3; ++i) {
            MemberJoin::Options options;
            options.search.hosts = {{"127.0.0.1", "the test's own", false}};
            options.search.ports = ports;
            options.node_count = 3;
            options.join.node_name = "node" + std::to_string(i);
            options.join.version =
                std::to_string(number);  // whoever met another job's head would be refused
            members.push_back(std::make_shared<MemberJoin>(
                io, ControlSecurity::for_node(io, identity, plan), options));
            members.back()->start(
                [&](MemberJoin::Outcome&& outcome) { joined.push_back(std::move(outcome)); });
        }
        HeadJoin::Options options;
        options.ports = ports;
        options.expectation.node_count = 3;
        options.expectation.node_names = node.allocation.node_names;
        options.expectation.head.node_name = "node0";
        options.expectation.head.version = std::to_string(number);
        options.environment = describe_environment({});
        const auto security = ControlSecurity::for_head(
            identity, make_head_key(plan, identity, Deadline::after(60s)));
        heads.push_back(std::make_shared<HeadJoin>(io, security, options));
        heads.back()->start(
            [&](HeadJoin::Outcome&& outcome) { welcomed.push_back(std::move(outcome)); });
    }
    CHECK(heads[2]->port() != heads[0]->port());
    const Deadline deadline = Deadline::after(60s);
    while ((welcomed.size() < 3 || joined.size() < 6) && !deadline.passed())
        io.run_one_for(100ms);
    CHECK(welcomed.size() == 3);
    CHECK(joined.size() == 6);
    for (const auto& outcome : welcomed)
        CHECK_FALSE(outcome.error);
    for (const auto& outcome : joined)
        CHECK_FALSE(outcome.error);
}

TEST_CASE("strangers do not get in and do not hold up the others") {
    TestJob job(3);
    job.start(0);
    std::vector<UniqueFd> strangers;
    for (int i = 0; i < 600; ++i)
        strangers.push_back(stranger(job.nodes[0], ""));  // silent, and more than the places
    for (int i = 0; i < 50; ++i)
        strangers.push_back(stranger(job.nodes[0], "GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    for (int i = 0; i < 50; ++i)
        strangers.push_back(stranger(job.nodes[0], std::string(9000, '\xff')));
    job.start(1);
    job.start(2);
    job.wait();
    REQUIRE(job.all_joined());
    CHECK(job.nodes[2].took < 30s);
}

TEST_CASE("nodes that were given different run ids are different jobs") {
    TestJob job(2);
    job.nodes[0].request.run_id = "one";
    job.nodes[1].request.run_id = "another";
    for (auto& node : job.nodes)
        node.spec.timeout = 700ms;
    job.join_all();
    for (const auto& node : job.nodes)
        CHECK(node.exit_code == 68);
}

TEST_CASE("two agents for one node, and one that is none of the job's") {
    TestJob job(3);
    SUBCASE("twice") {
        job.nodes[2].allocation.node_rank = 1;
        job.join_all();
        CHECK(job.nodes[0].what ==
              "node rank 1 joined twice: from node1 (127.0.0.1) and node1 (127.0.0.1)");
    }
    SUBCASE("stranger") {
        job.nodes[2].allocation.node_names[2] = "login";
        job.join_all();
        CHECK(job.nodes[0].what == "login is not one of the job's 3 nodes");
        CHECK(contains(job.nodes[0].hint, "expected: node[0-2]"));
    }
    for (const auto& node : job.nodes) {
        CHECK(node.exit_code == 68);
        CHECK(node.what == job.nodes[0].what);
        CHECK(node.hint == job.nodes[0].hint);
    }
}

TEST_CASE("a spec or program that differs is refused with all nodes it differs on") {
    TestJob job(4);
    job.nodes[1].request.spec_digest = 9;
    job.nodes[3].request.spec_digest = 9;
    job.nodes[2].request.program_digest = 9;
    job.join_all();
    for (const auto& node : job.nodes) {
        CHECK(node.exit_code == 68);
        CHECK(node.what == "another build of autolaunch 0.1.0 runs on node2");
        CHECK(contains(node.hint, "also: train.yaml differs on each of node[1,3] from node0"));
    }
}

TEST_CASE("environments that differ are a warning with the variables' names") {
    TestJob job(5);
    for (std::size_t i = 0; i < 5; ++i)
        job.nodes[i].environment["SLURM_PROCID"] = std::to_string(i);
    for (const std::size_t i : {1U, 2U, 4U})
        job.nodes[i].environment["NCCL_DEBUG"] = "secret-value";
    job.nodes[3].environment.erase("PATH");
    job.join_all();
    REQUIRE(job.all_joined());
    CHECK(
        job.nodes[0].joined.summary.warnings ==
        std::vector<std::string>{"the environment of node[1-2,4] is not that of node0: NCCL_DEBUG",
                                 "the environment of node3 is not that of node0: PATH"});
    CHECK(job.nodes[1].joined.summary.warnings.empty());
}

TEST_CASE("over IPv6 alone") {
    UniqueFd probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 loopback{};
    loopback.sin6_family = AF_INET6;
    loopback.sin6_addr = in6addr_loopback;
    if (!probe ||
        ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback) != 0) {
        MESSAGE("skipped: this machine has no IPv6 loopback");
        return;
    }
    TestJob job(2);
    job.nodes[1].allocation.head_address = "::1";
    job.join_all();
    REQUIRE(job.all_joined());
    CHECK(job.nodes[0].joined.summary.head_address == "::1");
    for (const auto& node : job.nodes)
        CHECK(node.joined.summary.local_address == "::1");
}

TEST_CASE("who waits for the job may give up") {
    TestJob job(2);
    UniqueFd cancel(::eventfd(0, EFD_CLOEXEC));
    job.nodes[0].request.cancel_fd = cancel.get();
    job.nodes[1].request.cancel_fd = cancel.get();
    SUBCASE("while the head waits") { job.start(0); }
    SUBCASE("while a node seeks") { job.start(1); }
    std::this_thread::sleep_for(100ms);
    CHECK(::eventfd_write(cancel.get(), 1) == 0);
    job.wait();
    const TestNode& node = job.nodes[0].exit_code != 0 ? job.nodes[0] : job.nodes[1];
    CHECK(node.exit_code == 68);
    CHECK(contains(node.what, "gave up"));
    CHECK(node.took < 20s);
}

}  // namespace rendezvous_test
