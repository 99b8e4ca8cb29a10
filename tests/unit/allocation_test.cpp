#include "allocation/allocation.hpp"

#include "allocation/tasks.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

namespace allocation_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using Names = std::vector<std::string>;

namespace {

// What one task of `sbatch -N4 --ntasks-per-node=8 --gpus-per-node=8` saw under Slurm 22.05.
const EnvironmentMap kSbatchStep = {
    {"CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7"},
    {"SLURMD_NODENAME", "node2"},
    {"SLURM_JOB_GPUS", "0,1,2,3,4,5,6,7"},
    {"SLURM_JOB_ID", "2"},
    {"SLURM_JOB_NODELIST", "node[1-4]"},
    {"SLURM_JOB_NUM_NODES", "4"},
    {"SLURM_NODEID", "1"},
    {"SLURM_STEPID", "0"},
    {"SLURM_STEP_GPUS", "0,1,2,3,4,5,6,7"},
    {"SLURM_STEP_ID", "0"},
    {"SLURM_STEP_NODELIST", "node[1-4]"},
    {"SLURM_STEP_TASKS_PER_NODE", "8(x4)"},
    {"SLURM_TASKS_PER_NODE", "8(x4)"},
};

EnvironmentMap with(EnvironmentMap environment, const EnvironmentMap& changes) {
    for (const auto& [name, value] : changes)
        environment[name] = value;
    return environment;
}

EnvironmentMap without(EnvironmentMap environment, const Names& names) {
    for (const auto& name : names)
        environment.erase(name);
    return environment;
}

std::string message_of(const EnvironmentMap& environment, const std::string& hostname,
                       const NodeOptions& options = {}) {
    try {
        read_allocation(environment, hostname, options);
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::invalid_argument);
        return error.what();
    }
    return "no error";
}

}  // namespace

TEST_CASE("without a scheduler this machine is the allocation") {
    const Allocation allocation = read_allocation({{"PATH", "/bin"}}, "laptop");
    CHECK(allocation.source == "local");
    CHECK(allocation.node_names == Names{"laptop"});
    CHECK(allocation.node_rank == 0);
    CHECK(allocation.job_id.empty());
    CHECK_FALSE(allocation.gpus.names);
    CHECK_FALSE(allocation.tasks_on_node);
}

TEST_CASE("CUDA_VISIBLE_DEVICES is read as CUDA reads it") {
    const auto gpus = [](const char* value) {
        return *read_allocation({{"CUDA_VISIBLE_DEVICES", value}}, "h").gpus.names;
    };
    CHECK(gpus("0,1") == Names{"0", "1"});
    CHECK(gpus("3, 1") == Names{"3", "1"});
    CHECK(gpus("").empty());
    CHECK(gpus("-1").empty());
    CHECK(gpus("0,-1,1") == Names{"0"});
    CHECK(gpus("NoDevFiles").empty());
    CHECK(gpus("GPU-8f3d1c,MIG-12") == Names{"GPU-8f3d1c", "MIG-12"});
    CHECK(message_of({{"CUDA_VISIBLE_DEVICES", "0,all"}}, "h") ==
          "CUDA_VISIBLE_DEVICES=0,all: 'all' is neither a GPU number nor a UUID");
}

TEST_CASE("ROCm's variables are of AMD's GPUs alone") {
    const Allocation allocation = read_allocation({{"ROCR_VISIBLE_DEVICES", "2"}}, "h");
    CHECK(*allocation.rocm_gpus.names == Names{"2"});
    CHECK(allocation.rocm_gpus.masked);
    CHECK_FALSE(allocation.gpus.names);
    CHECK(*read_allocation({{"HIP_VISIBLE_DEVICES", "2"}}, "h").rocm_gpus.names == Names{"2"});
    CHECK(*read_allocation({{"CUDA_VISIBLE_DEVICES", "2"}}, "h").rocm_gpus.names == Names{"2"});
    const Allocation narrowed =
        read_allocation({{"ROCR_VISIBLE_DEVICES", "2,5,7"}, {"HIP_VISIBLE_DEVICES", "2,0,3"}}, "h");
    CHECK(*narrowed.rocm_gpus.names == Names{"7", "2"});
    CHECK(narrowed.rocm_gpus.from == "HIP_VISIBLE_DEVICES within ROCR_VISIBLE_DEVICES");
    const Allocation step =
        read_allocation(with(without(kSbatchStep, {"CUDA_VISIBLE_DEVICES"}),
                             {{"SLURM_STEP_GPUS", "4,5"}, {"ROCR_VISIBLE_DEVICES", "0,1"}}),
                        "x");
    CHECK(*step.rocm_gpus.names == Names{"4", "5"});
    CHECK(step.rocm_gpus.masked);
    CHECK_FALSE(step.gpus.masked);
}

