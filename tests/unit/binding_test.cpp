// Binding on machines made up here, and its promises on those and on saved topologies of real
// machines.

#include "binding/binding.hpp"

#include "binding/apportion.hpp"
#include "binding/exclusive.hpp"
#include "captures.hpp"
#include "synthetic_topology.hpp"
#include "topology/cpu_sets.hpp"
#include "topology/hwloc_topology.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace binding_test {

using namespace autolaunch::launcher;
using testing::confine;
using testing::make_machine;
using Cpus = std::vector<int>;

namespace {

const BindingMode kModes[] = {BindingMode::node, BindingMode::exclusive, BindingMode::socket,
                              BindingMode::core_complex, BindingMode::none};

std::vector<int> all_gpus(const NodeTopology& topology) {
    std::vector<int> gpus(topology.gpus.size());
    std::iota(gpus.begin(), gpus.end(), 0);
    return gpus;
}

Cpus range(int first, int last) {
    Cpus cpus(static_cast<std::size_t>(last - first + 1));
    std::iota(cpus.begin(), cpus.end(), first);
    return cpus;
}

Cpus plus(Cpus a, const Cpus& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

std::vector<int> core_counts(const std::vector<std::vector<Core>>& parts) {
    std::vector<int> counts;
    for (const auto& part : parts)
        counts.push_back(static_cast<int>(part.size()));
    return counts;
}

NodeTopology one_node(int l3_groups, int cores_per_l3) {
    return make_machine({.packages = 1, .l3_per_numa = l3_groups, .cores_per_l3 = cores_per_l3});
}

// What must hold whatever the machine, the ranks and the mode.
void check_promises(const NodeTopology& topology, const std::vector<int>& gpus, int ranks,
                    BindingMode mode) {
    const BindingPlan plan = bind_ranks(topology, gpus, ranks, mode);
    CAPTURE(ranks);
    CAPTURE(binding_mode_name(mode));
    REQUIRE(plan.ranks.size() == static_cast<std::size_t>(ranks));
    std::set<int> usable_nodes;
    for (const NumaNode& node : topology.numa_nodes)
        usable_nodes.insert(node.index);
    for (int i = 0; i < ranks; ++i) {
        const RankBinding& rank = plan.ranks[static_cast<std::size_t>(i)];
        CHECK(rank.local_rank == i);
        CHECK(is_subset(rank.cpus, topology.allowed_cpus));
        CHECK(rank.physical_cores >= 1);
        CHECK(rank.physical_cores <= std::max<int>(1, static_cast<int>(topology.cores.size())));
        CHECK_FALSE(rank.reason.empty());
        CHECK((rank.gpu ? *rank.gpu == i : i >= static_cast<int>(gpus.size())));
        for (const int node : rank.memory_nodes)
            CHECK(usable_nodes.contains(node));
        if (mode == BindingMode::none)
            CHECK(rank.cpus.empty());
    }
    const BindingPlan again = bind_ranks(topology, gpus, ranks, mode);
    for (int i = 0; i < ranks; ++i)
        CHECK(again.ranks[static_cast<std::size_t>(i)].cpus ==
              plan.ranks[static_cast<std::size_t>(i)].cpus);
    CHECK(again.warnings == plan.warnings);
}

// Exclusive sets do not overlap, split no core, and together are everything near the ranks.
void check_exclusive(const NodeTopology& topology, const std::vector<int>& gpus, int ranks) {
    const BindingPlan near = bind_ranks(topology, gpus, ranks, BindingMode::node);
    const BindingPlan plan = bind_ranks(topology, gpus, ranks, BindingMode::exclusive);
    if (!plan.warnings.empty())
        return;  // shared or unknown, and it said so
    CAPTURE(ranks);
    Cpus exclusive, nearby;
    for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
        const auto effective = [&](const RankBinding& rank) {
            return rank.cpus.empty() ? topology.allowed_cpus : rank.cpus;
        };
        exclusive = plus(exclusive, effective(plan.ranks[i]));
        nearby = plus(nearby, effective(near.ranks[i]));
        for (const Core& core : topology.cores) {
            const Cpus shared = intersect(core.cpus, effective(plan.ranks[i]));
            CHECK((shared.empty() || shared == core.cpus));
        }
    }
    std::sort(exclusive.begin(), exclusive.end());
    CHECK(std::adjacent_find(exclusive.begin(), exclusive.end()) == exclusive.end());
    std::sort(nearby.begin(), nearby.end());
    nearby.erase(std::unique(nearby.begin(), nearby.end()), nearby.end());
    CHECK(exclusive == nearby);
}

}  // namespace

