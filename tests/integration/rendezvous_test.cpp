// Nodes that join a job over real sockets, and what they say to one another afterwards.
#include "rendezvous/join.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace autolaunch;
using namespace autolaunch::launcher;

TEST_CASE("one node joins at once, and its head and member talk") {
    asio::io_context io;
    Allocation allocation;
    allocation.node_names = {"alone"};
    JoinRequest request;
    request.ranks_here = 8;
    request.run_name = "run-7";
    Joined joined = join_job(io, JobSpec{}, allocation, {}, request);
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
    joined.member->set_handlers({.on_command =
                                     [&](const control::Command& command) {
                                         seen.push_back("command " + std::get<control::StopRanks>(command).reason);
                                     },
                                 .on_head_lost = [&](const std::string&) { FAIL("head lost"); }});
    joined.member->report(control::StopAsked{15});
    joined.member->fence(0, "f", {}, "blob", [&](std::vector<std::pair<int, std::string>>&& blobs) {
        REQUIRE(blobs.size() == 1);
        seen.push_back("fence " + blobs[0].second);
    });
    joined.member->relay(control::RelayChannel::pmix, 0, 0, "hello");
    joined.member->relay(control::RelayChannel::pmix, 1, 0, "of the next generation");
    joined.member->on_relay(control::RelayChannel::pmix, 0,
                            [&](int, std::string_view bytes) { seen.push_back("relay " + std::string(bytes)); });
    CHECK(seen.empty());  // nothing from within the calls
    io.run();
    CHECK(seen == std::vector<std::string>{"command SIGTERM", "report of 0", "fence blob", "relay hello"});
    seen.clear();

    joined.member->begin_generation(1);
    joined.member->relay(control::RelayChannel::pmix, 0, 0, "too late");
    joined.member->on_relay(control::RelayChannel::pmix, 1,
                            [&](int, std::string_view bytes) { seen.push_back(std::string(bytes)); });
    io.restart();
    io.run();
    CHECK(seen == std::vector<std::string>{"of the next generation"});
    CHECK(joined.head->all_left());
}
