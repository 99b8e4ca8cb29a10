// Which GPUs a grant means, in which order, and which mask the ranks need: every way that CUDA,
// ROCm and Slurm name them.

#include "plan/usable_gpus.hpp"
#include "allocation/roster.hpp"
#include "plan/launch_plan.hpp"
#include "synthetic_topology.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string>
#include <vector>

namespace usable_gpus_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using Names = std::vector<std::string>;
using Positions = std::vector<int>;

namespace {

Allocation grant(const Names& names, const std::string& from = "CUDA_VISIBLE_DEVICES") {
    Allocation allocation;
    allocation.node_names = {"node1"};
    allocation.gpus.names = names;
    allocation.gpus.from = from;
    allocation.gpus.masked = !from.starts_with("SLURM_");
    allocation.rocm_gpus = allocation.gpus;
    return allocation;
}

UsableGpus choose(const NodeTopology& topology, const Allocation& allocation) {
    return choose_usable_gpus(topology, allocation, {});
}

/// Three GPUs: the second is cut into two MIG devices, the third into one.
NodeTopology make_mig_machine() {
    NodeTopology topology = testing::make_machine({.gpus = 3});
    const Gpu second = topology.gpus[1], third = topology.gpus[2];
    topology.gpus.resize(1);
    for (const auto& [gpu, uuid] : {std::pair{second, "MIG-1aaa"}, std::pair{second, "MIG-1bbb"},
                                    std::pair{third, "MIG-2ccc"}}) {
        Gpu part = gpu;
        part.partition_of = gpu.uuid;
        part.uuid = uuid;
        part.index = static_cast<int>(topology.gpus.size());
        topology.gpus.push_back(part);
    }
    return topology;
}

/// ROCm counts the four GPUs from the last PCI address to the first.
NodeTopology make_amd_machine() {
    NodeTopology topology = testing::make_machine({.gpus = 4});
    for (Gpu& gpu : topology.gpus) {
        gpu.vendor = "amd";
        gpu.runtime_index = 3 - gpu.index;
    }
    return topology;
}

const NodeTopology kPlain = testing::make_machine({.gpus = 4});
const NodeTopology kMig = make_mig_machine();
const NodeTopology kAmd = make_amd_machine();

}  // namespace

TEST_CASE("what the caller's own variable hides is named") {
    const NodeTopology topology = testing::make_machine({.gpus = 4});
    const UsableGpus some = choose(topology, grant({"0", "2"}));
    REQUIRE(some.notes.size() == 1);
    CHECK(some.notes[0] == "CUDA_VISIBLE_DEVICES shows 2 of 4 GPUs, and hides " +
                               topology.gpus[1].bdf + ", " + topology.gpus[3].bdf);
    CHECK(choose(topology, grant({"0", "1", "2", "3"})).notes.empty());
    CHECK(choose(topology, grant({"0"}, "SLURM_STEP_GPUS")).notes.empty());  // no surprise
}

TEST_CASE("numbers, UUIDs and beginnings of UUIDs, in the order of the grant") {
    CHECK(choose(kPlain, grant({"3", "0", "2"})).positions == Positions{3, 0, 2});
    CHECK(choose(kPlain, grant({"GPU-0000a002", "GPU-0000a000"})).positions == Positions{2, 0});
    CHECK(choose(kPlain, grant({"GPU-0000a002", "1"})).positions == Positions{2, 1});
    CHECK(choose(kPlain, grant({"1", "GPU-0000a001"})).positions ==
          Positions{1});  // the same one twice
    NodeTopology two = kPlain;
    two.gpus[1].uuid = "GPU-b1";
    CHECK(choose(two, grant({"GPU-b"})).positions == Positions{1});
    CHECK(choose(two, grant({"GPU-b1"})).mask.empty());
}

TEST_CASE("a beginning that is several GPUs' names none, and ends the list, as in CUDA") {
    const UsableGpus usable = choose(kPlain, grant({"1", "GPU-0000a00", "2"}));
    CHECK(usable.positions == Positions{1});
    REQUIRE(usable.warnings.size() == 1);
    CHECK(
        usable.warnings[0] ==
        "CUDA_VISIBLE_DEVICES names GPU GPU-0000a00, but this machine shows 4 GPUs: left out, with "
        "all that are named after it");
    CHECK(choose(kPlain, grant({"-1", "99", "GPU-ffff"})).positions.empty());
}