TEST_CASE("apportion deals by largest remainder, the lower index first") {
    CHECK(apportion({1, 1}, 5) == Cpus{3, 2});
    CHECK(apportion({24, 8}, 4) == Cpus{3, 1});
    CHECK(apportion({5, 3, 2}, 3) == Cpus{1, 1, 1});  // quotas 1.5 0.9 0.6
    CHECK(apportion({0, 0}, 3) == Cpus{2, 1});
    CHECK(apportion({}, 3).empty());
}

TEST_CASE("the words of the modes") {
    for (const BindingMode mode : kModes)
        CHECK(binding_mode_from(binding_mode_name(mode)) == mode);
    CHECK_FALSE(binding_mode_from("Node"));
}

TEST_CASE("node: all allowed CPUs of the GPU's NUMA node, and its memory") {
    const auto topology = make_machine({.cores_per_l3 = 8, .gpus = 4});
    const BindingPlan plan = bind_ranks(topology, all_gpus(topology), 4, BindingMode::node);
    CHECK(plan.ranks[0].cpus == plus(range(0, 7), range(16, 23)));
    CHECK(plan.ranks[3].cpus == plus(range(8, 15), range(24, 31)));
    CHECK(plan.ranks[3].memory_nodes == Cpus{1});
    CHECK(plan.ranks[0].physical_cores == 4);  // 8 cores, two ranks
    CHECK(plan.ranks[0].reason ==
          "GPU 0 is on NUMA node 0 (sysfs numa_node): all allowed CPUs there");
    CHECK(plan.warnings.empty());
}

TEST_CASE("a saved machine that tells no CPUs: nothing is bound, and a warning") {
    NodeTopology topology = make_machine({.gpus = 2});
    topology.allowed_cpus.clear();
    topology.cores.clear();
    topology.numa_nodes.clear();
    for (Gpu& gpu : topology.gpus)
        gpu.local_cpus.clear();
    for (const BindingMode mode : kModes)
        for (const auto& gpus : {all_gpus(topology), std::vector<int>{}}) {
            const BindingPlan plan = bind_ranks(topology, gpus, 3, mode);
            REQUIRE(plan.ranks.size() == 3);
            CHECK(plan.warnings == std::vector<std::string>{
                                       "this machine's CPUs are not told: ranks are not bound"});
            CHECK(plan.ranks[1].gpu == (gpus.empty() ? std::nullopt : std::optional(1)));
            CHECK(plan.ranks[2].gpu == std::nullopt);
            for (const RankBinding& rank : plan.ranks) {
                CHECK(rank.cpus.empty());
                CHECK(rank.physical_cores == 0);
            }
        }
}

TEST_CASE("one NUMA node: the inherited mask is left alone") {
    const auto topology = make_machine({.packages = 1, .cores_per_l3 = 8, .gpus = 2});
    const BindingPlan plan = bind_ranks(topology, all_gpus(topology), 2, BindingMode::node);
    CHECK(plan.ranks[0].cpus.empty());
    CHECK(plan.ranks[0].memory_nodes.empty());
    CHECK(plan.ranks[0].physical_cores == 4);
    CHECK(plan.ranks[0].reason.ends_with("the inherited mask is right already"));
}

TEST_CASE("exclusive: whole cores with their siblings, the remainder to the lowest") {
    const auto topology = make_machine({.packages = 1, .cores_per_l3 = 8, .gpus = 3});
    const BindingPlan plan = bind_ranks(topology, all_gpus(topology), 3, BindingMode::exclusive);
    CHECK(plan.ranks[0].cpus == Cpus{0, 1, 2, 8, 9, 10});
    CHECK(plan.ranks[1].cpus == Cpus{3, 4, 5, 11, 12, 13});
    CHECK(plan.ranks[2].cpus == Cpus{6, 7, 14, 15});
    CHECK(plan.ranks[2].physical_cores == 2);
}

