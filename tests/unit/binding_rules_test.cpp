// The rules of placement, one case a rule, on machines made up here. Rules that binding_test.cpp
// has are not repeated.

#include "binding/binding.hpp"
#include "plan/launch_plan.hpp"
#include "plan/usable_gpus.hpp"
#include "synthetic_topology.hpp"

#include <doctest/doctest.h>

#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace binding_rules_test {

using namespace autolaunch::launcher;
using testing::confine;
using testing::make_machine;
using Cpus = std::vector<int>;
using Lines = std::vector<std::string>;

namespace {

std::vector<int> all_gpus(const NodeTopology& topology) {
    std::vector<int> gpus(topology.gpus.size());
    std::iota(gpus.begin(), gpus.end(), 0);
    return gpus;
}

BindingPlan bind(const NodeTopology& topology, int ranks, BindingMode mode = BindingMode::node) {
    return bind_ranks(topology, all_gpus(topology), ranks, mode);
}

Cpus range(int first, int last) {
    Cpus cpus(static_cast<std::size_t>(last - first + 1));
    std::iota(cpus.begin(), cpus.end(), first);
    return cpus;
}

// Half a node of the machine that MI250X comes in: a NUMA node, two L3 caches, two dies.
NodeTopology mi250x(int l3_per_numa = 2) {
    auto topology = make_machine({.packages = 1,
                                  .numa_per_package = 2,
                                  .l3_per_numa = l3_per_numa,
                                  .cores_per_l3 = 4,
                                  .gpus = 4});
    for (Gpu& gpu : topology.gpus) {
        gpu.vendor = "amd";
        gpu.model = "AMD INSTINCT MI250X (MCM) OAM AC MBA";
    }
    return topology;
}

LaunchPlan plan_of(const NodeTopology& topology, const Allocation& allocation, int ranks) {
    JobSpec spec;
    spec.trainer.command = {"train"};
    Roster roster;
    roster.nodes = {{"node1", ranks}};
    return make_plan(spec, allocation, topology, roster, {}, "/");
}

std::string variable(const RankPlan& rank, const std::string& name) {
    for (const VariableChoice& choice : rank.environment)
        if (choice.name == name)
            return choice.value;
    return "not set";
}

}  // namespace

TEST_CASE("ranks beyond the GPUs are apportioned to where the GPUs are, by largest remainder") {
    auto topology = make_machine({.cores_per_l3 = 8, .threads = 1, .gpus = 4});
    const auto near_first = [&](int ranks) {
        int count = 0;
        for (const RankBinding& rank : bind(topology, ranks).ranks)
            count += rank.cpus == range(0, 7);
        return count;
    };
    CHECK(near_first(8) == 4);
    CHECK(near_first(6) == 3);  // dealt from GPU 0 on, it would be four
    topology.gpus[2].local_cpus =
        topology.gpus[0].local_cpus;  // three GPUs at node 0, one at node 1
    CHECK(near_first(8) == 6);
    CHECK(near_first(6) == 5);  // quotas 4.5 and 1.5: the first among equals
}

TEST_CASE(
    "a die of an MI250X is beside an L3 of its NUMA node, the lower PCI address beside the lower "
    "one") {
    const auto plan = bind(mi250x(), 4);
    CHECK(plan.ranks[0].cpus == Cpus{0, 1, 2, 3, 16, 17, 18, 19});
    CHECK(plan.ranks[1].cpus == Cpus{4, 5, 6, 7, 20, 21, 22, 23});
    CHECK(plan.ranks[3].cpus == Cpus{12, 13, 14, 15, 28, 29, 30, 31});
    CHECK(plan.ranks[3].memory_nodes == Cpus{1});
    CHECK(plan.ranks[3].reason ==
          "GPU 3 is on NUMA node 1 (sysfs numa_node), beside L3 3 of it: all allowed CPUs there");
    SUBCASE("whichever ranks use them, in whichever order") {
        const auto two = bind_ranks(mi250x(), {3, 0}, 2, BindingMode::exclusive);
        CHECK(two.ranks[0].cpus == plan.ranks[3].cpus);
        CHECK(two.ranks[1].cpus == plan.ranks[0].cpus);
    }
    SUBCASE("a core of each L3 is kept for the system") {
        const auto kept = bind(confine(mi250x(), {1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15}), 4);
        CHECK(kept.ranks[1].cpus == Cpus{5, 6, 7});
    }
    SUBCASE("more L3 caches than dies: the node, for PCI order does not say which") {
        CHECK(bind(mi250x(4), 4).ranks[0].cpus == bind(mi250x(4), 4).ranks[1].cpus);
    }
    SUBCASE("other GPUs: the node") {
        auto other = mi250x();
        for (Gpu& gpu : other.gpus)
            gpu.model = "AMD Instinct MI210";
        CHECK(bind(other, 4).ranks[0].cpus.size() == 16);
    }
}

