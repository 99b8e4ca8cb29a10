// How Slurm's environments are read, on captures of real tasks (Slurm 22.05, four nodes).

#include "captured_environment.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace allocation_slurm_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace autolaunch::launcher::testing;
using Names = std::vector<std::string>;

namespace {

const Names kAllFour = {"node1", "node2", "node3", "node4"};

Allocation read(const std::string& name) { return read_allocation(captured(name), "no-such-host"); }

}  // namespace

TEST_CASE("one task a node") {
    const Allocation allocation = read("slurm-one-task-a-node");
    CHECK(allocation.source == "slurm");
    CHECK(allocation.node_names == kAllFour);
    CHECK(allocation.node_rank == 3);
    CHECK(allocation.job_id == "1.0");
    CHECK(allocation.tasks_on_node == 1);
    CHECK(allocation.local_task == 0);
    CHECK(allocation.on_every_node);
    CHECK(allocation.head_address.empty());
    CHECK(allocation.topology_address.empty());  // "node4", pattern "node": no switch
    CHECK_FALSE(allocation.keeps_node_order);
    CHECK_FALSE(allocation.gpus.names);
}

TEST_CASE("one task a GPU") {
    const Allocation allocation = read("slurm-one-task-a-gpu");
    CHECK(allocation.node_rank == 1);
    CHECK(allocation.tasks_on_node == 8);
    CHECK(allocation.local_task == 5);
    CHECK(allocation.gpus.names->size() == 8);
    CHECK(allocation.gpus.from == "SLURM_STEP_GPUS");
}

TEST_CASE("uneven nodes and other distributions") {
    const Allocation uneven = read("slurm-uneven");  // 4,1
    CHECK(uneven.node_rank == 1);
    CHECK(uneven.tasks_on_node == 1);
    const Allocation cyclic = read("slurm-cyclic");
    CHECK(cyclic.node_rank == 0);
    CHECK(cyclic.tasks_on_node == 4);
    CHECK(cyclic.local_task == 3);
    const Allocation arbitrary = read("slurm-arbitrary");
    CHECK(arbitrary.node_names == Names{"node2", "node3"});
    CHECK(arbitrary.node_rank == 1);
    CHECK(arbitrary.tasks_on_node == 1);
}

TEST_CASE("a batch script and its steps") {
    const Allocation script = read("slurm-batch-script");
    CHECK(script.node_names == kAllFour);
    CHECK(script.job_id == "6");
    CHECK(script.tasks_on_node == 1);
    CHECK_FALSE(script.on_every_node);
    CHECK(script.gpus.names == Names{"0", "1", "2", "3"});
    CHECK(error_of([&] { check_runs_on_every_node(script); }) ==
          "the job has 4 nodes, but only this one, node1, runs autolaunch: this is its batch "
          "script or a shell (start "
          "with `srun autolaunch …`, or use this node alone with --standalone)");
    const Allocation step = read("slurm-batch-step");
    CHECK(step.node_rank == 2);
    CHECK(step.job_id == "6.0");
    CHECK(step.tasks_on_node == 2);
    CHECK(step.local_task == 1);
    CHECK(step.on_every_node);
    CHECK(step.gpus.from == "SLURM_STEP_GPUS");
}

TEST_CASE("steps side by side in one job") {
    const Allocation exclusive = read("slurm-exclusive");
    CHECK(exclusive.node_names == Names{"node3", "node4"});
    CHECK(exclusive.node_rank == 1);
    CHECK(exclusive.job_id == "6.2");
    CHECK(exclusive.tasks_on_node == 1);
    CHECK(exclusive.gpus.names == Names{"0", "1"});
    const Allocation overlap = read("slurm-overlap");
    CHECK(overlap.node_names == Names{"node1", "node2"});
    CHECK(overlap.job_id == "6.1");
}

TEST_CASE("a step without GPUs in a job that has some") {
    const Allocation allocation = read("slurm-step-without-gpus");
    REQUIRE(allocation.gpus.names);
    CHECK(allocation.gpus.names->empty());
    const auto asked_for_one =
        with(captured("slurm-step-without-gpus"), {{"CUDA_VISIBLE_DEVICES", "2"}});
    CHECK(read_allocation(asked_for_one, "x").gpus.names == Names{"2"});
}

TEST_CASE("arrays: each element has a job id of its own") {
    const Allocation last = read("slurm-array");  // the last element keeps the array's id
    CHECK(last.job_id == "7.0");
    CHECK(last.node_rank == 1);
    const Allocation other = read("slurm-array-script");
    CHECK(other.job_id == "8");
    CHECK_FALSE(other.on_every_node);
}

TEST_CASE("a requeued job") {
    const Allocation allocation = read("slurm-requeued");
    CHECK(allocation.restart_count == 1);
    CHECK(allocation.node_names == Names{"node1", "node2"});
}

