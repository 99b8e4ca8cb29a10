// Facts of many nodes: who is the odd one, and how a person or Slurm is told.

#include "doctor/comparison.hpp"
#include "doctor/rails.hpp"
#include "doctor/verdict.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace doctor_comparison_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace std::chrono_literals;

namespace {

NodeReport node(int number) {
    NodeReport report;
    report.node = fmt::format("node{:02}", number);
    report.facts = {{"gpu.driver", "550.54"}, {"gpu.count", "8"},    {"hca.order", "mlx5_0 mlx5_1"},
                    {"kernel", "6.1.0"},      {"nccl", "2.28.9"},    {"memlock", "unlimited"},
                    {"names", "IPv4"},        {"not.compared", "x"}, {"hca.rates", "400 400"}};
    report.fine = {"memlock"};
    return report;
}

std::vector<NodeReport> nodes(int count) {
    std::vector<NodeReport> reports;
    for (int i = 1; i <= count; ++i)
        reports.push_back(node(i));
    return reports;
}

}  // namespace

TEST_CASE("nodes that are alike") {
    CHECK(compare_nodes(nodes(16)).empty());
    CHECK(compare_nodes(nodes(1)).empty());
    CHECK(compare_nodes({}).empty());
    auto reports = nodes(4);
    reports[2].facts["not.compared"] = "y";
    CHECK(compare_nodes(reports).empty());
}

TEST_CASE("the odd node is named with its value and that of the others") {
    auto reports = nodes(16);
    reports[6].facts["gpu.driver"] = "535.104";
    const auto findings = compare_nodes(reports);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].nodes == std::vector<std::string>{"node07"});
    CHECK(findings[0].finding.severity == Severity::fail);
    CHECK(findings[0].finding.what == "driver 535.104 where 15 others have 550.54");
}

TEST_CASE("odd nodes with one value are one finding, with several values several") {
    auto reports = nodes(16);
    for (const std::size_t i : {2U, 3U, 4U})
        reports[i].facts["kernel"] = "5.15.0";
    reports[9].facts["kernel"] = "6.8.0";
    const auto findings = compare_nodes(reports);
    REQUIRE(findings.size() == 2);
    CHECK(name_nodes(findings[0].nodes) == "node[03-05]");
    CHECK(findings[0].finding.what == "kernel 5.15.0 where 12 others have 6.1.0");
    CHECK(findings[1].nodes == std::vector<std::string>{"node10"});
    CHECK(findings[0].finding.severity == Severity::warn);
}

TEST_CASE("without a majority every node is named") {
    auto reports = nodes(2);
    reports[1].facts["hca.order"] = "mlx5_1 mlx5_0";
    const auto findings = compare_nodes(reports);
    REQUIRE(findings.size() == 2);
    CHECK(findings[0].finding.what == "HCA order mlx5_0 mlx5_1, and the nodes disagree");
    CHECK(findings[1].nodes == std::vector<std::string>{"node02"});
}

TEST_CASE("a node that does not know a fact is not counted") {
    auto reports = nodes(3);
    reports[0].facts.erase("gpu.driver");
    reports[2].facts["gpu.driver"] = "535.104";
    const auto findings = compare_nodes(reports);
    REQUIRE(findings.size() == 2);  // one against one
    reports[2].facts["gpu.driver"] = "550.54";
    CHECK(compare_nodes(reports).empty());
}

TEST_CASE("clocks count as far as the round trip can tell") {
    const auto reports = nodes(4);
    using Readings = std::vector<std::optional<ClockReading>>;
    CHECK(
        compare_clocks(reports, Readings{{}, ClockReading{99ms, 0us}, ClockReading{-99ms, 0us}, {}})
            .empty());
    CHECK(compare_clocks(reports, Readings{{}, ClockReading{300ms, 250ms}}).empty());
    const auto findings = compare_clocks(
        reports, Readings{{}, ClockReading{120s, 1ms}, ClockReading{-400ms, 1ms}, ClockReading{}});
    REQUIRE(findings.size() == 2);
    CHECK(findings[0].nodes == std::vector<std::string>{"node02"});
    CHECK(findings[0].finding.what == "its clock is 120 s ahead of the head's");
    CHECK(findings[1].finding.what == "its clock is 0.4 s behind of the head's");
}

TEST_CASE("thousands of nodes are compared in linear time, and named in a line") {
    auto reports = nodes(8192);
    for (std::size_t i = 0; i < reports.size(); i += 3)
        reports[i].facts["kernel"] = "5.15.0";
    reports[4000].facts["gpu.count"] = "7";
    const auto start = std::chrono::steady_clock::now();
    const auto findings = compare_nodes(reports);
    CHECK(std::chrono::steady_clock::now() - start < 5s);
    REQUIRE(findings.size() == 2);
    CHECK(findings[0].finding.what == "GPU count 7 where 8191 others have 8");
    CHECK(findings[1].nodes.size() == 2731);
    CHECK(name_nodes(findings[1].nodes) == "node01 and 2730 others");
}