TEST_CASE("a Slurm step on four nodes") {
    const Allocation allocation = read_allocation(kSbatchStep, "some-other-hostname");
    CHECK(allocation.source == "slurm");
    CHECK(allocation.node_names == Names{"node1", "node2", "node3", "node4"});
    CHECK(allocation.node_rank == 1);
    CHECK(allocation.job_id == "2.0");
    CHECK(allocation.restart_count == 0);
    CHECK(allocation.tasks_on_node == 8);
    CHECK(allocation.gpus.names->size() == 8);
    CHECK(allocation.gpus.from == "SLURM_STEP_GPUS");
    CHECK_FALSE(allocation.ends_at);
}

TEST_CASE("the step's node list wins over the job's") {
    const auto step = with(
        kSbatchStep, {{"SLURM_STEP_NODELIST", "node[2-3]"}, {"SLURM_STEP_TASKS_PER_NODE", "1,3"}});
    const Allocation allocation = read_allocation(step, "node3");
    CHECK(allocation.node_names == Names{"node2", "node3"});
    CHECK(allocation.node_rank == 0);
    CHECK(allocation.tasks_on_node == 1);
    CHECK(read_allocation(with(step, {{"SLURMD_NODENAME", "node3"}}), "x").tasks_on_node == 3);
}

TEST_CASE("a step list inherited from the job that submitted this one is not ours") {
    const auto stale = with(kSbatchStep, {{"SLURM_STEP_NODELIST", "other[7-8]"}});
    CHECK(read_allocation(stale, "x").node_names == Names{"node1", "node2", "node3", "node4"});
}

TEST_CASE("a batch script runs once on its node, whatever the job asked for") {
    auto batch = without(kSbatchStep, {"SLURM_STEP_ID", "SLURM_STEP_NODELIST", "SLURM_STEP_GPUS",
                                       "SLURM_STEPID", "SLURM_STEP_TASKS_PER_NODE"});
    const Allocation allocation =
        read_allocation(with(batch, {{"SLURM_JOB_NODELIST", "node2"}}), "node2.cluster");
    CHECK(allocation.node_names == Names{"node2"});
    CHECK(allocation.job_id == "2");
    CHECK(allocation.tasks_on_node == 1);
    CHECK(allocation.gpus.from == "SLURM_JOB_GPUS");
    CHECK(read_allocation(with(batch, {{"SLURM_STEP_ID", "4294967291"}}), "node2").job_id == "2");
}

TEST_CASE("a domain name does not hide the node") {
    auto plain = without(kSbatchStep, {"SLURMD_NODENAME"});
    CHECK(read_allocation(plain, "node4.cluster.example").node_rank == 3);
}