TEST_CASE("exclusive cuts on L3 boundaries unless that would be unfair") {
    CHECK(core_counts(split_cores(one_node(12, 8).cores, 4)) == Cpus{24, 24, 24, 24});
    CHECK(core_counts(split_cores(one_node(12, 8).cores, 5)) ==
          Cpus{24, 24, 16, 16, 16});  // whole L3s
    CHECK(core_counts(split_cores(one_node(3, 8).cores, 6)) ==
          Cpus{4, 4, 4, 4, 4, 4});  // two ranks an L3
    CHECK(core_counts(split_cores(one_node(3, 4).cores, 2)) ==
          Cpus{6, 6});  // 8 and 4 would be unfair
    CHECK(core_counts(split_cores(one_node(2, 8).cores, 3)) == Cpus{6, 5, 5});
    CHECK(core_counts(split_cores(one_node(1, 18).cores, 2)) == Cpus{9, 9});
}

TEST_CASE(
    "exclusive gives ranks of one locality their parts in PCI order, whatever order they see") {
    const auto topology = make_machine({.packages = 1, .cores_per_l3 = 4, .threads = 1, .gpus = 2});
    const BindingPlan plan = bind_ranks(topology, {1, 0}, 2, BindingMode::exclusive);
    CHECK(plan.ranks[0].cpus == Cpus{2, 3});  // the GPU with the higher PCI address
    CHECK(plan.ranks[1].cpus == Cpus{0, 1});
}

TEST_CASE("below one core a rank they share, and are told so") {
    const auto topology = make_machine({.packages = 2, .cores_per_l3 = 1, .gpus = 4});
    const BindingPlan plan = bind_ranks(topology, all_gpus(topology), 4, BindingMode::exclusive);
    CHECK(plan.ranks[0].cpus == Cpus{0, 2});
    CHECK(plan.ranks[1].cpus == Cpus{0, 2});
    CHECK(plan.ranks[0].physical_cores == 1);
    CHECK(plan.warnings.size() == 2);  // one a socket
}

TEST_CASE("socket and core-complex") {
    const auto topology = make_machine({.packages = 2,
                                        .numa_per_package = 2,
                                        .l3_per_numa = 2,
                                        .cores_per_l3 = 2,
                                        .threads = 1,
                                        .gpus = 8});
    const BindingPlan socket = bind_ranks(topology, all_gpus(topology), 8, BindingMode::socket);
    CHECK(socket.ranks[0].cpus == range(0, 7));
    CHECK(socket.ranks[7].cpus == range(8, 15));
    CHECK(socket.ranks[7].memory_nodes == Cpus{2, 3});
    const BindingPlan complex =
        bind_ranks(topology, all_gpus(topology), 8, BindingMode::core_complex);
    CHECK(complex.ranks[0].cpus == Cpus{0, 1});
    CHECK(complex.ranks[1].cpus == Cpus{2, 3});
    CHECK(complex.ranks[2].cpus == Cpus{4, 5});
}

TEST_CASE("without GPUs ranks are dealt over the NUMA nodes by their cores") {
    const auto topology = make_machine({.cores_per_l3 = 4, .threads = 1});
    const auto nodes_of = [](const NodeTopology& machine, int ranks) {
        Cpus nodes;
        for (const RankBinding& rank : bind_ranks(machine, {}, ranks, BindingMode::node).ranks)
            nodes.push_back(rank.memory_nodes.empty() ? -1 : rank.memory_nodes.front());
        return nodes;
    };
    CHECK(nodes_of(topology, 4) == Cpus{0, 0, 1, 1});
    CHECK(nodes_of(topology, 3) == Cpus{0, 0, 1});
    CHECK(nodes_of(topology, 1) == Cpus{-1});  // one rank keeps the whole machine
    CHECK(nodes_of(confine(topology, {0, 1, 2, 3, 4}), 5) == Cpus{0, 0, 0, 0, 1});
}

