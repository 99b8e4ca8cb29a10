// What holds for every plan, on hundreds of machines made up at random from a fixed seed.

#include "binding/binding.hpp"
#include "binding/hca_pairing.hpp"
#include "sanitized.hpp"
#include "synthetic_topology.hpp"
#include "topology/cpu_sets.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace binding_properties_test {

using namespace autolaunch::launcher;
using testing::confine;
using testing::make_machine;
using Cpus = std::vector<int>;

namespace {

constexpr int kMachines = autolaunch::trials(400);
const BindingMode kModes[] = {BindingMode::node, BindingMode::exclusive, BindingMode::socket,
                              BindingMode::core_complex, BindingMode::none};

class Dice {
public:
    explicit Dice(unsigned seed) : engine_(seed) {}
    int below(int bound) { return static_cast<int>(engine_() % static_cast<unsigned>(bound)); }
    bool one_in(int chances) { return below(chances) == 0; }
    template <class List>
    void shuffle(List& list) {
        for (std::size_t left = list.size(); left > 1; --left)
            std::swap(list[left - 1],
                      list[static_cast<std::size_t>(below(static_cast<int>(left)))]);
    }

private:
    std::mt19937 engine_;
};

void add_hcas(Dice& dice, NodeTopology& topology) {
    const int count = dice.below(6);
    for (int i = 0; i < count; ++i) {
        const auto node =
            static_cast<std::size_t>(dice.below(static_cast<int>(topology.numa_nodes.size())));
        Hca hca{"mlx5_" + std::to_string(i),
                fmt::format("0000:{:02x}:00.0", 0xa0 + i),
                topology.numa_nodes[node].index,
                {{1, !dice.one_in(4), "InfiniBand", dice.one_in(2) ? 200.0 : 400.0}}};
        topology.hcas.push_back(hca);
    }
}

// Odd core counts, GPUs of unknown place and at an L3 only, cpusets that cut through cores and
// nodes.
NodeTopology random_machine(Dice& dice) {
    auto topology = make_machine({.packages = 1 + dice.below(3),
                                  .numa_per_package = 1 << dice.below(3),
                                  .l3_per_numa = 1 + dice.below(3),
                                  .cores_per_l3 = 1 + dice.below(7),
                                  .threads = 1 << dice.below(3),
                                  .gpus = dice.below(10),
                                  .first_numa_index = dice.below(2),
                                  .numa_index_step = 1 + 7 * dice.below(2)});
    add_hcas(dice, topology);
    for (Gpu& gpu : topology.gpus) {
        if (dice.one_in(20)) {
            gpu.numa_node.reset();
            gpu.numa_source.clear();
            gpu.local_cpus.clear();
            gpu.node_distances.clear();
        }
        if (dice.one_in(10))
            gpu.vendor = "amd", gpu.model = "AMD INSTINCT MI250X";
    }
    if (dice.one_in(2)) {
        Cpus kept;
        for (const int cpu : topology.allowed_cpus)
            if (!dice.one_in(3))
                kept.push_back(cpu);
        if (!kept.empty())
            topology = confine(topology, kept);
    }
    return topology;
}

struct Case {
    NodeTopology topology;
    std::vector<int> gpus;
    int ranks = 1;
    std::vector<Cpus> inherited;
};

Case random_case(Dice& dice) {
    Case random{random_machine(dice), {}, 1 + dice.below(14), {}};
    random.gpus.resize(random.topology.gpus.size());
    std::iota(random.gpus.begin(), random.gpus.end(), 0);
    dice.shuffle(random.gpus);
    if (dice.one_in(3))
        random.gpus.resize(random.gpus.size() / 2);
    if (dice.one_in(4))
        for (int rank = 0; rank < random.ranks; ++rank) {
            Cpus mask;
            for (const int cpu : random.topology.allowed_cpus)
                if (dice.one_in(2))
                    mask.push_back(cpu);
            random.inherited.push_back(mask.empty() ? random.topology.allowed_cpus : mask);
        }
    return random;
}

BindingPlan bind(const Case& random, BindingMode mode) {
    return bind_ranks(random.topology, random.gpus, random.ranks, mode, random.inherited);
}

const Cpus& mask_of(const Case& random, std::size_t rank) {
    return random.inherited.empty() ? random.topology.allowed_cpus : random.inherited[rank];
}

/// What the rank runs on.
const Cpus& set_of(const Case& random, const BindingPlan& plan, std::size_t rank) {
    return plan.ranks[rank].cpus.empty() ? mask_of(random, rank) : plan.ranks[rank].cpus;
}

bool has(const std::vector<std::string>& sentences, const std::string& words) {
    return std::any_of(sentences.begin(), sentences.end(), [&](const std::string& sentence) {
        return sentence.find(words) != std::string::npos;
    });
}

void check_sets(const Case& random, const BindingPlan& plan) {
    REQUIRE(plan.ranks.size() == static_cast<std::size_t>(random.ranks));
    std::set<int> used;
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
        const Cpus& set = set_of(random, plan, rank);
        CHECK_FALSE(set.empty());
        CHECK(is_subset(set, mask_of(random, rank)));
        CHECK(std::is_sorted(set.begin(), set.end()));
        CHECK(std::adjacent_find(set.begin(), set.end()) == set.end());
        CHECK_FALSE(plan.ranks[rank].reason.empty());
        used.insert(set.begin(), set.end());
    }
    CHECK_MESSAGE(
        (used.size() == random.topology.allowed_cpus.size() || has(plan.notes, "stay idle")),
        "CPUs are idle, and nothing says why");
    CHECK((used.size() < random.topology.allowed_cpus.size() || !has(plan.notes, "stay idle")));
}