TEST_CASE("restart count and end time") {
    const auto later = read_allocation(
        with(kSbatchStep, {{"SLURM_RESTART_COUNT", "2"}, {"SLURM_JOB_END_TIME", "1700000000"}}),
        "x");
    CHECK(later.restart_count == 2);
    CHECK(std::chrono::system_clock::to_time_t(*later.ends_at) == 1'700'000'000);
    CHECK(message_of(with(kSbatchStep, {{"SLURM_RESTART_COUNT", "two"}}), "x") ==
          "SLURM_RESTART_COUNT=two is not a whole number from 0 up");
}

TEST_CASE("a shell of salloc on the login node is told to use srun") {
    const EnvironmentMap login = {{"SLURM_JOB_ID", "12"}, {"SLURM_JOB_NODELIST", "node[1-4]"}};
    CHECK(message_of(login, "login1") ==
          "this machine, login1, is not one of the job's nodes (SLURM_JOB_NODELIST=node[1-4])");
    CHECK(message_of({{"SLURM_JOB_ID", "12"}}, "login1") ==
          "SLURM_JOB_ID is set, but SLURM_JOB_NODELIST is not");
    CHECK(message_of({{"SLURM_JOB_ID", "12"}, {"SLURM_JOB_NODELIST", "n["}}, "n")
              .starts_with("SLURM_JOB_NODELIST: "));
}

TEST_CASE("a mask inside a job is translated to the machine's numbers") {
    const auto gpus = [](const char* of_job, const char* mask) {
        return read_allocation(
            with(kSbatchStep, {{"SLURM_STEP_GPUS", of_job}, {"CUDA_VISIBLE_DEVICES", mask}}), "x");
    };
    CHECK(*gpus("4,5", "4,5").gpus.names == Names{"4", "5"});  // devices are not confined
    CHECK(*gpus("4,5", "0,1").gpus.names == Names{"4", "5"});  // confined by cgroup: counted from 0
    CHECK(gpus("4,5", "0,1").gpus.from == "SLURM_STEP_GPUS");
    CHECK(*gpus("4,5", "1").gpus.names == Names{"5"});  // narrowed by the user
    CHECK(gpus("4,5", "1").gpus.from == "CUDA_VISIBLE_DEVICES");
    CHECK(gpus("4,5", "").gpus.names->empty());
    CHECK(*gpus("0-3", "0,1,2,3").gpus.names == Names{"0", "1", "2", "3"});
    const auto unmasked =
        without(with(kSbatchStep, {{"SLURM_STEP_GPUS", "2,3"}}), {"CUDA_VISIBLE_DEVICES"});
    CHECK(*read_allocation(unmasked, "x").gpus.names == Names{"2", "3"});  // --gpu-bind=none
    CHECK_FALSE(read_allocation(unmasked, "x").gpus.masked);
    CHECK(gpus("4,5", "0,1").gpus.masked);
}

TEST_CASE("a person numbers the nodes, as with torchrun") {
    const NodeOptions options = {.nodes = 3, .node_rank = 2, .head_address = "10.0.0.7"};
    const Allocation allocation = read_allocation(kSbatchStep, "c", options);  // it wins over Slurm
    CHECK(allocation.source == "static");
    CHECK(allocation.node_names == Names{"10.0.0.7", "node-rank-1", "c"});
    CHECK(allocation.node_rank == 2);
    CHECK(allocation.head_address == "10.0.0.7");
    CHECK(allocation.keeps_node_order);
    CHECK(
        allocation.job_id
            .empty());  // one Slurm job may run several such jobs: address and port tell them apart
    CHECK_NOTHROW(check_runs_on_every_node(allocation));
    CHECK(read_allocation({}, "c", {.nodes = 2, .node_rank = 0, .head_address = "a"}).node_names ==
          Names{"c", "node-rank-1"});
    CHECK(message_of({}, "c", {.nodes = 2, .node_rank = 2, .head_address = "a"}) ==
          "node rank 2 of 2 nodes");
    CHECK(message_of({}, "c", {.nodes = 1, .node_rank = 1}) == "node rank 1 of 1 nodes");
    CHECK(read_allocation(kSbatchStep, "c", {.nodes = 1, .node_rank = 0}).source == "slurm");
    CHECK(message_of({}, "c", {.nodes = 2, .node_rank = 1}) ==
          "node 1 of 2 is not told where node 0 is");
}

TEST_CASE("several nodes, and nothing says which this is: to be planned, not to be run") {
    const Allocation allocation = read_allocation({}, "a", {.nodes = 2});
    CHECK(allocation.node_names == Names{"a", "node-rank-1"});
    CHECK_FALSE(allocation.on_every_node);
    CHECK_THROWS_WITH(check_runs_on_every_node(allocation),
                      "2 nodes are asked for, but nothing says which of them this one is");
    CHECK_NOTHROW(check_runs_on_every_node(read_allocation({}, "a")));
}

TEST_CASE("nodes with the same line meet at the endpoint") {
    const NodeOptions meet = {.nodes = 2, .head_address = "h", .is_meeting_place = true};
    const Allocation allocation = read_allocation({}, "a", meet);
    CHECK(allocation.source == "static");
    CHECK(allocation.numbered_by_arrival);
    CHECK(allocation.head_address == "h");
    CHECK(allocation.node_names == Names{"a", "node-rank-1"});
    CHECK_NOTHROW(check_runs_on_every_node(allocation));
    CHECK(read_allocation(kSbatchStep, "node2", meet).source == "slurm");  // which has numbers
    const NodeOptions range = {
        .nodes = 1, .most_nodes = 4, .head_address = "h", .is_meeting_place = true};
    CHECK(read_allocation({{"JOB_COMPLETION_INDEX", "2"}}, "p-2", range).node_names.size() == 4);
    CHECK(read_allocation({}, "a", {.nodes = 1, .head_address = "h", .is_meeting_place = true})
              .source == "local");
}

TEST_CASE("inside a rank of autolaunch, what surrounds that one is not ours") {
    EnvironmentMap rank = kSbatchStep;
    rank["AUTOLAUNCH_GENERATION"] = "0";
    rank["SLURM_PROCID"] = "8";
    rank["SLURM_SRUN_COMM_PORT"] = "46359";
    rank["AUTOLAUNCH_WITHIN"] =
        "slurm=" + rank["SLURM_JOB_ID"] + "." + rank["SLURM_STEP_ID"] + ":46359";
    rank["LOCAL_RANK"] = "1";
    rank["LOCAL_WORLD_SIZE"] = "8";
    const Allocation inside = read_allocation(rank, "node2");
    CHECK(inside.inside_a_rank);
    CHECK(inside.source == "local");
    CHECK(inside.node_names == Names{"node2"});
    CHECK(inside.job_id.empty());
    rank["SLURM_STEP_ID"] = "7";  // srun within the rank
    rank["SLURM_SRUN_COMM_PORT"] = "50000";
    CHECK(read_allocation(rank, "node2").source == "slurm");
    CHECK_FALSE(read_allocation(rank, "node2").inside_a_rank);
}

TEST_CASE("--standalone is this node alone, whatever surrounds it") {
    const Allocation allocation = read_allocation(kSbatchStep, "node2", {.standalone = true});
    CHECK(allocation.node_names == Names{"node2"});
    CHECK(allocation.job_id.empty());  // each task of a step is a job of its own
    CHECK(allocation.gpus.names->size() == 8);
}

namespace {

// Tasks of one node that differ in what `change` adds to each.
std::vector<TaskGrant> tasks_of(const std::vector<EnvironmentMap>& changes,
                                const EnvironmentMap& base = kSbatchStep) {
    std::vector<TaskGrant> tasks;
    for (const auto& change : changes)
        tasks.push_back({with(base, change), {0, 1}});
    return tasks;
}

Names gpus_of(const std::vector<TaskGrant>& tasks) {
    return merge_tasks(read_allocation(tasks.front().environment, "node2"), tasks)
        .gpus.names.value_or(Names{"none"});
}

}  // namespace

TEST_CASE("tasks of a node that were all given the same are as one") {
    const auto tasks = tasks_of({{}, {}, {}});
    const Allocation own = read_allocation(kSbatchStep, "node2");
    const Allocation merged = merge_tasks(own, tasks);
    CHECK(merged.gpus.names == own.gpus.names);
    CHECK(merged.task_cpus.empty());
    CHECK(cpus_of_all(tasks) == std::vector<int>{0, 1});
}

TEST_CASE("a GPU for each task: in the order of tasks") {
    const auto visible = [](const char* gpus) {
        return EnvironmentMap{{"CUDA_VISIBLE_DEVICES", gpus}};
    };
    CHECK(gpus_of(tasks_of({visible("3"), visible("0"), visible("5")})) == Names{"3", "0", "5"});
    CHECK(gpus_of(tasks_of({visible("0,1"), visible("2,3")})) == Names{"0", "1", "2", "3"});
    CHECK(gpus_of(tasks_of({visible("0,1"), visible("1,2")})) == Names{"0", "1", "2"});
    CHECK(gpus_of(tasks_of({visible("GPU-b"), visible("GPU-a")})) == Names{"GPU-b", "GPU-a"});
}

TEST_CASE("tasks that each see their own GPU as number 0") {
    const EnvironmentMap confined =
        with(kSbatchStep, {{"CUDA_VISIBLE_DEVICES", "0"}, {"SLURM_STEP_GPUS", "2,4,6"}});
    CHECK(gpus_of(tasks_of({{}, {}, {}}, confined)) == Names{"2", "4", "6"});
    CHECK(gpus_of(tasks_of({{}, {}}, confined)).size() ==
          1);  // three GPUs for two tasks: nobody knows
    const EnvironmentMap shared =
        with(confined, {{"CUDA_VISIBLE_DEVICES", "4"}});  // somebody chose it for all
    CHECK(gpus_of(tasks_of({{}, {}, {}}, shared)) == Names{"4"});
}

TEST_CASE("tasks without GPUs, and with CPUs of their own") {
    const EnvironmentMap bare =
        without(kSbatchStep, {"CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"});
    std::vector<TaskGrant> tasks = {{bare, {0, 1}}, {bare, {2, 3}}, {bare, {2, 3}}};
    const Allocation merged = merge_tasks(read_allocation(bare, "node2"), tasks);
    CHECK_FALSE(merged.gpus.names.has_value());
    CHECK(merged.task_cpus == std::vector<std::vector<int>>{{0, 1}, {2, 3}, {2, 3}});
    CHECK(cpus_of_all(tasks) == std::vector<int>{0, 1, 2, 3});
}

TEST_CASE("ranges and spares: as many nodes as may come") {
    NodeOptions options;
    options.nodes = 2;
    options.most_nodes = 4;
    options.spare_nodes = 1;
    options.node_rank = 4;
    options.head_address = "node0";
    const Allocation by_person = read_allocation({}, "e", options);
    CHECK(by_person.source == "static");
    CHECK(by_person.node_names.size() == 5);
    CHECK(by_person.node_rank == 4);
    options.node_rank = 5;
    CHECK_THROWS_AS(read_allocation({}, "f", options), Error);
    options.node_rank.reset();
    options.head_address.clear();
    const Allocation pod = read_allocation(
        {{"JOB_COMPLETION_INDEX", "4"}}, "train-4", options,
        [](const std::string&) { return "10.1.0.7 train-4.workers.ns.svc.local train-4\n"; });
    CHECK(pod.source == "kubernetes");
    CHECK(pod.node_names == Names{"train-0", "train-1", "train-2", "train-3", "train-4"});
    CHECK(pod.head_address == "train-0.workers.ns.svc.local");
}

}  // namespace allocation_test
