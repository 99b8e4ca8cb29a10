// Machine classes: tests/data/classes has a file for each, made up: a title, the facts that hold on
// such a machine, and what would be saved of it. All are planned on and counted, and the table in
// docs/placement.md is what comes out.

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "fake_system.hpp"
#include "plan/launch_plan.hpp"
#include "topology/capture.hpp"
#include "topology/path_class.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace machine_classes_test {

namespace fs = std::filesystem;
using namespace autolaunch;
using namespace autolaunch::launcher;
using testing::FakeSystem;
using Words = std::map<std::string, std::string>;

namespace {

constexpr const char* kFacts[] = {"gpu", "numa", "hca", "path", "list"};
constexpr const char* kBegin = "<!-- from here: unit.machine_classes -->\n";
constexpr const char* kEnd = "<!-- to here -->\n";

/// "rank 3 gpu 0000:17:00.0 numa 0 hca mlx5_0 path PIX"; "list =mlx5_0".
struct MachineClass {
    std::string title, capture;
    std::vector<Words> facts;
};

MachineClass parse_class(const std::string& text) {
    MachineClass parsed;
    const std::size_t rule = text.find("---\n");
    REQUIRE(rule != text.npos);
    parsed.capture = text.substr(rule + 4);
    for (const std::string& line : split(text.substr(0, rule), '\n')) {
        const std::vector<std::string> words = split(line, ' ');
        if (parsed.title.empty()) {
            parsed.title = line;
        } else if (words.size() >= 2) {
            Words facts;
            for (std::size_t i = 0; i + 1 < words.size(); i += 2)
                facts[words[i]] = words[i + 1];
            parsed.facts.push_back(facts);
        }
    }
    return parsed;
}

Words facts_of(const RankPlan& rank) {
    Words facts = {{"gpu", "-"}, {"numa", "-"}, {"hca", "-"}, {"path", "-"}};
    if (rank.gpu) {
        facts["gpu"] =
            rank.gpu->bdf.empty() ? fmt::format("GPU{}", rank.gpu->index) : rank.gpu->bdf;
        if (rank.gpu->numa_node)
            facts["numa"] = std::to_string(*rank.gpu->numa_node);
    }
    if (rank.hca) {
        std::vector<std::string> names = rank.hca->further;
        names.insert(names.begin(), rank.hca->name);
        facts["hca"] = join(names, "+");
        facts["path"] = path_class_name(rank.hca->path);
    }
    return facts;
}

std::string list_of(const LaunchPlan& plan) {
    for (const VariableChoice& variable : plan.nccl.set)
        if (variable.name == "NCCL_IB_HCA")
            return variable.value;
    return "(unset)";
}

/// Right ones and all, by fact.
using Counts = std::map<std::string, std::pair<int, int>>;

Counts count_facts(const MachineClass& machine) {
    FakeSystem folder;
    folder.file("machine", machine.capture);
    JobSpec spec;
    spec.trainer.command = {"train"};
    const auto is_rank = [](const Words& facts) { return facts.contains("rank"); };
    spec.resources.ranks_per_node =
        static_cast<int>(std::count_if(machine.facts.begin(), machine.facts.end(), is_rank));
    const LaunchPlan plan =
        plan_saved_machine(spec, read_capture(folder.root() / "machine"), "machine", {}, "/");
    Counts counts;
    for (const Words& facts : machine.facts) {
        Words seen = {{"list", list_of(plan)}};
        if (is_rank(facts))
            seen = facts_of(plan.ranks.at(std::stoul(facts.at("rank"))));
        for (const auto& [name, value] : facts) {
            if (name == "rank")
                continue;
            auto& [right, all] = counts[name];
            ++all;
            right += seen[name] == value ? 1 : 0;
            CHECK_MESSAGE(seen[name] == value, machine.title, ", ", name, " of rank ",
                          facts.contains("rank") ? facts.at("rank") : "all");
        }
    }
    return counts;
}

std::string row_of(const std::string& title, const Counts& counts) {
    std::string row = "| " + title + " |";
    for (const char* fact : kFacts) {
        const auto found = counts.find(fact);
        row += found == counts.end()
                   ? " |"
                   : fmt::format(" {}/{} |", found->second.first, found->second.second);
    }
    return row + '\n';
}

std::string make_table() {
    std::vector<fs::path> files;
    for (const auto& entry :
         fs::directory_iterator(std::string(AUTOLAUNCH_SOURCE_DIR) + "/tests/data/classes"))
        files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    std::string table =
        "| class | GPU of a rank | its NUMA node | its HCA | path | NCCL_IB_HCA |\n"
        "|---|---|---|---|---|---|\n";
    Counts sums;
    for (const fs::path& file : files) {
        const MachineClass machine = parse_class(read_file(file));
        const Counts counts = count_facts(machine);
        table += row_of(machine.title, counts);
        for (const auto& [fact, count] : counts) {
            sums[fact].first += count.first;
            sums[fact].second += count.second;
        }
    }
    return table + row_of("all", sums);
}

}  // namespace

// To renew it: AUTOLAUNCH_UPDATE_GOLDEN=1 unit_placement_tests -tc="the table of machine classes*".
TEST_CASE("the table of machine classes in docs/placement.md is what is counted") {
    const std::string path = std::string(AUTOLAUNCH_SOURCE_DIR) + "/docs/placement.md";
    const std::string document = read_file(path);
    const std::size_t begin = document.find(kBegin), end = document.find(kEnd);
    REQUIRE(begin != document.npos);
    REQUIRE(end != document.npos);
    const std::string table = make_table();
    const std::string wanted = document.substr(0, begin) + kBegin + table + document.substr(end);
    if (std::getenv("AUTOLAUNCH_UPDATE_GOLDEN") != nullptr)
        std::ofstream(path) << wanted;
    else
        CHECK(document == wanted);
}

}  // namespace machine_classes_test