// Memory is preferred where the CPUs are, or nowhere.
void check_memory(const Case& random, const BindingPlan& plan) {
    for (const RankBinding& rank : plan.ranks) {
        Cpus expected;
        for (const NumaNode& node : random.topology.numa_nodes)
            if (random.topology.numa_nodes.size() > 1 && !intersect(node.cpus, rank.cpus).empty())
                expected.push_back(node.index);
        CHECK(rank.memory_nodes == expected);
    }
}

// Each core counts as a whole for the ranks that share it, together: no core has two OpenMP threads
// on its account.
void check_core_counts(const Case& random, const BindingPlan& plan) {
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
        double share = 0;
        for (const Core& core : random.topology.cores) {
            if (intersect(core.cpus, set_of(random, plan, rank)).empty())
                continue;
            int users = 0;
            for (std::size_t other = 0; other < plan.ranks.size(); ++other)
                users += !intersect(core.cpus, set_of(random, plan, other)).empty();
            share += 1.0 / users;
        }
        CHECK(plan.ranks[rank].physical_cores == std::max(1, static_cast<int>(share + 1e-6)));
    }
}

void check_exclusive(const Case& random, const BindingPlan& plan) {
    if (!plan.warnings.empty() || !random.inherited.empty())
        return;  // shared, or unknown: and it said so
    std::vector<int> users(random.topology.cores.size());
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank)
        for (std::size_t core = 0; core < random.topology.cores.size(); ++core) {
            const Cpus& threads = random.topology.cores[core].cpus;
            const Cpus shared = intersect(threads, set_of(random, plan, rank));
            CHECK((shared.empty() || shared == threads));
            users[core] += !shared.empty();
        }
    CHECK(std::all_of(users.begin(), users.end(), [](int count) { return count <= 1; }));
}

template <class Rename>
void rename_all(Cpus& cpus, Rename&& rename) {
    for (int& cpu : cpus)
        cpu = rename(cpu);
    std::sort(cpus.begin(), cpus.end());
}

template <class Rename>
Case renamed(Case random, Rename&& rename) {
    NodeTopology& topology = random.topology;
    rename_all(topology.allowed_cpus, rename);
    for (Core& core : topology.cores)
        for (int& cpu : core.cpus)
            cpu = rename(cpu);
    for (NumaNode& node : topology.numa_nodes)
        rename_all(node.cpus, rename);
    for (Gpu& gpu : topology.gpus)
        rename_all(gpu.local_cpus, rename);
    for (Cpus& mask : random.inherited)
        rename_all(mask, rename);
    return random;
}