TEST_CASE("GPUs that may not be opened: CUDA does not count them, Slurm does") {
    NodeTopology shared = kPlain;  // a device cgroup leaves us the last two
    shared.gpus[0].can_open = shared.gpus[1].can_open = false;
    Allocation none;
    none.node_names = {"node1"};
    CHECK(choose(shared, none).positions == Positions{2, 3});
    CHECK(choose(shared, none).warnings ==
          Names{"2 of 4 GPUs may not be opened here and are left out: see the permissions of their "
                "files in /dev and "
                "the device cgroup"});
    CHECK(choose(shared, grant({"0", "1"})).positions == Positions{2, 3});
    CHECK(choose(shared, grant({"1"})).positions == Positions{3});
    CHECK(choose(shared, grant({"GPU-0000a002"})).positions == Positions{2});
    CHECK(choose(shared, grant({"2"})).positions.empty());

    const UsableGpus of_slurm = choose(shared, grant({"2", "3"}, "SLURM_STEP_GPUS"));
    CHECK(of_slurm.positions == Positions{2, 3});
    CHECK(of_slurm.warnings.empty());
    CHECK(of_slurm.mask.empty());  // nothing needs to be hidden
    const UsableGpus wrong = choose(shared, grant({"1", "2"}, "SLURM_STEP_GPUS"));
    CHECK(wrong.positions == Positions{2});
    CHECK(wrong.warnings ==
          Names{"SLURM_STEP_GPUS names GPU 1, which may not be opened here: left out"});

    Allocation masked =
        grant({"3", "2"});  // a mask that was brought to Slurm's numbers, and one that was not
    masked.source = "slurm";
    CHECK(choose(shared, masked).positions == Positions{3, 2});
    masked.gpus.names = {"1", "0"};
    CHECK(choose(shared, masked).positions == Positions{3, 2});

    for (Gpu& gpu : shared.gpus)
        gpu.can_open = false;
    CHECK(choose(shared, none).positions.empty());
    shared = kMig;
    shared.gpus[1].can_open = shared.gpus[2].can_open = false;  // both parts of the second
    CHECK(choose(shared, none).positions == Positions{0, 3});
    CHECK(choose(shared, grant({"1"})).positions == Positions{3});
}

TEST_CASE("MIG devices by UUID, by their GPU's number and by its UUID") {
    CHECK(choose(kMig, grant({"MIG-2ccc", "MIG-1aaa"})).positions == Positions{3, 1});
    CHECK(choose(kMig, grant({"MIG-2"})).positions == Positions{3});
    CHECK(choose(kMig, grant({"MIG-1"})).positions.empty());  // two of them begin so
    CHECK(choose(kMig, grant({"1"})).positions == Positions{1, 2});
    CHECK(choose(kMig, grant({"2", "0"})).positions == Positions{3, 0});
    CHECK(choose(kMig, grant({"3"})).positions.empty());
    CHECK(choose(kMig, grant({"GPU-0000a001"})).positions == Positions{1, 2});
    CHECK(choose(kMig, grant({"3"}, "SLURM_STEP_GPUS")).positions ==
          Positions{3});  // Slurm counts parts
}

TEST_CASE("each rank on MIG devices is shown its own alone") {
    Allocation all;
    all.node_names = {"node1"};
    const UsableGpus usable = choose(kMig, all);
    CHECK(usable.positions == Positions{0, 1, 2, 3});
    CHECK(usable.mask_each);
    CHECK(usable.mask.empty());
    REQUIRE(usable.warnings.size() == 1);
    CHECK_FALSE(choose(kMig, grant({"0"})).mask_each);

    JobSpec spec;
    spec.trainer.command = {"train"};
    const Allocation allocation = grant({"MIG-2ccc", "MIG-1aaa"});
    const std::map<std::string, std::string> inherited = {
        {"CUDA_VISIBLE_DEVICES", "MIG-2ccc,MIG-1aaa"}};
    const LaunchPlan plan =
        make_plan(spec, allocation, kMig, assume_alike(allocation, 2, "20260102-030405"), inherited,
                  "/home/me");
    REQUIRE(plan.ranks.size() == 2);
    for (const RankPlan& rank : plan.ranks) {
        REQUIRE(rank.gpu);
        std::string mask;
        for (const VariableChoice& choice : rank.environment)
            if (choice.name == "CUDA_VISIBLE_DEVICES")
                mask = choice.value;
        CHECK(mask == rank.gpu->uuid);
    }
    CHECK(plan.ranks[0].gpu->uuid == "MIG-2ccc");
}