TEST_CASE("ranks beyond the GPUs are placed round them and get none of their own") {
    const auto topology = make_machine({.cores_per_l3 = 4, .gpus = 2});
    const BindingPlan plan = bind_ranks(topology, all_gpus(topology), 4, BindingMode::node);
    CHECK(plan.ranks[1].gpu == 1);
    CHECK_FALSE(plan.ranks[2].gpu);
    CHECK(plan.ranks[2].cpus == plan.ranks[0].cpus);
    CHECK(plan.ranks[3].reason.starts_with("no GPU of its own (4 ranks, 2 GPUs)"));
}

TEST_CASE("a GPU none of whose CPUs is allowed: the nearest node, and a warning") {
    auto machine = make_machine(
        {.packages = 2, .numa_per_package = 2, .cores_per_l3 = 2, .threads = 1, .gpus = 4});
    const auto topology = confine(machine, {0, 1, 4, 5});  // NUMA nodes 0 and 2 of 0..3
    const BindingPlan plan = bind_ranks(topology, all_gpus(topology), 4, BindingMode::node);
    CHECK(plan.ranks[1].cpus == Cpus{0, 1});
    CHECK(plan.ranks[3].cpus == Cpus{4, 5});  // in the same socket
    REQUIRE(plan.warnings.size() == 2);
    CHECK(plan.warnings[1] ==
          "GPU 3 is remote: none of the CPUs of NUMA node 3 is allowed; its rank runs on NUMA node "
          "2");
}

TEST_CASE("a GPU of unknown place is bound nowhere on a machine with several NUMA nodes") {
    auto topology = make_machine({.cores_per_l3 = 4, .gpus = 2});
    topology.gpus[1].numa_node.reset();
    topology.gpus[1].local_cpus.clear();
    const BindingPlan plan = bind_ranks(topology, all_gpus(topology), 2, BindingMode::exclusive);
    CHECK_FALSE(plan.ranks[0].cpus.empty());
    CHECK(plan.ranks[1].cpus.empty());
    CHECK(plan.ranks[1].reason == "no source says which NUMA node GPU 1 is on: not bound");
    CHECK(plan.warnings == std::vector<std::string>{
                               "the NUMA node of some GPUs is unknown: their ranks are not bound"});
}

TEST_CASE("exclusive says so when the places of GPUs overlap without being the same") {
    auto topology = make_machine({.cores_per_l3 = 4, .threads = 1, .gpus = 4});
    topology.gpus[0].local_cpus = {0, 1};  // an L3; GPU 1 names the whole node 0
    const BindingPlan plan = bind_ranks(topology, all_gpus(topology), 4, BindingMode::exclusive);
    CHECK(plan.ranks[0].cpus == Cpus{0, 1});
    CHECK(plan.warnings.size() == 1);
}

TEST_CASE("a mask cut down inside a core is not widened to the core") {
    const auto topology =
        confine(make_machine({.cores_per_l3 = 4, .gpus = 2}), {0, 1, 9, 4, 12, 13});
    const BindingPlan plan = bind_ranks(topology, all_gpus(topology), 2, BindingMode::exclusive);
    CHECK(plan.ranks[0].cpus == Cpus{0, 1, 9});
    CHECK(plan.ranks[1].cpus == Cpus{4, 12, 13});
}