TEST_CASE("MIG devices of a GPU are bound beside it, and part its cores") {
    auto topology = make_machine({.cores_per_l3 = 4, .threads = 1, .gpus = 2});
    std::vector<Gpu> devices;
    for (const Gpu& gpu : topology.gpus)
        for (const char* part : {"a", "b"}) {
            devices.push_back(gpu);
            devices.back().partition_of = gpu.uuid;
            devices.back().uuid = "MIG-" + gpu.uuid + part;
        }
    topology.gpus = devices;
    const auto exclusive = bind(topology, 4, BindingMode::exclusive);
    CHECK(exclusive.ranks[0].cpus == Cpus{0, 1});
    CHECK(exclusive.ranks[1].cpus == Cpus{2, 3});
    CHECK(exclusive.ranks[3].cpus == Cpus{6, 7});
    // A process sees one MIG device, the one that is named.
    Allocation allocation;
    allocation.node_names = {"node1"};
    const auto plan = plan_of(topology, allocation, 4);
    CHECK(variable(plan.ranks[3], "CUDA_VISIBLE_DEVICES") == devices[3].uuid);
    CHECK(variable(plan_of(make_machine({.gpus = 2}), allocation, 2).ranks[1],
                   "CUDA_VISIBLE_DEVICES") == "not set");
}

TEST_CASE(
    "a shuffled CUDA_VISIBLE_DEVICES: LOCAL_RANK i is bound near the i-th GPU that it names") {
    const auto topology = make_machine({.cores_per_l3 = 4, .threads = 1, .gpus = 4});
    Allocation allocation;
    allocation.node_names = {"node1"};
    allocation.gpus.names = Lines{"3", "GPU-0000a000", "2", "1"};
    allocation.gpus.from = "CUDA_VISIBLE_DEVICES";
    allocation.gpus.masked = true;
    const auto plan = plan_of(topology, allocation, 4);
    CHECK(plan.ranks[0].gpu->index == 3);
    CHECK(plan.ranks[0].binding.gpu == 0);
    CHECK(plan.ranks[0].binding.cpus == range(4, 7));
    CHECK(plan.ranks[1].binding.cpus == range(0, 3));
    CHECK(plan.ranks[2].binding.cpus == range(4, 7));
    CHECK(variable(plan.ranks[0], "CUDA_DEVICE_ORDER") == "PCI_BUS_ID");
}

TEST_CASE("AMD's GPUs are taken in the order of their runtime, which need not be PCI's") {
    auto topology = make_machine({.cores_per_l3 = 4, .threads = 1, .gpus = 4});
    for (Gpu& gpu : topology.gpus) {
        gpu.vendor = "amd";
        gpu.runtime_index = (gpu.index + 2) % 4;  // the third is PCI's first
    }
    Allocation allocation;
    allocation.node_names = {"node1"};
    const auto plan = plan_of(topology, allocation, 4);
    CHECK(plan.ranks[0].gpu->index == 2);
    CHECK(plan.ranks[0].binding.cpus == range(4, 7));
    CHECK(plan.ranks[2].binding.cpus == range(0, 3));
}

TEST_CASE(
    "a flattened machine: one NUMA node needs no source, several without one are not bound, with a "
    "warning") {
    auto one = make_machine({.packages = 1, .cores_per_l3 = 4, .gpus = 2});
    auto two = make_machine({.packages = 2, .cores_per_l3 = 4, .gpus = 2});
    for (auto* topology : {&one, &two})
        for (Gpu& gpu : topology->gpus) {
            gpu.numa_node.reset();
            gpu.numa_source.clear();
            gpu.local_cpus.clear();
            gpu.node_distances.clear();
        }
    CHECK(bind(one, 2, BindingMode::exclusive).ranks[1].cpus == Cpus{2, 3, 6, 7});
    CHECK(bind(one, 2).ranks[0].reason ==
          "GPU 0 is on the only NUMA node: the inherited mask is right already");
    CHECK(bind(one, 2).warnings.empty());
    for (const auto mode : {BindingMode::node, BindingMode::exclusive, BindingMode::socket,
                            BindingMode::core_complex}) {
        const auto plan = bind(two, 2, mode);
        CHECK(plan.ranks[0].cpus.empty());
        CHECK(plan.ranks[0].memory_nodes.empty());
        CHECK(plan.warnings ==
              Lines{"the NUMA node of some GPUs is unknown: their ranks are not bound"});
    }
}