TEST_CASE("salloc") {
    CHECK(error_of([] { read_allocation(captured("slurm-salloc"), "login1"); }) ==
          "this machine, login1, is not one of the job's nodes (SLURM_JOB_NODELIST=node[1-2]) "
          "(start with `srun "
          "autolaunch …`; to ignore the job, say --standalone)");
    CHECK(read_allocation(captured("slurm-salloc"), "login1", {.standalone = true}).node_names ==
          Names{"login1"});
    const Allocation interactive =
        read("slurm-interactive");  // its "step" is on one node, the job on two
    CHECK(interactive.node_names == Names{"node1", "node2"});
    CHECK(interactive.job_id == "10");
    CHECK_FALSE(interactive.on_every_node);
}

TEST_CASE("heterogeneous jobs: a component's step sees its own nodes") {
    const Allocation script = read("slurm-het-script");
    CHECK(script.node_names == Names{"node1"});
    CHECK(script.on_every_node);
    CHECK(script.gpus.names == Names{"0"});
    const Allocation component = read("slurm-het-component");
    CHECK(component.node_names == Names{"node2", "node3"});
    CHECK(component.node_rank == 1);
    CHECK(component.job_id == "11.1");
    CHECK(component.gpus.names == Names{"0", "1"});
}

TEST_CASE("heterogeneous jobs: a step over components counts nodes component by component") {
    const Allocation step = read("slurm-het-step");
    CHECK(step.node_names == Names{"node1", "node2", "node3"});
    CHECK(step.node_rank == 2);
    CHECK(step.gpus.names == Names{"0", "1"});
    const Allocation unsorted =
        read("slurm-het-unsorted");  // Slurm's list is node[1-3], with tasks 3,1(x2)
    CHECK(unsorted.node_names == Names{"node3", "node1", "node2"});
    CHECK(unsorted.node_rank == 0);
    CHECK(unsorted.tasks_on_node == 1);
    const Allocation second = read("slurm-het-unsorted-1");
    CHECK(second.node_names == unsorted.node_names);
    CHECK(second.node_rank == 1);
    CHECK(second.tasks_on_node == 3);
    CHECK(second.local_task == 2);
}

TEST_CASE("heterogeneous jobs: what the components do not explain stays in the list's order") {
    const auto changed =
        with(captured("slurm-het-unsorted"), {{"SLURM_JOB_NODELIST_HET_GROUP_0", "node9"}});
    CHECK(read_allocation(changed, "x").node_names == Names{"node1", "node2", "node3"});
    const auto shared =
        with(captured("slurm-het-unsorted"), {{"SLURM_STEP_NODELIST", "node3,node3"}});
    CHECK(error_of([&] { read_allocation(shared, "x"); })
              .starts_with("node3 is in SLURM_STEP_NODELIST twice: components of the job share it "
                           "(let each node be"));
    CHECK_NOTHROW(
        read_allocation(with(captured("slurm-het-step"), {{"SLURM_HET_SIZE", "999999999"}}), "x"));
}

TEST_CASE("a job that was submitted from inside a step is not in that step") {
    const Allocation allocation = read("slurm-nested-script");
    CHECK(allocation.node_names == Names{"node1", "node2"});
    CHECK(allocation.job_id == "4");
    CHECK_FALSE(allocation.on_every_node);
}

TEST_CASE("the switches above a node") {
    const Allocation allocation = read("slurm-topology");
    CHECK(allocation.topology_address == "spine.leaf2.node4");
    CHECK(allocation.node_names == Names{"node2", "node4"});
    const auto address = [](const char* text, const char* pattern) {
        const EnvironmentMap changes = {{"SLURM_TOPOLOGY_ADDR", text},
                                        {"SLURM_TOPOLOGY_ADDR_PATTERN", pattern}};
        return read_allocation(with(captured("slurm-topology"), changes), "x").topology_address;
    };
    CHECK(address("b8.tux1", "block.node") == "b8.tux1");
    CHECK(address("s0.node4.cluster.example", "switch.node") == "s0.node4.cluster.example");
    CHECK(address("node4.cluster.example", "node") == "");
    CHECK(address("s0.node4", "") == "");
    CHECK(address("node4", "switch.node") == "");
    CHECK(address("x.node4", "rack.node") == "");
    CHECK(address("s0.s1", "switch.switch") == "");
}

TEST_CASE("the end of the job") {
    const auto end = [](const char* text, const char* start = "1790000000") {
        const EnvironmentMap times = {{"SLURM_JOB_START_TIME", start},
                                      {"SLURM_JOB_END_TIME", text}};
        return read_allocation(with(captured("slurm-uneven"), times), "x").ends_at;
    };
    CHECK(std::chrono::system_clock::to_time_t(*end("1800000000")) == 1'800'000'000);
    CHECK_FALSE(end("1800000000", "1768464000"));  // a year: no limit
    CHECK_FALSE(end("0"));
    CHECK_FALSE(end("4294967295"));
    CHECK_FALSE(read("slurm-uneven").ends_at);  // Slurm 22.05 does not say
}

}  // namespace allocation_slurm_test
