// Binding by a list of the user's, an entry a local rank.

#include "binding/binding.hpp"
#include "synthetic_topology.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace binding_list_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using testing::confine;
using testing::make_machine;
using Cpus = std::vector<int>;
using Entries = std::vector<std::string>;

namespace {

// Node 0: CPUs 0-3 and their siblings 8-11; node 1: 4-7 and 12-15. A GPU each.
const NodeTopology kMachine = make_machine({.cores_per_l3 = 4, .gpus = 2});

BindingPlan bind(const Entries& list, int ranks, const NodeTopology& topology = kMachine,
                 const std::vector<Cpus>& inherited = {}) {
    std::vector<int> gpus;
    for (std::size_t gpu = 0; gpu < topology.gpus.size(); ++gpu)
        gpus.push_back(static_cast<int>(gpu));
    return bind_ranks(topology, gpus, ranks, BindingMode::list, inherited, list);
}

std::string refusal(const Entries& list, int ranks, const NodeTopology& topology = kMachine,
                    const std::vector<Cpus>& inherited = {}) {
    try {
        bind(list, ranks, topology, inherited);
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::invalid_argument);
        return std::string(error.what()) + " | " + error.hint();
    }
    return "no error";
}

}  // namespace

TEST_CASE("CPUs, NUMA nodes and cores, applied in order") {
    const BindingPlan plan = bind({"0-1,8-9", " numa:1 ", "core:2-3"}, 3);
    CHECK(plan.ranks[0].cpus == Cpus{0, 1, 8, 9});
    CHECK(plan.ranks[0].physical_cores == 2);
    CHECK(plan.ranks[0].memory_nodes == Cpus{0});
    CHECK(plan.ranks[0].reason == "resource_management.binding[0] says 0-1,8-9");
    CHECK(plan.ranks[1].cpus == Cpus{4, 5, 6, 7, 12, 13, 14, 15});
    CHECK(plan.ranks[2].cpus == Cpus{2, 3, 10, 11});
    CHECK(plan.warnings.empty());
    CHECK(plan.notes.empty());
    CHECK_FALSE(bind({"0", "0"}, 2).ranks[0].cpus.empty());  // two ranks may share
}

TEST_CASE("a list names what stays idle, and what is far from its GPU") {
    const BindingPlan plan = bind({"core:4", "core:1"}, 2);
    CHECK(plan.ranks[0].reason ==
          "resource_management.binding[0] says core:4; remote: GPU 0 is on NUMA node 0 (sysfs "
          "numa_node)");
    CHECK(plan.notes ==
          std::vector<std::string>{"CPUs 0,2-3,5-8,10-11,13-15 stay idle: "
                                   "resource_management.binding names them for no rank"});
}

TEST_CASE("a node with fewer ranks uses the first entries") {
    const Entries list = {"numa:0", "numa:1", "numa:0", "numa:7"};
    CHECK(bind(list, 1).ranks[0].cpus == kMachine.numa_nodes[0].cpus);
    CHECK(bind(list, 3).ranks[2].cpus == kMachine.numa_nodes[0].cpus);
}

TEST_CASE("cores are counted among those that may be used") {
    const auto topology = confine(kMachine, {2, 3, 10, 5});
    CHECK(bind({"core:0", "core:2"}, 2, topology).ranks[0].cpus == Cpus{2, 10});
    CHECK(bind({"core:0", "core:2"}, 2, topology).ranks[1].cpus == Cpus{5});
}

TEST_CASE("errors name the key, the entry and the fix") {
    CHECK(refusal({"0-3"}, 2) ==
          "resource_management.binding has 1 entry, but 2 ranks start on synthetic | give one "
          "entry a local rank, or "
          "start fewer ranks (resource_management.ranks_per_node)");
    for (const char* odd : {"", "a", "3-1", "numa:", "core:x", "0-3;", "-1", "gpu:0", "0-99999"})
        CHECK(refusal({"0", odd}, 2) ==
              "resource_management.binding[1] \"" + std::string(odd) +
                  "\" cannot be read | write CPUs (0-7,64-71), NUMA nodes (numa:1) or cores "
                  "(core:0-3)");
    CHECK(refusal({"0-20"}, 1) ==
          "resource_management.binding[0] \"0-20\": CPUs 16-20 may not be used | allowed are 0-15; "
          "name some of these, "
          "or ask the scheduler for more");
    CHECK(refusal({"numa:0-2"}, 1) ==
          "resource_management.binding[0] \"numa:0-2\": NUMA node 2 is not there, or may "
          "not be used | usable are 0-1");
    CHECK(refusal({"core:6-9"}, 1) ==
          "resource_management.binding[0] \"core:6-9\": 8 cores may be used, so there is no "
          "core 8 | count them from 0 to 7");
}

TEST_CASE("never beyond the mask of the rank's task") {
    const std::vector<Cpus> tasks = {{0, 1, 2}, {4, 5}};
    CHECK(bind({"0-1", "4"}, 2, kMachine, tasks).ranks[1].cpus == Cpus{4});
    CHECK(bind({"0-2", "4"}, 2, kMachine, tasks).ranks[0].cpus.empty());  // that is what it has
    CHECK(refusal({"0-1", "numa:1"}, 2, kMachine, tasks) ==
          "resource_management.binding[1] \"numa:1\": CPUs 6-7,12-15 may not be used by this "
          "rank's task | allowed are "
          "4-5; name some of these, or ask the scheduler for more");
}

}  // namespace binding_list_test