TEST_CASE("AMD GPUs are counted as ROCm counts them, and masked with its variable") {
    Allocation all;
    all.node_names = {"node1"};
    CHECK(choose(kAmd, all).positions == Positions{3, 2, 1, 0});
    CHECK(choose(kAmd, grant({"0", "2"}, "ROCR_VISIBLE_DEVICES")).positions == Positions{3, 1});
    CHECK(choose(kAmd, grant({"0"}, "ROCR_VISIBLE_DEVICES")).mask.empty());

    const UsableGpus by_slurm = choose(kAmd, grant({"1", "2"}, "SLURM_STEP_GPUS"));
    CHECK(by_slurm.positions == Positions{2, 1});
    CHECK(by_slurm.mask_variable == "ROCR_VISIBLE_DEVICES");
    CHECK(by_slurm.mask == "GPU-0000a002,GPU-0000a001");

    NodeTopology parts = kAmd;  // of drivers that give all parts the GPU's UUID
    for (Gpu& gpu : parts.gpus)
        gpu.uuid.clear();
    for (Gpu& gpu : parts.gpus)
        gpu.partition_of = "GPU-00aa";
    CHECK(choose(parts, grant({"1", "2"}, "SLURM_STEP_GPUS")).mask == "1,2");
    CHECK(choose(parts, grant({"2"}, "HIP_VISIBLE_DEVICES")).positions == Positions{1});
    CHECK_FALSE(choose(parts, all).mask_each);
}

// Each row was read out of ROCr's and HIP's sources: ROCr numbers GPUs in KFD's order, HIP what
// ROCr leaves it.
TEST_CASE("AMD: ROCR_, HIP_ and CUDA_VISIBLE_DEVICES beside each other") {
    struct Row {
        std::map<std::string, std::string> environment;
        Positions positions;  // number n is position 3 - n here
        std::size_t warnings;
    };
    const char *rocr = "ROCR_VISIBLE_DEVICES", *hip = "HIP_VISIBLE_DEVICES",
               *cuda = "CUDA_VISIBLE_DEVICES";
    const Row rows[] = {
        {{{cuda, "0,1"}}, {3, 2}, 0},
        {{{hip, "1"}, {cuda, "0"}}, {2}, 1},  // HIP's own goes before CUDA's
        {{{hip, "1"}, {cuda, "1"}}, {2}, 0},
        {{{hip, ""}, {cuda, "0"}}, {}, 1},  // set, and shows none
        {{{rocr, "2,0"}, {hip, "1,0"}}, {3, 1}, 0},
        {{{rocr, "2,0"}, {cuda, "1"}}, {3}, 0},
        {{{rocr, "2,3"}, {cuda, "2,3"}}, {}, 1},       // as Slurm sets them: HIP sees none
        {{{rocr, "2,3"}, {cuda, "1,2,0"}}, {0}, 1},    // the list ends at what is not there
        {{{rocr, "2,3"}, {hip, "0,0,1"}}, {1, 0}, 0},  // named again: passed over by HIP
        {{{rocr, "2,2,3"}}, {1}, 0},                   // and the end of the list to ROCr
        {{{rocr, "GPU-0000a002"}, {hip, "GPU-0000a001"}}, {}, 1},
        {{{rocr, "GPU-0000a002,0"}, {hip, "0,GPU-0000a000"}}, {2, 0}, 1},
        {{{rocr, ""}, {hip, "0"}}, {}, 1},
        {{{rocr, "0,9,1"}}, {3}, 1},
    };
    for (const Row& row : rows) {
        CAPTURE(doctest::String(fmt::format("{}", fmt::join(row.environment, " ")).c_str()));
        const UsableGpus usable = choose(kAmd, read_allocation(row.environment, "node1"));
        CHECK(usable.positions == row.positions);
        CHECK(usable.warnings.size() == row.warnings);
    }
    const auto both = read_allocation({{rocr, "2,3"}, {cuda, "2,3"}}, "node1");
    CHECK(choose(kAmd, both).warnings ==
          Names{"CUDA_VISIBLE_DEVICES=2,3 counts, from 0, the 2 GPUs of ROCR_VISIBLE_DEVICES=2,3: "
                "2 is not there, and HIP's list ends with it; unset CUDA_VISIBLE_DEVICES (in "
                "Slurm: gres.conf's Flags=amd_gpu_env sets ROCR_VISIBLE_DEVICES alone)"});
    CHECK(choose(kPlain, both).positions == Positions{2, 3});  // NVIDIA's: ROCm's are not read
    CHECK(choose(kPlain, both).warnings.empty());
    CHECK(choose(kPlain, read_allocation({{rocr, "1"}, {hip, "0"}}, "node1")).positions ==
          Positions{0, 1, 2, 3});
}

TEST_CASE("the mask of an AMD machine reaches the ranks") {
    JobSpec spec;
    spec.trainer.command = {"train"};
    const Allocation allocation = grant({"1", "2"}, "SLURM_STEP_GPUS");
    const LaunchPlan plan = make_plan(
        spec, allocation, kAmd, assume_alike(allocation, 2, "20260102-030405"), {}, "/home/me");
    std::map<std::string, std::string> environment;
    for (const VariableChoice& choice : plan.ranks.at(0).environment)
        environment[choice.name] = choice.value;
    CHECK(environment["ROCR_VISIBLE_DEVICES"] == "GPU-0000a002,GPU-0000a001");
    CHECK_FALSE(environment.contains("CUDA_VISIBLE_DEVICES"));
}

}  // namespace usable_gpus_test
