// Nodes of one job that check themselves and come to one verdict, over real sockets.
#include "doctor/meeting.hpp"
#include "doctor/rail_probe.hpp"
#include "rendezvous_nodes.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace doctor_meeting_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace autolaunch::testing;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

NodeSources sources_with(rlim_t files) {
    NodeSources sources = local_sources({});
    sources.limit = [files](int) { return std::optional(rlimit{files, files}); };
    return sources;
}

const CheckChoice kChoice = {.only = {"nofile", "machine"}, .skip = {}};

/// Those nodes that are not null hold the meeting.
std::vector<std::optional<MeetingOutcome>> meet(
    TestJob& job, const std::vector<std::optional<NodeSources>>& sources,
    const MeetingOptions& options = {}) {
    std::vector<std::optional<MeetingOutcome>> outcomes(sources.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < sources.size(); ++i)
        if (sources[i])
            threads.emplace_back([&, i] {
                outcomes[i] = hold_meeting(*job.nodes[i].io, job.nodes[i].joined, *sources[i],
                                           kChoice, options);
                // What was said last still leaves.
                for (const auto end = Clock::now() + 300ms; Clock::now() < end;) {
                    job.nodes[i].io->restart();
                    job.nodes[i].io->run_one_for(10ms);
                }
            });
    for (auto& thread : threads)
        thread.join();
    return outcomes;
}

}  // namespace

TEST_CASE("nodes that are alike and fit") {
    TestJob job(3);
    job.join_all();
    REQUIRE(job.all_joined());
    const auto outcomes =
        meet(job, {sources_with(1 << 20), sources_with(1 << 20), sources_with(1 << 20)});
    for (const auto& outcome : outcomes) {
        CHECK_FALSE(outcome->has_failures);
        CHECK_FALSE(outcome->has_warnings);
    }
    REQUIRE(outcomes[0]->verdict);
    CHECK_FALSE(outcomes[1]->verdict);
    REQUIRE(outcomes[0]->verdict->reports.size() == 3);
    CHECK(outcomes[0]->verdict->reports[2].node == "node2");
    CHECK(outcomes[0]->verdict->findings.empty());
    // The members are as they were: a job may begin.
    bool fenced = false;
    for (auto& node : job.nodes)
        node.joined.member->fence(0, "after", {}, "", [&](auto&&) { fenced = true; });
    CHECK(job.run_until([&] { return fenced; }));
}

TEST_CASE("the odd node is named, and all nodes hear of it") {
    TestJob job(4);
    job.join_all();
    REQUIRE(job.all_joined());
    const auto outcomes = meet(job, {sources_with(1 << 20), sources_with(1 << 20),
                                     sources_with(1024), sources_with(1 << 20)});
    for (const auto& outcome : outcomes) {
        CHECK_FALSE(outcome->has_failures);
        CHECK(outcome->has_warnings);
    }
    const std::string screen = verdict_screen(*outcomes[0]->verdict, {});
    CHECK(screen.find("! nofile  node2: at most 1024 open files") != std::string::npos);
    CHECK(screen.find("! nofile  node2: open files 1024 where 3 others have 1048576") !=
          std::string::npos);
}

TEST_CASE("one node alone") {
    TestJob job(1);
    job.join_all();
    REQUIRE(job.all_joined());
    const auto outcomes = meet(job, {sources_with(1024)});
    CHECK(outcomes[0]->has_warnings);
    CHECK(outcomes[0]->verdict->findings.size() == 1);
}

TEST_CASE("a node that sends nothing is a failure, and the others are not held up") {
    TestJob job(3);
    job.join_all();
    REQUIRE(job.all_joined());
    const auto start = Clock::now();
    MeetingOptions options;
    options.patience = 500ms;
    const auto outcomes =
        meet(job, {sources_with(1 << 20), std::nullopt, sources_with(1 << 20)}, options);
    CHECK(Clock::now() - start < 10s);
    CHECK(outcomes[0]->has_failures);
    CHECK(outcomes[2]->has_failures);
    REQUIRE(outcomes[0]->verdict->findings.size() == 1);
    CHECK(outcomes[0]->verdict->findings[0].nodes == std::vector<std::string>{"node1"});
    CHECK(outcomes[0]->verdict->findings[0].finding.what == "it sent no results in time");
}

TEST_CASE("a node that is lost is named with the reason") {
    TestJob job(2);
    job.join_all();
    REQUIRE(job.all_joined());
    job.nodes[1].joined = {};
    job.nodes[1].poll();
    job.nodes[1].io = std::make_unique<asio::io_context>(1);
    const auto outcomes = meet(job, {sources_with(1 << 20), std::nullopt});
    CHECK(outcomes[0]->has_failures);
    CHECK(outcomes[0]->verdict->findings[0].finding.check == "nodes");
    CHECK(outcomes[0]->verdict->findings[0].finding.what.find("node1") != std::string::npos);
}

TEST_CASE("the head is lost") {
    TestJob job(2);
    job.join_all();
    REQUIRE(job.all_joined());
    job.nodes[0].joined = {};
    job.nodes[0].poll();
    job.nodes[0].io = std::make_unique<asio::io_context>(1);
    CHECK_THROWS_AS(
        hold_meeting(*job.nodes[1].io, job.nodes[1].joined, sources_with(1 << 20), kChoice),
        RendezvousError);
}

TEST_CASE("an address is asked for without privileges") {
    const auto answers = [](const std::vector<RailTarget>& targets) {
        RailProbe probe(targets);
        const auto start = Clock::now();
        while (!probe.step())
            std::this_thread::sleep_for(5ms);
        CHECK(Clock::now() - start < 3s);
        return probe.answers();
    };
    CHECK(answers({{"lo", "127.0.0.1", "127.0.0.1", "this", true}}) == std::vector{Reach::reached});
    CHECK(answers({}).empty());
    // Kept for documents, so nobody has it; an interface that is not there, and what is no address.
    CHECK(answers({{"lo", "127.0.0.1", "192.0.2.1", "nobody", true}})[0] != Reach::reached);
    CHECK(answers({{"no-such-dev", "198.51.100.9", "127.0.0.1", "", true}}) ==
          std::vector{Reach::cannot_ask});
    CHECK(answers({{"lo", "127.0.0.1", "nonsense", "", true}}) == std::vector{Reach::cannot_ask});
}

}  // namespace doctor_meeting_test
