// Plans for small machines of many kinds: tests/data/plan/*/ has a machine (make_machines.py writes
// it), a sentence with what matters about it, and the plan. Set AUTOLAUNCH_UPDATE_GOLDEN=1 to write
// the plans anew, and read the difference.

#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "cli/job_options.hpp"
#include "plan/launch_plan.hpp"
#include "topology/capture.hpp"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace plan_machines_test {

namespace fs = std::filesystem;
using namespace autolaunch;
using namespace autolaunch::launcher;

namespace {

const fs::path kFolder = fs::path(AUTOLAUNCH_SOURCE_DIR) / "tests/data/plan";

/// about.txt: a sentence, then "key: value" lines. options: of `autolaunch plan`; partitions: each
/// GPU is cut into so many, which hwloc cannot tell; json: the ranks are compared as JSON too.
struct About {
    std::string sentence;
    std::map<std::string, std::string> settings;
};

About read_about(const fs::path& folder) {
    About about;
    for (const std::string& line : split(trim(read_file(folder / "about.txt")), '\n')) {
        if (about.sentence.empty()) {
            about.sentence = line;
        } else {
            const std::size_t colon = line.find(": ");
            REQUIRE_MESSAGE(colon != std::string::npos, "no setting: ", line);
            about.settings[line.substr(0, colon)] = line.substr(colon + 2);
        }
    }
    return about;
}

void cut_gpus(NodeTopology& topology, int parts) {
    std::vector<Gpu> cut;
    for (const Gpu& whole : topology.gpus)
        for (int part = 0; part < parts; ++part) {
            Gpu gpu = whole;
            gpu.partition_of = fmt::format("GPU-{:08x}", whole.index);
            gpu.uuid = fmt::format("{}-{:08x}{:04x}", whole.vendor == "nvidia" ? "MIG" : "GPU",
                                   whole.index, part);
            gpu.index = static_cast<int>(cut.size());
            cut.push_back(gpu);
        }
    topology.gpus = cut;
}

LaunchPlan plan_on(const fs::path& folder, const About& about) {
    NodeTopology topology = read_capture(folder / "machine.xml");
    std::vector<std::string> words = {"plan", "--topology", "machine.xml"};
    if (const auto options = about.settings.find("options"); options != about.settings.end())
        for (const std::string& word : split(options->second, ' '))
            words.push_back(word);
    words.insert(words.end(), {"--", "train"});
    if (const auto parts = about.settings.find("partitions"); parts != about.settings.end())
        cut_gpus(topology, std::stoi(parts->second));
    const JobRequest request = job_request(parse_command_line(words, {}), {});
    LaunchPlan plan = plan_saved_machine(request.spec, topology, "machine.xml", {}, "/home/me");
    plan.nccl.warnings.clear();  // NCCL's rules have tests of their own
    return plan;
}

// What placement decides: the environment and NCCL's variables have tests of their own.
std::string placement_of(const LaunchPlan& plan) {
    std::string text = plan_table(plan);
    const std::size_t begin = text.find("\nenvironment,");
    std::size_t end = text.find("\nwarnings\n");
    if (end == std::string::npos)
        end = text.find("\nnotes\n");
    text.erase(begin, end == std::string::npos ? end : end - begin);
    std::string kept;
    for (const std::string& line : split(text, '\n'))
        if (line.empty() || line.starts_with("  node ") || line.starts_with("  placement ") ||
            kept.find("\nranks") < kept.size())
            kept += line + '\n';
        else if (!line.starts_with("  "))
            kept += line + '\n';
    return std::string(trim(kept)) + '\n';
}

std::string ranks_as_json(const LaunchPlan& plan) {
    auto ranks = nlohmann::ordered_json::parse(plan_json(plan))["ranks"];
    for (auto& rank : ranks) {
        auto kept = nlohmann::ordered_json::array();
        for (const auto& variable : rank["environment"])
            if (variable["name"] == "OMP_NUM_THREADS" || variable["name"] == "CUDA_VISIBLE_DEVICES")
                kept.push_back(variable);
        rank["environment"] = kept;
    }
    return ranks.dump(1) + '\n';
}

void compare(const fs::path& file, const std::string& text) {
    INFO(file.string());
    if (std::getenv("AUTOLAUNCH_UPDATE_GOLDEN") != nullptr)
        write_file(file, text);
    CHECK(text == read_file(file));
}

}  // namespace

TEST_CASE("every machine has its plan") {
    int machines = 0;
    for (const auto& entry : fs::directory_iterator(kFolder)) {
        if (!entry.is_directory())
            continue;
        ++machines;
        CAPTURE(entry.path().filename().string());
        const About about = read_about(entry.path());
        CHECK(about.sentence.ends_with("."));
        const LaunchPlan plan = plan_on(entry.path(), about);
        compare(entry.path() / "plan.txt", about.sentence + "\n\n" + placement_of(plan));
        if (about.settings.contains("json"))
            compare(entry.path() / "ranks.json", ranks_as_json(plan));
    }
    CHECK(machines >= 16);
}

}  // namespace plan_machines_test