TEST_CASE("two nodes inherited for one rank: bound all the same, inside them") {
    // --exclusive with --gpu-bind=closest leaves the CPUs of two nodes and no memory policy.
    const auto topology = make_machine(
        {.packages = 2, .numa_per_package = 2, .cores_per_l3 = 2, .threads = 1, .gpus = 4});
    const auto plan = bind_ranks(topology, {0}, 1, BindingMode::node, {{0, 1, 2, 3}});
    CHECK(plan.ranks[0].cpus == Cpus{0, 1});
    CHECK(plan.ranks[0].memory_nodes == Cpus{0});
}

TEST_CASE("CPUs of a NUMA node without memory: bound there, and the kernel chooses the memory") {
    auto topology = make_machine(
        {.packages = 1, .numa_per_package = 2, .cores_per_l3 = 2, .threads = 1, .gpus = 2});
    topology.numa_nodes.pop_back();
    for (NumaNode& node : topology.numa_nodes)
        node.distances.pop_back();
    topology.gpus[1].node_distances.pop_back();
    const auto plan = bind(topology, 2);
    CHECK(plan.ranks[1].cpus == Cpus{2, 3});
    CHECK(plan.ranks[1].memory_nodes.empty());
    const auto without_gpus = bind_ranks(topology, {}, 4, BindingMode::node);
    CHECK(without_gpus.ranks[3].cpus == Cpus{2, 3});  // such CPUs are a place as others
}

TEST_CASE("SMT on and off give the same cores and the same OMP_NUM_THREADS") {
    for (const int threads : {1, 2, 4}) {
        const auto plan = bind(make_machine({.cores_per_l3 = 6, .threads = threads, .gpus = 4}), 4,
                               BindingMode::exclusive);
        for (const RankBinding& rank : plan.ranks) {
            CHECK(rank.cpus.size() == static_cast<std::size_t>(3 * threads));
            CHECK(rank.physical_cores == 3);
        }
    }
}

TEST_CASE("CPUs and GPUs that no rank uses are named, with the reason") {
    auto topology = make_machine({.cores_per_l3 = 4, .threads = 1, .gpus = 4});
    CHECK(bind(topology, 4).notes.empty());
    CHECK(bind(topology, 1).notes == Lines{"4 GPUs, 1 rank: no rank is placed near GPUs 1-3",
                                           "CPUs 4-7 stay idle: they are near no rank's GPU"});
    CHECK(bind(topology, 2, BindingMode::none).notes.empty());
    topology.gpus.resize(2);  // both at node 0
    CHECK(bind(topology, 2).notes == Lines{"CPUs 4-7 stay idle: they are near no rank's GPU"});
    const auto complexes =
        make_machine({.packages = 1, .l3_per_numa = 4, .cores_per_l3 = 2, .threads = 1, .gpus = 2});
    CHECK(bind(complexes, 2, BindingMode::core_complex).notes ==
          Lines{"CPUs 2-3,6-7 stay idle: each rank has one core complex"});
    const auto uneven = confine(make_machine({.cores_per_l3 = 4, .threads = 1}), {0, 1, 2, 3, 4});
    CHECK(bind(uneven, 2).notes == Lines{"CPUs 4 stay idle: no rank falls to them"});
}

TEST_CASE(
    "a GPU whose node is not allowed and has no distances: the lowest node, and it says remote") {
    auto topology = confine(
        make_machine(
            {.packages = 1, .numa_per_package = 4, .cores_per_l3 = 1, .threads = 1, .gpus = 4}),
        {1, 2});
    topology.gpus[3].node_distances.clear();
    const auto plan = bind(topology, 4);
    CHECK(plan.ranks[3].cpus == Cpus{1});
    CHECK(plan.ranks[3].reason.find("remote") != std::string::npos);
}

}  // namespace binding_rules_test