TEST_CASE("a rank whose task has CPUs of its own gets none beyond them") {
    const auto topology =
        make_machine({.cores_per_l3 = 4, .gpus = 2});  // node 0: 0-3 8-11, node 1: 4-7 12-15
    const auto bind = [&](const std::vector<Cpus>& inherited) {
        return bind_ranks(topology, all_gpus(topology), 2, BindingMode::node, inherited);
    };
    SUBCASE("near its GPU: left alone") {
        const BindingPlan plan = bind({{0, 1, 8, 9}, {4, 5, 12, 13}});
        CHECK(plan.ranks[0].cpus.empty());
        CHECK(plan.ranks[0].physical_cores == 2);
        CHECK(plan.ranks[0].reason.ends_with("the inherited mask is its task's own"));
        CHECK(plan.warnings.empty());
    }
    SUBCASE("near and far: the near ones") {
        const BindingPlan plan = bind({{0, 1, 2, 4}, {4, 5, 6, 7}});
        CHECK(plan.ranks[0].cpus == Cpus{0, 1, 2});
        CHECK(plan.ranks[0].memory_nodes == Cpus{0});
        CHECK(plan.ranks[1].cpus.empty());
    }
    SUBCASE("far from it: left alone, and a warning") {
        const BindingPlan plan = bind({{4, 5}, {0, 1}});
        CHECK(plan.ranks[0].cpus.empty());
        REQUIRE(plan.warnings.size() == 2);
        CHECK(plan.warnings[0].starts_with(
            "rank 0 of this node runs on CPUs 4-5, to which its task is confined"));
    }
    SUBCASE("mode none") {
        const BindingPlan plan = bind_ranks(topology, all_gpus(topology), 2, BindingMode::none,
                                            {{0, 1, 8, 9}, {4, 5, 6, 7}});
        CHECK(plan.ranks[0].cpus.empty());
        CHECK(plan.ranks[0].physical_cores == 2);
        CHECK(plan.ranks[1].physical_cores == 4);
    }
}

TEST_CASE("promises on random machines and masks") {
    std::mt19937 random(20240229);
    const auto below = [&](int bound) {
        return static_cast<int>(random() % static_cast<unsigned>(bound));
    };
    for (int round = 0; round < 150; ++round) {
        CAPTURE(round);
        auto topology = make_machine({.packages = 1 + below(2),
                                      .numa_per_package = 1 << below(3),
                                      .l3_per_numa = 1 + below(3),
                                      .cores_per_l3 = 1 + below(6),
                                      .threads = 1 + below(2),
                                      .gpus = below(9)});
        if (below(2) == 0) {
            Cpus kept;
            for (const int cpu : topology.allowed_cpus)
                if (below(3) > 0)
                    kept.push_back(cpu);
            if (!kept.empty())
                topology = confine(topology, kept);
        }
        const int ranks = 1 + below(12);
        for (const BindingMode mode : kModes)
            check_promises(topology, all_gpus(topology), ranks, mode);
        check_exclusive(topology, all_gpus(topology), ranks);
    }
}

TEST_CASE("promises on saved topologies of real machines") {
    const auto folder = testing::captures_folder("binding on real machines");
    if (!folder)
        return;
    for (const auto& entry : std::filesystem::directory_iterator(*folder / "hwloc-xml")) {
        if (entry.path().extension() != ".xml")
            continue;
        INFO(entry.path().filename().string());
        const NodeTopology topology = read_hwloc_topology(entry.path());
        const auto gpus = all_gpus(topology);
        for (const int ranks : {1, 2, std::max(1, static_cast<int>(gpus.size())), 24}) {
            for (const BindingMode mode : kModes)
                check_promises(topology, gpus, ranks, mode);
            check_exclusive(topology, gpus, ranks);
        }
    }
}

TEST_CASE("saved topologies: exclusive shares known from their machines") {
    const auto folder = testing::captures_folder("exclusive cores on real machines");
    if (!folder)
        return;
    const auto cores_each = [&](const char* name, int ranks) {
        const NodeTopology topology =
            read_hwloc_topology(*folder / "hwloc-xml" / (std::string(name) + ".xml"));
        std::set<int> counts;
        for (const auto& rank :
             bind_ranks(topology, all_gpus(topology), ranks, BindingMode::exclusive).ranks)
            counts.insert(rank.physical_cores);
        return counts;
    };
    CHECK(cores_each("mpibind-cts1-pascal", 2) == std::set<int>{9});  // both GPUs on socket 0
    CHECK(cores_each("flux-core-tuo.SPX", 4) == std::set<int>{24});   // one APU a rank
    CHECK(cores_each("mpibind-coral-lassen", 4) ==
          std::set<int>{10});  // 20 cores a socket, two GPUs
}

}  // namespace binding_test
