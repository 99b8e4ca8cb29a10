#include "plan/launch_plan.hpp"

#include "../write_file.hpp"
#include "allocation/roster.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "plan/granted_otherwise.hpp"
#include "plan/job_shape.hpp"
#include "synthetic_topology.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace plan_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using testing::confine;
using testing::make_machine;
using Lines = std::vector<std::string>;

namespace {

JobSpec trainer(const Lines& command = {"train", "--fast"}) {
    JobSpec spec;
    spec.trainer.command = command;
    return spec;
}

JobSpec with_ranks(RanksPerNode mode, int count = 0) {
    JobSpec spec = trainer();
    spec.resources.ranks_mode = mode;
    spec.resources.ranks_per_node = count;
    return spec;
}

Allocation local() {
    Allocation allocation;
    allocation.node_names = {"node1"};
    return allocation;
}

Allocation granted(const Lines& gpus) {
    Allocation allocation = local();
    allocation.gpus.names = gpus;
    allocation.gpus.from = "CUDA_VISIBLE_DEVICES";
    return allocation;
}

Allocation slurm(int nodes) {
    Allocation allocation;
    allocation.source = "slurm";
    for (int i = 1; i <= nodes; ++i)
        allocation.node_names.push_back("node" + std::to_string(i));
    allocation.node_rank = nodes - 1;
    allocation.job_id = "4711.0";
    allocation.tasks_on_node = 1;
    return allocation;
}

const NodeTopology kCpuMachine = make_machine({.packages = 1, .cores_per_l3 = 4, .threads = 2});
const NodeTopology kGpuMachine = make_machine({.cores_per_l3 = 32, .gpus = 8});

LaunchPlan plan_of(const JobSpec& spec, const Allocation& allocation = local(),
                   const NodeTopology& topology = kCpuMachine,
                   const EnvironmentMap& environment = {}) {
    const JobShape shape = decide_shape(spec, allocation, topology);
    const Roster roster = assume_alike(allocation, shape.ranks_here, "20260102-030405");
    return make_plan(spec, allocation, topology, roster, environment, "/home/me/job");
}

std::size_t rank_count(const JobSpec& spec, const NodeTopology& topology) {
    return plan_of(spec, local(), topology).ranks.size();
}

std::map<std::string, std::string> as_map(const Lines& lines) {
    std::map<std::string, std::string> environment;
    for (const std::string& line : lines) {
        const std::size_t equals = line.find('=');
        CHECK(environment.emplace(line.substr(0, equals), line.substr(equals + 1))
                  .second);  // no name twice
    }
    return environment;
}

template <class F>
std::string refusal(F&& make, ErrorCode code = ErrorCode::invalid_argument) {
    try {
        make();
    } catch (const Error& error) {
        CHECK(error.code() == code);
        CHECK_FALSE(error.hint().empty());
        return error.what();
    }
    return "no error";
}

const GenerationFacts kFacts = {
    1, "127.0.0.1", 29512, "/tmp/s/agent.sock", "/runs/x/trainer.json", "/runs/x"};

}  // namespace