// Firmware may number the threads of a core side by side, and leave gaps: the same cores go to the
// same ranks.
void check_renumbering(const Case& random, BindingMode mode) {
    std::map<int, int> new_number;
    int next = 3;
    std::vector<Core> cores =
        random.topology.cores;  // which are ordered by the first CPU that may be used
    std::sort(cores.begin(), cores.end(),
              [](const Core& a, const Core& b) { return a.cpus.front() < b.cpus.front(); });
    for (const Core& core : cores) {
        for (const int cpu : core.cpus)
            new_number[cpu] = next++;
        ++next;
    }
    const auto rename = [&](int cpu) { return new_number.at(cpu); };
    const BindingPlan plan = bind(random, mode), other = bind(renamed(random, rename), mode);
    CHECK(plan.warnings.size() == other.warnings.size());
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
        Cpus expected = plan.ranks[rank].cpus;
        rename_all(expected, rename);
        CHECK(other.ranks[rank].cpus == expected);
        CHECK(other.ranks[rank].memory_nodes == plan.ranks[rank].memory_nodes);
        CHECK(other.ranks[rank].physical_cores == plan.ranks[rank].physical_cores);
    }
}

// Readers list things in the order of their files.
void check_order(const Case& random, BindingMode mode, Dice& dice) {
    Case shuffled = random;
    NodeTopology& topology = shuffled.topology;
    dice.shuffle(topology.cores);
    dice.shuffle(topology.hcas);
    std::vector<std::size_t> order(topology.numa_nodes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    dice.shuffle(order);
    const auto reordered = [&](const auto& list) {
        auto result = list;
        for (std::size_t i = 0; i < list.size(); ++i)
            result[i] = list[order[i]];
        return result;
    };
    topology.numa_nodes = reordered(random.topology.numa_nodes);
    for (NumaNode& node : topology.numa_nodes)
        node.distances = reordered(node.distances);
    for (Gpu& gpu : topology.gpus)
        gpu.node_distances = reordered(gpu.node_distances);
    std::vector<int> places(topology.gpus.size());  // where each GPU is now
    std::iota(places.begin(), places.end(), 0);
    dice.shuffle(places);
    std::vector<Gpu> gpus = topology.gpus;
    for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu)
        topology.gpus[static_cast<std::size_t>(places[gpu])] = gpus[gpu];
    for (int& gpu : shuffled.gpus)
        gpu = places[static_cast<std::size_t>(gpu)];

    const BindingPlan plan = bind(random, mode), other = bind(shuffled, mode);
    CHECK(plan.warnings == other.warnings);
    CHECK(plan.notes == other.notes);
    std::vector<HcaSeeker> seekers, other_seekers;
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
        CHECK(other.ranks[rank].cpus == plan.ranks[rank].cpus);
        CHECK(other.ranks[rank].memory_nodes == plan.ranks[rank].memory_nodes);
        CHECK(other.ranks[rank].reason == plan.ranks[rank].reason);
        const auto position = [&](const std::vector<int>& list) {
            const auto ordinal = plan.ranks[rank].gpu;
            return ordinal ? std::optional(list[static_cast<std::size_t>(*ordinal)]) : std::nullopt;
        };
        seekers.push_back({position(random.gpus), set_of(random, plan, rank)});
        other_seekers.push_back({position(shuffled.gpus), set_of(random, plan, rank)});
    }
    const auto pairs = pair_hcas(random.topology, seekers),
               other_pairs = pair_hcas(topology, other_seekers);
    for (std::size_t rank = 0; rank < pairs.size(); ++rank) {
        REQUIRE(pairs[rank].has_value() == other_pairs[rank].has_value());
        if (!pairs[rank])
            continue;
        CHECK(random.topology.hcas[static_cast<std::size_t>(pairs[rank]->hca)].name ==
              topology.hcas[static_cast<std::size_t>(other_pairs[rank]->hca)].name);
    }
}

}  // namespace

TEST_CASE("what holds for every plan") {
    Dice dice(20240229);
    for (int machine = 0; machine < kMachines; ++machine) {
        CAPTURE(machine);
        const Case random = random_case(dice);
        for (const BindingMode mode : kModes) {
            CAPTURE(binding_mode_name(mode));
            const BindingPlan plan = bind(random, mode);
            check_sets(random, plan);
            check_memory(random, plan);
            check_core_counts(random, plan);
            if (mode == BindingMode::exclusive)
                check_exclusive(random, plan);
            check_renumbering(random, mode);
            check_order(random, mode, dice);
        }
    }
}

}  // namespace binding_properties_test