TEST_CASE("one finding of many nodes is one line, worst first") {
    auto reports = nodes(4);
    for (std::size_t i = 1; i < 4; ++i)
        reports[i].findings.push_back(
            {"nofile", Severity::warn, "at most 4096 open files", "raise it"});
    reports[2].findings.push_back(
        {"memlock", Severity::fail, "8 MiB, needs unlimited", "raise it"});
    reports[0].unchecked.push_back({"xid", "the kernel's log is not readable for this user"});
    const Verdict verdict = judge(reports);
    const std::string screen = verdict_screen(verdict, {});
    CHECK(screen ==
          "✗ memlock  node03: 8 MiB, needs unlimited · fix: raise it\n"
          "! nofile  node[02-04]: at most 4096 open files · fix: raise it\n"
          "✓ 0 checks fine on 4 nodes\n"
          "? not checked: xid: the kernel's log is not readable for this user\n");
    CHECK(verdict.has(Severity::fail));
    CHECK(verdict_screen(verdict, {.colours = true}).find("\x1b[1;31m✗") != std::string::npos);
}

TEST_CASE("the line for Slurm is short, plain and one") {
    NodeReport report = node(1);
    CHECK(health_line(judge({report}), Severity::fail).empty());
    report.findings.push_back({"nofile", Severity::warn, "at most 4096 open files", "raise it"});
    CHECK(health_line(judge({report}), Severity::fail).empty());
    CHECK(health_line(judge({report}), Severity::warn) ==
          "[node_problem] nofile: at most 4096 open files");
    report.findings.push_back({"storage", Severity::fail, "/scratch \"x\" → `id`\n$(id)", "fix"});
    const std::string line = health_line(judge({report}), Severity::warn);
    CHECK(line == "[node_problem] storage: /scratch _x_ ___ _id___(id) (+1 more)");
    report.findings.back().what = std::string(4000, 'x');
    CHECK(health_line(judge({report}), Severity::warn).size() == 160);
    CHECK(health_line(judge({report}), Severity::warn).ends_with(" (+1 more)"));
}

TEST_CASE("a report goes over the wire as it is, and nonsense is refused") {
    NodeReport report = node(3);
    report.findings.push_back({"memlock", Severity::hint, "ünï\n", "fix"});
    report.idle.push_back({"ports", "no HCA"});
    report.unchecked.push_back({"xid", "no"});
    CHECK(decode_report(encode_report(report)) == report);
    for (
        const char* text :
        {"", "{", "[]", "{\"node\":1}",
         R"({"node":"a","facts":{},"findings":[["c",9,"w","f"]],"fine":[],"idle":[],"unchecked":[]})"})
        CHECK_THROWS_AS(decode_report(text), Error);
}

TEST_CASE("every compared fact is known once, and has a sentence") {
    for (const ComparedFact& fact : compared_facts()) {
        auto reports = nodes(3);
        for (NodeReport& report : reports)
            report.facts[std::string(fact.key)] = "a";
        reports[1].facts[std::string(fact.key)] = "b";
        const auto findings = compare_nodes(reports);
        REQUIRE(findings.size() == 1);
        CHECK(findings[0].finding.what == fmt::format("{}{}b where 2 others have a", fact.label,
                                                      fact.label.empty() ? "" : " "));
        CHECK(findings[0].finding.severity == fact.severity);
    }
}

TEST_CASE("rails of neighbours are asked for, rail by rail and across") {
    auto reports = nodes(3);
    for (std::size_t i = 0; i < 3; ++i) {
        const std::string host = std::to_string(i + 1);
        reports[i].facts["rails"] = rails_text(std::vector<Rail>{
            {"mlx5_0", "eth2", "10.1.0." + host}, {"mlx5_1", "eth3", "10.2.0." + host}});
    }
    const auto targets = rail_targets(reports, 2);
    REQUIRE(targets.size() == 4);
    CHECK(targets[0] == RailTarget{"eth2", "10.1.0.3", "10.1.0.1", "mlx5_0 of node01", true});
    CHECK(targets[1] == RailTarget{"eth2", "10.1.0.3", "10.2.0.1", "mlx5_1 of node01", false});
    CHECK(decode_targets(encode_targets(targets)) == targets);
    CHECK_THROWS_AS(decode_targets("[[1]]"), Error);
    CHECK(rail_targets(nodes(3), 0).empty());

    using enum Reach;
    CHECK(judge_rails(targets, std::vector{reached, reached, reached, reached}).fine ==
          std::vector<std::string>{"rails"});
    const NodeReport apart = judge_rails(targets, std::vector{reached, silent, reached, silent});
    REQUIRE(apart.findings.size() == 1);
    CHECK(apart.findings[0].severity == Severity::hint);
    CHECK(apart.findings[0].fix == "set NCCL_CROSS_NIC=0 under nccl.env");
    const NodeReport down = judge_rails(targets, std::vector{reached, reached, silent, silent});
    REQUIRE(down.findings.size() == 1);
    CHECK(down.findings[0].what == "eth3 does not reach mlx5_1 of node01 (10.2.0.1)");
    const NodeReport unasked =
        judge_rails(targets, std::vector{cannot_ask, cannot_ask, cannot_ask, cannot_ask});
    CHECK(unasked.findings.empty());
    CHECK(unasked.fine.empty());
    CHECK(unasked.unchecked.size() == 1);
}

}  // namespace doctor_comparison_test