TEST_CASE("what slurm_config asks for and the allocation has otherwise is said") {
    JobSpec spec = trainer();
    spec.slurm.partition = "gpu,long";
    spec.slurm.time_limit = "4:00:00";
    spec.slurm.nodes = 2;
    const EnvironmentMap job = {{"SLURM_JOB_ID", "7"},
                                {"SLURM_JOB_PARTITION", "debug"},
                                {"SLURM_JOB_NUM_NODES", "1"},
                                {"SLURM_JOB_START_TIME", "1700000000"},
                                {"SLURM_JOB_END_TIME", "1700003600"}};
    const auto warnings = [&](const EnvironmentMap& environment) {
        return plan_of(spec, local(), kCpuMachine, environment).warnings;
    };
    CHECK(warnings(job) ==
          Lines{"slurm_config.partition is gpu,long, but this job has debug: within an allocation "
                "the key changes nothing",
                "slurm_config.nodes is 2, but this job has 1: within an allocation the key changes "
                "nothing",
                "slurm_config.time_limit is 240 min, but this job has 60 min: within an allocation "
                "the key changes nothing"});
    CHECK(warnings({{"SLURM_JOB_PARTITION", "debug"}}).empty());  // in no job
    CHECK(warnings({{"SLURM_JOB_ID", "7"}}).empty());             // it does not tell
    CHECK(warnings({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_PARTITION", "long"}}).empty());
}

TEST_CASE("what is not known of Slurm's KillWait is said") {
    using namespace std::chrono_literals;
    JobSpec spec = trainer();
    Allocation job = local();
    job.source = "slurm";
    job.job_id = "7.0";
    job.notes = {"SLURM_CONF names /gone"};
    const auto warnings = [&] { return plan_of(spec, job, kCpuMachine, {}).warnings; };
    CHECK(warnings() == Lines{"SLURM_CONF names /gone"});
    spec.restart.grace_period = 30s;
    CHECK(warnings().back().starts_with("restart.grace_period is 30 s, and no slurm.conf could"));
    job.kill_wait = 30s;
    CHECK(warnings() == Lines{"SLURM_CONF names /gone"});
}

TEST_CASE("a time limit that the environment does not tell is compared with squeue's word") {
    using namespace std::chrono_literals;
    SlurmSpec asked;
    asked.time_limit = "4:00:00";
    CHECK(uncompared_time_limit(asked, {{"SLURM_JOB_ID", "7"}}) == 4h);
    CHECK_FALSE(uncompared_time_limit(asked, {}));
    CHECK_FALSE(uncompared_time_limit({}, {{"SLURM_JOB_ID", "7"}}));
    CHECK_FALSE(uncompared_time_limit(asked, {{"SLURM_JOB_ID", "7"},
                                              {"SLURM_JOB_START_TIME", "1700000000"},
                                              {"SLURM_JOB_END_TIME", "1700003600"}}));
    CHECK(limit_granted_otherwise(4h, "4:00:00").empty());
    CHECK(limit_granted_otherwise(4h, "1-00:00:00") ==
          "slurm_config.time_limit is 240 min, but this job has 1440 min: within an allocation the "
          "key changes nothing");
    CHECK(limit_granted_otherwise(4h, "UNLIMITED").find("but this job has no limit") !=
          std::string::npos);
    CHECK(limit_granted_otherwise(4h, "").find("is not known") != std::string::npos);
}

TEST_CASE("ranks a node: GPUs if there are any, else one") {
    CHECK(rank_count(trainer(), kCpuMachine) == 1);
    CHECK(rank_count(trainer(), kGpuMachine) == 8);
    CHECK(rank_count(with_ranks(RanksPerNode::automatic), kGpuMachine) == 8);
    CHECK(rank_count(with_ranks(RanksPerNode::automatic), kCpuMachine) ==
          8);  // torchrun's: one a CPU
    CHECK(rank_count(with_ranks(RanksPerNode::cpu), kCpuMachine) == 8);
    CHECK(rank_count(with_ranks(RanksPerNode::gpu), kGpuMachine) == 8);
    CHECK(rank_count(with_ranks(RanksPerNode::fixed, 3), kGpuMachine) == 3);
    CHECK(rank_count(with_ranks(RanksPerNode::fixed, 12), kGpuMachine) == 12);
    CHECK(refusal([] { plan_of(with_ranks(RanksPerNode::gpu)); }) ==
          "one rank a GPU is asked for, but no GPU can be used here");
    CHECK(refusal([] { plan_of(with_ranks(RanksPerNode::fixed, 0)); }) == "0 ranks a node");
}

TEST_CASE("the GPUs that may be used") {
    const auto ranks = plan_of(trainer(), granted({"6", "2"}), kGpuMachine).ranks;
    REQUIRE(ranks.size() == 2);
    CHECK(ranks[0].gpu->index == 6);
    CHECK(ranks[0].binding.gpu == 0);
    CHECK(ranks[1].gpu->index == 2);
    CHECK(plan_of(trainer(), granted({"GPU-0000a003"}), kGpuMachine).ranks[0].gpu->index == 3);
    CHECK(plan_of(trainer(), granted({}), kGpuMachine).gpu_count == 0);
    const auto unseen = plan_of(trainer(), granted({"0", "9"}), kGpuMachine);
    CHECK(unseen.gpu_count == 1);
    CHECK(unseen.warnings ==
          Lines{"CUDA_VISIBLE_DEVICES names GPU 9, but this machine shows 8 GPUs: left out, "
                "with all that are named after it"});
}

TEST_CASE("a grant that no variable enforces becomes a mask by UUID") {
    const auto mask_of = [](const LaunchPlan& plan) {
        const auto environment = as_map(rank_environment(plan, plan.ranks[0], kFacts, {}));
        const auto found = environment.find("CUDA_VISIBLE_DEVICES");
        return found == environment.end() ? "not set" : found->second;
    };
    Allocation allocation = slurm(1);
    allocation.gpus.names = Lines{"4", "5"};
    allocation.gpus.from = "SLURM_STEP_GPUS";
    CHECK(mask_of(plan_of(trainer(), allocation, kGpuMachine)) == "GPU-0000a004,GPU-0000a005");
    NodeTopology nameless = kGpuMachine;
    nameless.gpus[4].uuid.clear();
    const auto warned = plan_of(trainer(), allocation, nameless);
    CHECK(mask_of(warned) == "not set");
    CHECK(warned.warnings ==
          Lines{"SLURM_STEP_GPUS grants 2 of 8 GPUs, but nothing hides the others from the ranks"});
    allocation.gpus.masked = true;
    CHECK(mask_of(plan_of(trainer(), allocation, kGpuMachine)) == "not set");
    CHECK(mask_of(plan_of(trainer(), granted({"1"}), kGpuMachine)) == "not set");
}

TEST_CASE("more GPUs asked for than there are") {
    JobSpec spec = trainer();
    spec.resources.gpus_per_node = 4;
    CHECK(plan_of(spec, local(), kGpuMachine).ranks.size() == 4);
    CHECK(refusal([&] { plan_of(spec); }) == "4 GPUs a node are asked for, but 0 GPUs are here");
    CHECK(refusal([&] { plan_of(spec, granted({"1"}), kGpuMachine); }) ==
          "4 GPUs a node are asked for, but 1 GPU may be used here (CUDA_VISIBLE_DEVICES)");
    spec.resources.gpus_per_node = 0;
    CHECK(plan_of(spec, local(), kGpuMachine).gpu_count == 0);
}

TEST_CASE("a machine with an AMD graphics chip beside NVIDIA GPUs") {
    NodeTopology topology = make_machine({.gpus = 2});
    Gpu chip;
    chip.vendor = "amd";
    chip.bdf = "0000:00:08.0";
    topology.gpus.insert(topology.gpus.begin(), chip);
    const auto plan = plan_of(trainer(), granted({"0", "1"}), topology);
    REQUIRE(plan.ranks.size() == 2);
    CHECK(plan.ranks[0].gpu->vendor == "nvidia");
    CHECK(plan.warnings.empty());
}

TEST_CASE("names and directories") {
    JobSpec spec = trainer({"/opt/bin/train.py"});
    auto plan = plan_of(spec);
    CHECK(plan.job_name == "train");
    CHECK(plan.run_id == "20260102-030405");
    CHECK(plan.run_dir == "/home/me/job/runs/20260102-030405");
    CHECK(plan.workdir == "/home/me/job");
    spec.monitoring.log_path = "../logs/";
    spec.slurm.job_name = "gpt";
    plan = plan_of(spec, slurm(1));
    CHECK(plan.job_name == "gpt");
    CHECK(plan.run_id == "4711");
    CHECK(plan.run_dir == "/home/me/logs/4711");
    spec.run_dir = "/scratch/run/";
    spec.run_id = "abc";
    spec.name = "mine";
    spec.trainer.workdir = "sub";
    plan = plan_of(spec, slurm(1));
    CHECK(plan.job_name == "mine");
    CHECK(plan.run_id == "abc");
    CHECK(plan.run_dir == "/scratch/run");
    CHECK(plan.workdir == "/home/me/job/sub");
}

TEST_CASE("a module runs under python -m, with the command as its arguments") {
    JobSpec spec = trainer({"--steps", "3"});
    spec.trainer.module = "pkg.train";
    const auto plan = plan_of(spec);
    CHECK(plan.ranks[0].argv == Lines{"python", "-m", "pkg.train", "--steps", "3"});
    CHECK(plan.job_name == "pkg.train");
    CHECK(refusal([] { plan_of(trainer({})); }) == "there is nothing to run");
}

TEST_CASE("one rank's environment is torchrun's, and what an outer launch left is replaced") {
    const EnvironmentMap inherited = {{"RANK", "9"},
                                      {"LOCAL_RANK", "9"},
                                      {"MASTER_PORT", "1"},
                                      {"PATH", "/bin"},
                                      {"AUTOLAUNCH_SOCKET", "/old"},
                                      {"AUTOLAUNCH_STORE", "old:1"},
                                      {"AUTOLAUNCH_JOB_KEY", "sixteen bytes or more"},
                                      {"AUTOLAUNCH_MUNGE_SOCKET", "/run/munge/other"},
                                      {"TORCHELASTIC_ERROR_FILE", "/old"}};
    JobSpec spec = with_ranks(RanksPerNode::fixed, 2);
    spec.restart.max_restarts = 3;
    const auto plan = plan_of(spec, local(), kCpuMachine, inherited);
    const std::map<std::string, std::string> expected = {
        {"RANK", "1"},
        {"LOCAL_RANK", "1"},
        {"WORLD_SIZE", "2"},
        {"LOCAL_WORLD_SIZE", "2"},
        {"GROUP_RANK", "0"},
        {"GROUP_WORLD_SIZE", "1"},
        {"NODE_RANK", "0"},
        {"ROLE_RANK", "1"},
        {"ROLE_NAME", "default"},
        {"ROLE_WORLD_SIZE", "2"},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", "29512"},
        {"TORCHELASTIC_RESTART_COUNT", "1"},
        {"TORCHELASTIC_MAX_RESTARTS", "3"},
        {"TORCHELASTIC_RUN_ID", "20260102-030405"},
        {"TORCHELASTIC_USE_AGENT_STORE", "True"},
        {"TORCHELASTIC_ERROR_FILE", "/runs/x/generation-1/rank-1/error.json"},
        {"OMP_NUM_THREADS", "2"},
        {"AUTOLAUNCH_SOCKET", "/tmp/s/agent.sock"},
        {"AUTOLAUNCH_GENERATION", "1"},
        {"AUTOLAUNCH_RUN_DIR", "/runs/x"},
        {"AUTOLAUNCH_TRAINER_CONFIG", "/runs/x/trainer.json"},
        {"PATH", "/bin"},
        {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
        {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
    };
    CHECK(as_map(rank_environment(plan, plan.ranks[1], kFacts, inherited)) == expected);
    GenerationFacts with_store = kFacts;
    with_store.store_address = "127.0.0.1:40001";
    CHECK(as_map(rank_environment(plan, plan.ranks[1], with_store, inherited))
              .at("AUTOLAUNCH_STORE") == "127.0.0.1:40001");
}

TEST_CASE("what Slurm told the agent is made true of each rank") {
    const EnvironmentMap inherited = {{"SLURM_JOB_ID", "4711"},
                                      {"SLURM_STEP_ID", "0"},
                                      {"SLURM_SRUN_COMM_PORT", "50001"},
                                      {"SLURM_PROCID", "1"},
                                      {"SLURM_LOCALID", "0"},
                                      {"SLURM_NTASKS", "2"},
                                      {"SLURM_TASK_PID", "77"},
                                      {"SLURM_CPUS_ON_NODE", "3"},
                                      {"SLURM_CPUS_PER_TASK", "8"},
                                      {"SLURM_DISTRIBUTION", "cyclic"},
                                      {"OMPI_COMM_WORLD_RANK", "1"},
                                      {"PMIX_RANK", "1"},
                                      {"PMIX_MCA_psec", "none"},
                                      {"PALS_LOCAL_RANKID", "0"}};
    const auto plan = plan_of(with_ranks(RanksPerNode::fixed, 4), slurm(2), kCpuMachine, inherited);
    const auto environment = as_map(rank_environment(plan, plan.ranks[2], kFacts, inherited));
    const std::map<std::string, std::string> expected = {{"SLURM_PROCID", "6"},
                                                         {"SLURM_LOCALID", "2"},
                                                         {"SLURM_NODEID", "1"},
                                                         {"SLURM_NTASKS", "8"},
                                                         {"SLURM_NPROCS", "8"},
                                                         {"SLURM_NNODES", "2"},
                                                         {"SLURM_STEP_NUM_TASKS", "8"},
                                                         {"SLURM_STEP_NUM_NODES", "2"},
                                                         {"SLURM_TASKS_PER_NODE", "4(x2)"},
                                                         {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                                                         {"SLURM_STEP_NODELIST", "node[1-2]"},
                                                         {"SLURM_GTIDS", "4,5,6,7"},
                                                         {"SLURM_CPUS_PER_TASK", "2"},
                                                         {"SLURM_NTASKS_PER_NODE", "4"},
                                                         {"SLURM_OVERCOMMIT", "1"},
                                                         {"SLURM_DISTRIBUTION", "block"},
                                                         {"OMPI_COMM_WORLD_RANK", "6"},
                                                         {"PALS_LOCAL_RANKID", "2"},
                                                         {"PMIX_MCA_psec", "none"}};
    for (const auto& [name, value] : expected)
        CHECK_MESSAGE(environment.at(name) == value, name);
    CHECK(environment.at("AUTOLAUNCH_WITHIN") == "slurm=4711.0:50001");
    CHECK_FALSE(environment.contains("SLURM_TASK_PID"));
    CHECK_FALSE(environment.contains("PMIX_RANK"));             // of a server that knows the agent
    CHECK_FALSE(environment.contains("OMPI_COMM_WORLD_SIZE"));  // nothing is made up
    const auto outside = plan_of(trainer());
    for (const auto& [name, value] :
         as_map(rank_environment(outside, outside.ranks[0], kFacts, {})))
        CHECK_FALSE_MESSAGE(name.starts_with("SLURM_"), name);
}

TEST_CASE("a batch script's ranks have what srun would have told them") {
    const EnvironmentMap inherited = {{"SLURM_JOB_ID", "4711"}, {"SLURMD_NODENAME", "node1"}};
    const auto plan = plan_of(with_ranks(RanksPerNode::fixed, 2), slurm(1), kCpuMachine, inherited);
    const auto environment = as_map(rank_environment(plan, plan.ranks[1], kFacts, inherited));
    CHECK(environment.at("SLURM_STEP_NODELIST") == "node1");
    CHECK(environment.at("SLURM_PROCID") == "1");
    CHECK(environment.at("SLURM_STEP_NUM_TASKS") == "2");
    CHECK_FALSE(environment.contains("SLURM_STEP_ID"));
    CHECK(environment.at("AUTOLAUNCH_WITHIN") == "slurm=4711");
}

TEST_CASE("a rank that has a task of its own keeps that task's PMIx server") {
    const EnvironmentMap inherited = {{"SLURM_JOB_ID", "4711"}, {"PMIX_RANK", "1"}};
    const auto plan = plan_of(with_ranks(RanksPerNode::fixed, 1), slurm(2), kCpuMachine, inherited);
    CHECK(as_map(rank_environment(plan, plan.ranks[0], kFacts, inherited)).at("PMIX_RANK") == "1");
}

TEST_CASE("--virtual-local-rank: each rank is local rank 0 and sees one device") {
    JobSpec spec = with_ranks(RanksPerNode::fixed, 2);
    spec.resources.virtual_local_rank = true;
    const auto second = [&](const EnvironmentMap& inherited) {
        const auto plan = plan_of(spec, local(), kCpuMachine, inherited);
        return as_map(rank_environment(plan, plan.ranks[1], kFacts, inherited));
    };
    CHECK(second({}).at("LOCAL_RANK") == "0");
    CHECK(second({}).at("AUTOLAUNCH_LOCAL_RANK") == "1");
    CHECK(second({}).at("LOCAL_WORLD_SIZE") == "2");
    CHECK(second({}).at("CUDA_VISIBLE_DEVICES") == "1");
    CHECK(second({{"CUDA_VISIBLE_DEVICES", "3,5"}}).at("CUDA_VISIBLE_DEVICES") == "5");
}

TEST_CASE("several programs are ranks of one world, with roles") {
    JobSpec spec = trainer({"a"});
    spec.programs = {{{"a"}, 1, "lead"}, {{"b"}, 2, "work"}, {{"c"}, 1, "lead"}};
    spec.resources.total_ranks = 4;
    const auto plan = plan_of(spec);
    REQUIRE(plan.ranks.size() == 4);
    std::string order;
    for (const RankPlan& rank : plan.ranks)
        order += rank.argv[0] + rank.role.substr(0, 1) + std::to_string(rank.role_rank) + "/" +
                 std::to_string(rank.role_size) + " ";
    CHECK(order == "al0/2 bw0/2 bw1/2 cl1/2 ");
    const auto environment = as_map(rank_environment(plan, plan.ranks[3], kFacts, {}));
    CHECK(environment.at("ROLE_NAME") == "lead");
    CHECK(environment.at("ROLE_RANK") == "1");
    CHECK(environment.at("ROLE_WORLD_SIZE") == "2");
    CHECK(environment.at("RANK") == "3");
}

TEST_CASE("a number of ranks in all is spread over the nodes") {
    JobSpec spec = trainer();
    spec.resources.total_ranks = 5;
    Allocation allocation = slurm(2);
    CHECK(decide_shape(spec, allocation, kCpuMachine).ranks_here == 2);
    allocation.node_rank = 0;
    CHECK(decide_shape(spec, allocation, kCpuMachine).ranks_here == 3);
    allocation.numbered_by_arrival = true;
    CHECK(refusal([&] {
              decide_shape(spec, allocation, kCpuMachine);
          }).starts_with("5 ranks in all cannot be spread evenly"));
    spec.resources.total_ranks = 1;
    CHECK(refusal([&] { decide_shape(spec, allocation, kCpuMachine); }) ==
          "1 ranks are asked for in all, on 2 nodes");
    spec.resources.total_ranks = 3;
    spec.resources.ranks_mode = RanksPerNode::fixed;
    spec.resources.ranks_per_node = 2;
    CHECK(refusal([&] { plan_of(spec, slurm(2)); }) ==
          "3 ranks are asked for in all, but 4 would be started");
}

TEST_CASE("what the user sets wins") {
    const EnvironmentMap inherited = {
        {"OMP_NUM_THREADS", "7"}, {"NCCL_DEBUG", "INFO"}, {"CUDA_DEVICE_ORDER", "FASTEST_FIRST"}};
    JobSpec spec = trainer();
    spec.trainer.env = {{"OMP_PROC_BIND", "true"}, {"MASTER_ADDR", "elsewhere"}};
    spec.nccl.env = {{"NCCL_NTHREADS", "128"}};
    const auto plan = plan_of(spec, local(), kGpuMachine, inherited);
    const auto environment = as_map(rank_environment(plan, plan.ranks[0], kFacts, inherited));
    CHECK(environment.at("OMP_NUM_THREADS") == "7");
    CHECK(environment.at("NCCL_DEBUG") == "INFO");
    CHECK(environment.at("CUDA_DEVICE_ORDER") == "FASTEST_FIRST");
    CHECK(environment.at("OMP_PROC_BIND") == "true");
    CHECK(environment.at("MASTER_ADDR") == "elsewhere");
    CHECK(environment.at("NCCL_NTHREADS") == "128");
    CHECK(
        plan.warnings ==
        Lines{"trainer.env sets MASTER_ADDR, which the launcher sets for every rank: ranks may not "
              "find each other"});
    REQUIRE(plan.nccl.kept.size() == 2);
    CHECK(plan.nccl.kept[0].reason == "from your environment");
    CHECK(plan.nccl.kept[1].reason == "from nccl.env");
}

TEST_CASE("trainer.env wins over nccl.env, and over what we would set") {
    JobSpec spec = trainer();
    spec.nccl.env = {{"NCCL_DEBUG", "INFO"}};
    spec.trainer.env = {{"NCCL_DEBUG", "TRACE"}, {"OMP_NUM_THREADS", "1"}};
    const auto plan = plan_of(spec, local(), kGpuMachine);
    const auto environment = as_map(rank_environment(plan, plan.ranks[0], kFacts, {}));
    CHECK(environment.at("NCCL_DEBUG") == "TRACE");
    CHECK(environment.at("OMP_NUM_THREADS") == "1");
    CHECK(plan.nccl.set.empty());
}

TEST_CASE("NCCL is left alone without GPUs, or when the spec says so") {
    const auto has_debug = [](const LaunchPlan& plan) {
        return as_map(rank_environment(plan, plan.ranks[0], kFacts, {})).contains("NCCL_DEBUG");
    };
    CHECK_FALSE(has_debug(plan_of(trainer())));
    CHECK(has_debug(plan_of(trainer(), local(), kGpuMachine)));
    JobSpec unmanaged = trainer();
    unmanaged.nccl.manage = false;
    CHECK_FALSE(has_debug(plan_of(unmanaged, local(), kGpuMachine)));
}

TEST_CASE("NCCL's settings from outside the machine: interface, nccl.conf and profile") {
    NodeTopology topology = kGpuMachine;
    topology.network_interfaces = {{"eth7"}};
    const Roster roster = {{{"n0", 8}, {"n1", 8}}, 1, "run"};
    NcclSite site;
    site.rendezvous_interface = "eth7";
    site.conf.settings = {{"NCCL_DEBUG", "INFO", "in /etc/nccl.conf", "/etc/nccl.conf:4"}};
    site.profile = NcclProfile{"oci", {{"NCCL_IB_TC", "41", "lossless", "profile oci"}}, {}, {}};
    JobSpec spec = trainer();
    const auto plan = make_plan(spec, slurm(2), topology, roster, {}, "/", site);
    const auto environment = as_map(rank_environment(plan, plan.ranks[0], kFacts, {}));
    CHECK(environment.at("NCCL_SOCKET_IFNAME") == "=eth7");
    CHECK(environment.at("GLOO_SOCKET_IFNAME") == "eth7");
    CHECK(environment.at("NCCL_IB_TC") == "41");
    CHECK_FALSE(environment.contains("NCCL_DEBUG"));  // NCCL reads the file itself
    const std::string table = plan_table(plan);
    CHECK(table.find("in /etc/nccl.conf (/etc/nccl.conf:4)") != std::string::npos);
    CHECK(table.find("lossless (profile oci)") != std::string::npos);
    CHECK(table.find("at start                the interface") == std::string::npos);
    CHECK(plan_table(make_plan(spec, slurm(2), topology, roster, {}, "/"))
              .find("the interface that reaches the head") != std::string::npos);

    spec.nccl.manage = false;
    const auto unmanaged = make_plan(spec, slurm(2), topology, roster, {}, "/", site);
    const auto left_alone = as_map(rank_environment(unmanaged, unmanaged.ranks[0], kFacts, {}));
    for (const auto& [name, value] : left_alone) {
        CHECK_FALSE(name.starts_with("NCCL_"));
        CHECK(name != "GLOO_SOCKET_IFNAME");
    }
}

TEST_CASE("of whose end Slurm can be asked") {
    CHECK(plan_of(trainer({"t"})).slurm_job_id.empty());
    Allocation allocation = slurm(1);
    allocation.ends_at = std::chrono::system_clock::from_time_t(1'700'000'000);
    const LaunchPlan in_step = plan_of(trainer({"t"}), allocation);
    CHECK(in_step.slurm_job_id == "4711");
    CHECK(in_step.ends_at == allocation.ends_at);
    allocation.job_id = "4712";
    CHECK(plan_of(trainer({"t"}), allocation).slurm_job_id == "4712");
}

TEST_CASE("several nodes count their ranks one after another") {
    const auto plan = plan_of(trainer(), slurm(4), kGpuMachine);
    CHECK(plan.world_size == 32);
    CHECK(plan.ranks.front().rank == 24);
    CHECK(plan.ranks.front().local_rank == 0);
    JobSpec spec = trainer();
    spec.resources.nodes = 2;
    const Allocation second =
        read_allocation({}, "b", {.nodes = 2, .node_rank = 1, .head_address = "a"});
    CHECK(plan_of(spec, second).world_size == 2);
    CHECK(plan_of(spec, second).ranks[0].rank == 1);
    CHECK(plan_of(spec, second).node_names == Lines{"a", "b"});
    CHECK(refusal([&] { plan_of(spec, slurm(1)); }) ==
          "2 nodes are asked for, but the slurm allocation has 1");
}

TEST_CASE("nodes may differ in their ranks") {
    Roster roster;
    roster.nodes = {{"a", 3}, {"b", 1}, {"c", 4}};
    roster.self = 2;
    CHECK(roster.first_rank(0) == 0);
    CHECK(roster.first_rank(1) == 3);
    CHECK(roster.first_rank(2) == 4);
    CHECK(roster.world_size() == 8);
    const auto plan = make_plan(trainer(), slurm(3), kCpuMachine, roster, {}, "/");
    REQUIRE(plan.ranks.size() == 4);
    const auto environment = as_map(rank_environment(plan, plan.ranks[1], kFacts, {}));
    CHECK(environment.at("RANK") == "5");
    CHECK(environment.at("LOCAL_RANK") == "1");
    CHECK(environment.at("WORLD_SIZE") == "8");
    CHECK(environment.at("LOCAL_WORLD_SIZE") == "4");
    CHECK(environment.at("GROUP_RANK") == "2");
    CHECK(environment.at("GROUP_WORLD_SIZE") == "3");
}

TEST_CASE("several tasks on a node are one a rank") {
    Allocation tasks = slurm(1);
    tasks.tasks_on_node = 8;
    const auto ranks = [&](const JobSpec& spec) {
        return decide_shape(spec, tasks, kGpuMachine).ranks_here;
    };
    const auto each = [](int count) {
        JobSpec spec = with_ranks(RanksPerNode::fixed, count);
        spec.resources.ranks_of_each_launcher = true;
        return spec;
    };
    CHECK(ranks(trainer()) == 8);
    CHECK(decide_shape(trainer(), tasks, kCpuMachine).ranks_here == 8);
    CHECK(ranks(with_ranks(RanksPerNode::fixed, 8)) == 8);
    CHECK(ranks(with_ranks(RanksPerNode::gpu)) == 8);
    CHECK(ranks(each(1)) == 8);
    CHECK(refusal([&] { ranks(each(8)); }) ==
          "srun started 8 tasks on this node and --nproc-per-node 8 asks each for 8 ranks: 64 "
          "processes");
    CHECK(refusal([&] { ranks(with_ranks(RanksPerNode::fixed, 4)); }) ==
          "srun started 8 tasks on this node, and the spec asks for 4 ranks a node");
    tasks.tasks_on_node = 1;
    CHECK(ranks(each(3)) == 3);
}

TEST_CASE("the way to bind comes from the spec") {
    JobSpec spec = trainer();
    spec.resources.binding = "exclusive";
    CHECK(plan_of(spec, local(), kGpuMachine).ranks[1].binding.physical_cores == 8);
    spec.resources.binding = "tight";
    CHECK(refusal([&] { plan_of(spec); }) == "'tight' is no way to bind ranks");
}

TEST_CASE("cores a GPU that are not there") {
    JobSpec spec = trainer();
    spec.resources.cpu_cores_per_gpu = 16;
    CHECK(plan_of(spec, local(), kGpuMachine).warnings ==
          Lines{"16 cores a GPU are asked for, 128 in all, but 64 may be used here"});
}

TEST_CASE("a cgroup that allows less time than there are CPUs") {
    NodeTopology topology = kGpuMachine;  // 64 cores of two threads
    const auto threads = [&](const JobSpec& spec, const EnvironmentMap& environment = {}) {
        const LaunchPlan plan = plan_of(spec, local(), topology, environment);
        for (const VariableChoice& choice : plan.ranks[0].environment)
            if (choice.name == "OMP_NUM_THREADS")
                return choice.value + ": " + choice.reason;
        return std::string("(none)");
    };
    CHECK(threads(trainer()) == "8: physical cores of the rank");
    for (const double enough : {128.0, 200.0}) {
        topology.cpu_quota = enough;
        CHECK(plan_of(trainer(), local(), topology).warnings.empty());
        CHECK(threads(trainer()) == "8: physical cores of the rank");
    }
    topology.cpu_quota = 12.5;
    CHECK(
        plan_of(trainer(), local(), topology).warnings ==
        Lines{"the cgroup allows 12.5 CPUs' worth of time on 128 CPUs: ranks that use more are "
              "stopped for part of "
              "every period; ask for 128 CPUs, or for no limit (cpu.max, Kubernetes' limits.cpu)"});
    CHECK(threads(trainer()) == "1: its share of 12.5 CPUs' worth of time");
    CHECK(threads(with_ranks(RanksPerNode::fixed, 2)) ==
          "6: its share of 12.5 CPUs' worth of time");
    CHECK(threads(trainer(), {{"OMP_NUM_THREADS", "32"}}) == "32: kept from your environment");
    topology.cpu_quota = 0.5;
    CHECK(threads(trainer()) == "1: its share of 0.5 CPUs' worth of time");
    topology.cpu_quota = 63;  // less than the CPUs, but not than the ranks' cores
    CHECK(threads(with_ranks(RanksPerNode::fixed, 1)) == "32: physical cores of the rank");
}

TEST_CASE("ranks may use the memory of the NUMA nodes, or the cgroup's limit where that is less") {
    NodeTopology topology = kGpuMachine;
    std::uint64_t all = 0;
    for (const NumaNode& node : topology.numa_nodes)
        all += node.memory_bytes;
    REQUIRE(all > 4096);
    CHECK(plan_of(trainer(), local(), topology).node_memory_bytes == all);
    topology.memory_limit_bytes = all + 1;
    CHECK(plan_of(trainer(), local(), topology).node_memory_bytes == all);
    topology.memory_limit_bytes = 4096;
    CHECK(plan_of(trainer(), local(), topology).node_memory_bytes == 4096);
    for (NumaNode& node : topology.numa_nodes)
        node.memory_bytes = 0;
    CHECK(plan_of(trainer(), local(), topology).node_memory_bytes == 4096);
}

TEST_CASE("one line for the banner") {
    CHECK(describe_placement(plan_of(with_ranks(RanksPerNode::fixed, 2))) ==
          "2 of 2 ranks here · mode node · 1 NUMA node · no GPUs");
    CHECK(describe_placement(plan_of(trainer(), slurm(2), kGpuMachine)) ==
          "8 of 16 ranks here · mode node · 2 NUMA nodes · 8 GPUs");
}

// tests/data/plan holds what `autolaunch plan` prints for two sockets with eight GPUs. To renew it
// after a wanted change: AUTOLAUNCH_UPDATE_GOLDEN=1 unit_plan_test, and read the difference.
TEST_CASE("the table and the JSON of a machine with two sockets and eight GPUs") {
    JobSpec spec = trainer({"python3", "train.py"});
    spec.resources.binding = "exclusive";
    spec.name = "gpt-small";
    spec.nccl.env = {{"NCCL_ALGO", "Ring"}};
    NodeTopology topology = kGpuMachine;
    topology.hcas.push_back({"mlx5_0", "0000:20:00.0", 0, {{1, true, "InfiniBand", 400}}});
    auto plan =
        plan_of(spec, slurm(1), topology, {{"NCCL_IB_DISABLE", "1"}, {"OMP_NUM_THREADS", "4"}});
    plan.mpi.reason = "the program is linked with no MPI";
    plan.output = {true, "/usr/libexec/autolaunch/autolaunch-lines.so", "lines come at once"};
    const std::string folder = std::string(AUTOLAUNCH_SOURCE_DIR) + "/tests/data/plan/";
    const std::map<std::string, std::string> outputs = {{"two_sockets.txt", plan_table(plan)},
                                                        {"two_sockets.json", plan_json(plan)}};
    for (const auto& entry : outputs) {
        const std::string &name = entry.first, &output = entry.second;
        INFO(name);
        if (std::getenv("AUTOLAUNCH_UPDATE_GOLDEN") != nullptr)
            write_file(folder + name, output);
        CHECK(output == read_file(folder + name));
    }
    const auto json = nlohmann::json::parse(outputs.at("two_sockets.json"));
    CHECK(json["format"] == 1);
    CHECK(json["ranks"].size() == 8);
    CHECK(json["ranks"][5]["cpus"] == nlohmann::json(plan.ranks[5].binding.cpus));
}

TEST_CASE("JSON survives names that are not UTF-8") {
    const auto plan = plan_of(trainer({"train", "\xff\xfe"}));
    CHECK(nlohmann::json::parse(plan_json(plan))["ranks"].size() == 1);
}

TEST_CASE("settings that nothing acts on yet are named") {
    JobSpec spec = trainer();
    spec.resources.memory_per_gpu_bytes = 80'000'000'000;
    spec.monitoring.slurm_integration = true;
    CHECK(plan_of(spec).warnings ==
          Lines{"no effect in this version: resource_management.memory_per_gpu, "
                "monitoring.slurm_integration"});
}

TEST_CASE("measurements that are asked for in vain are said") {
    JobSpec spec = trainer();
    CHECK(plan_of(spec).warnings.empty());
    spec.monitoring.resource_tracking = true;
    spec.monitoring.metrics_listen = "control";
    CHECK(plan_of(spec).warnings.empty());
    spec.monitoring.resource_tracking = false;
    REQUIRE(plan_of(spec).warnings.size() == 1);
    CHECK(plan_of(spec).warnings[0].find("resource_tracking is false") != std::string::npos);
    spec.monitoring = {};
    spec.monitoring.metrics_port = 9842;
    REQUIRE(plan_of(spec).warnings.size() == 1);
    CHECK(plan_of(spec).warnings[0].find("without monitoring.metrics_listen") != std::string::npos);
    spec.monitoring = {};
    spec.monitoring.interval_seconds = 0.25;
    REQUIRE(plan_of(spec).warnings.size() == 1);
    CHECK(plan_of(spec).warnings[0].find("interval_seconds is below 1") != std::string::npos);
}

TEST_CASE("ranks that are named for stdin, a debugger or a wrapper must be there") {
    JobSpec spec = trainer();
    spec.resources.ranks_mode = RanksPerNode::fixed;
    spec.resources.ranks_per_node = 4;
    spec.trainer.wrap = {{"0,2-3", "perf record"}, {"1", "strace"}};
    spec.trainer.input = {InputSpec::To::rank, 3, true};
    spec.debug_rank = 3;
    const LaunchPlan plan = plan_of(spec);
    CHECK(plan.ranks[2].wrap == "perf record");
    CHECK(plan.ranks[1].wrap == "strace");
    CHECK(plan_table(plan).find("perf record around rank 0,2-3") != std::string::npos);
    CHECK(as_map(rank_environment(plan, plan.ranks[0], kFacts, {})).at("AUTOLAUNCH_DEBUG_RANK") ==
          "3");

    JobSpec wrong = spec;
    wrong.trainer.input.rank = 4;
    CHECK(refusal([&] { plan_of(wrong); }) ==
          "stdin is to go to rank 4, but there are ranks 0 to 3");
    wrong = spec;
    wrong.debug_rank = 4;
    CHECK(refusal([&] { plan_of(wrong); }) ==
          "rank 4 is to be debugged, but there are ranks 0 to 3");
    wrong = spec;
    wrong.trainer.wrap = {{"3-4", "perf"}};
    CHECK(refusal([&] { plan_of(wrong); }) ==
          "'perf' is to be around ranks 3-4, but there are ranks 0 to 3");
    wrong.trainer.wrap = {{"all", "perf"}, {"2", "nice"}};
    CHECK(refusal([&] { plan_of(wrong); }) == "rank 2 is wrapped twice: in 'nice' and in 'perf'");
}

}  // namespace plan_test
