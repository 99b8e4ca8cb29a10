// Who a process is, from environments as the launchers leave them.
#include "session/session_protocol.hpp"
#include "session/store_place.hpp"
#include "session/task_counts.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/session.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <sstream>
#include <string>

namespace session_environment_test {

using namespace autolaunch;

namespace {

using Environment = std::map<std::string, std::string>;

/// "NAME=value NAME=value …", as env(1) prints them.
Environment captured(const std::string& text) {
    Environment environment;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
        const auto equals = word.find('=');
        environment[word.substr(0, equals)] = word.substr(equals + 1);
    }
    return environment;
}

RankInfo read(const std::string& text) { return Session::read_environment(captured(text)); }

/// The error's text and hint, or "" when the environment was taken.
std::string complaint(const std::string& text) {
    try {
        read(text);
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::invalid_argument);
        CHECK_FALSE(error.hint().empty());
        return error.what();
    }
    return {};
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

void check(const RankInfo& info, LaunchedBy by, int rank, int world, int local, int local_world,
           int node, int nodes) {
    CHECK(info.launched_by == by);
    CHECK(info.rank == rank);
    CHECK(info.world_size == world);
    CHECK(info.local_rank == local);
    CHECK(info.local_world_size == local_world);
    CHECK(info.node_rank == node);
    CHECK(info.node_count == nodes);
}

// sbatch, Slurm 22.05, 4 nodes x 8 tasks x 8 GPUs, rank 13.
const char kSrunTask[] =
    "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 SLURMD_NODENAME=node2 SLURM_CLUSTER_NAME=box "
    "SLURM_CPUS_ON_NODE=64 "
    "SLURM_CPUS_PER_TASK=8 SLURM_DISTRIBUTION=block SLURM_GPUS_ON_NODE=8 SLURM_GPUS_PER_NODE=8 "
    "SLURM_GTIDS=8,9,10,11,12,13,14,15 SLURM_JOBID=2 SLURM_JOB_CPUS_PER_NODE=64(x4) "
    "SLURM_JOB_GPUS=0,1,2,3,4,5,6,7 "
    "SLURM_JOB_ID=2 SLURM_JOB_NODELIST=node[1-4] SLURM_JOB_NUM_NODES=4 "
    "SLURM_LAUNCH_NODE_IPADDR=10.213.0.11 "
    "SLURM_LOCALID=5 SLURM_NNODES=4 SLURM_NODEID=1 SLURM_NPROCS=32 SLURM_NTASKS=32 "
    "SLURM_NTASKS_PER_NODE=8 "
    "SLURM_PROCID=13 SLURM_SRUN_COMM_HOST=10.213.0.11 SLURM_SRUN_COMM_PORT=46359 SLURM_STEPID=0 "
    "SLURM_STEP_GPUS=0,1,2,3,4,5,6,7 SLURM_STEP_ID=0 SLURM_STEP_LAUNCHER_PORT=46359 "
    "SLURM_STEP_NODELIST=node[1-4] "
    "SLURM_STEP_NUM_NODES=4 SLURM_STEP_NUM_TASKS=32 SLURM_STEP_TASKS_PER_NODE=8(x4) "
    "SLURM_TASKS_PER_NODE=8(x4) "
    "SLURM_TOPOLOGY_ADDR=node2 SLURM_TOPOLOGY_ADDR_PATTERN=node ";

// The same job's batch script: no step id.
const char kBatchScript[] =
    "SLURMD_NODENAME=node1 SLURM_JOBID=2 SLURM_JOB_ID=2 SLURM_LOCALID=0 SLURM_NNODES=4 "
    "SLURM_NODEID=0 SLURM_NPROCS=32 "
    "SLURM_NTASKS=32 SLURM_PROCID=0 SLURM_TASKS_PER_NODE=8(x4) SLURM_GTIDS=0 ";

// mpirun 4.1.4, two processes on one machine, rank 1.
const char kMpirun[] =
    "OMPI_APP_CTX_NUM_PROCS=2 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
    "OMPI_COMM_WORLD_NODE_RANK=1 "
    "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_UNIVERSE_SIZE=2 PMIX_NAMESPACE=1914568705 "
    "PMIX_RANK=1 ";

const char kTorchrun[] =
    "RANK=5 LOCAL_RANK=1 WORLD_SIZE=8 LOCAL_WORLD_SIZE=4 GROUP_RANK=1 GROUP_WORLD_SIZE=2 "
    "ROLE_RANK=5 ROLE_NAME=default "
    "ROLE_WORLD_SIZE=8 MASTER_ADDR=node1 MASTER_PORT=29400 TORCHELASTIC_RESTART_COUNT=2 "
    "TORCHELASTIC_MAX_RESTARTS=3 "
    "TORCHELASTIC_RUN_ID=job7 TORCHELASTIC_USE_AGENT_STORE=True OMP_NUM_THREADS=1 ";

}  // namespace

TEST_CASE("without any launcher: rank 0 of 1") {
    check(read("HOME=/root PATH=/bin"), LaunchedBy::nobody, 0, 1, 0, 1, 0, 1);
    CHECK(read("").run_id.empty());
}

TEST_CASE("a bare srun task") {
    const RankInfo info = read(kSrunTask);
    check(info, LaunchedBy::slurm, 13, 32, 5, 8, 1, 4);
    CHECK(info.run_id == "2.0");
    CHECK(info.generation == 0);
    CHECK(read(std::string(kSrunTask) + "SLURM_RESTART_COUNT=1").generation == 1);
}

TEST_CASE("nodes with different numbers of tasks") {
    const std::string uneven =
        std::string(kSrunTask) + "SLURM_STEP_TASKS_PER_NODE=8(x3),4 SLURM_STEP_NUM_TASKS=28 ";
    CHECK(read(uneven).local_world_size == 8);
    const RankInfo last = read(uneven + "SLURM_NODEID=3 SLURM_PROCID=27 SLURM_LOCALID=3");
    check(last, LaunchedBy::slurm, 27, 28, 3, 4, 3, 4);
    CHECK(contains(complaint(uneven + "SLURM_NODEID=3 SLURM_LOCALID=4"), "SLURM_LOCALID=4"));
}

TEST_CASE("a batch script, salloc's shell and the interactive step are no tasks") {
    check(read(kBatchScript), LaunchedBy::nobody, 0, 1, 0, 1, 0, 1);
    check(read("SLURM_JOB_ID=2 SLURM_NTASKS=32 SLURM_NNODES=4"), LaunchedBy::nobody, 0, 1, 0, 1, 0,
          1);
    const std::string interactive =
        std::string(kSrunTask) + "SLURM_STEP_ID=4294967290 SLURM_STEPID=4294967290";
    check(read(interactive), LaunchedBy::nobody, 0, 1, 0, 1, 0, 1);
}

TEST_CASE("Open MPI's mpirun, also from inside a Slurm job") {
    const RankInfo info = read(kMpirun);
    check(info, LaunchedBy::mpi, 1, 2, 1, 2, 0, 1);
    CHECK(info.run_id == "1914568705");
    check(read(std::string(kBatchScript) + kMpirun), LaunchedBy::mpi, 1, 2, 1, 2, 0, 1);
    const std::string two_nodes =
        "OMPI_COMM_WORLD_RANK=6 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=2 "
        "OMPI_COMM_WORLD_LOCAL_SIZE=4";
    check(read(two_nodes), LaunchedBy::mpi, 6, 8, 2, 4, 1, 2);
}

TEST_CASE("MPICH's mpiexec, and srun --mpi=pmi2, which only looks like it") {
    check(read("PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2"), LaunchedBy::mpi, 3, 4,
          1, 2, 1, 2);
    check(read(std::string(kSrunTask) + "PMI_RANK=13 PMI_SIZE=32 PMI_FD=9"), LaunchedBy::slurm, 13,
          32, 5, 8, 1, 4);
    CHECK(contains(complaint("PMI_RANK=3"), "PMI_SIZE is not set"));
}

TEST_CASE("torchrun, and autolaunch before everything else") {
    const RankInfo info = read(std::string(kMpirun) + kSrunTask + kTorchrun);
    check(info, LaunchedBy::torchrun, 5, 8, 1, 4, 1, 2);
    CHECK(info.generation == 2);
    CHECK(info.max_restarts == 3);
    CHECK(info.run_id == "job7");
    const RankInfo ours =
        read(std::string(kTorchrun) + "AUTOLAUNCH_GENERATION=4 AUTOLAUNCH_SOCKET=/run/s");
    check(ours, LaunchedBy::autolaunch, 5, 8, 1, 4, 1, 2);
    CHECK(ours.generation == 4);
}

TEST_CASE(
    "a script that sets only what env:// needs, and one that sets the size for Slurm's tasks") {
    check(read("RANK=3 WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=1"), LaunchedBy::torchrun, 3, 4, 0, 1,
          3, 4);
    check(read(std::string(kSrunTask) + "WORLD_SIZE=32 MASTER_ADDR=node1"), LaunchedBy::slurm, 13,
          32, 5, 8, 1, 4);
}

TEST_CASE("contradictions name the variable and the value") {
    CHECK(contains(complaint("RANK=4 WORLD_SIZE=4"), "RANK=4 must be below WORLD_SIZE=4"));
    CHECK(contains(complaint("RANK=4"), "WORLD_SIZE is not set"));
    CHECK(contains(complaint("RANK=x WORLD_SIZE=4"), "RANK=x"));
    CHECK(contains(complaint("RANK=-1 WORLD_SIZE=4"), "RANK=-1"));
    CHECK(contains(complaint("RANK=0 WORLD_SIZE=99999999999"), "WORLD_SIZE=99999999999"));
    CHECK(contains(complaint("RANK=0 WORLD_SIZE=0"), "WORLD_SIZE=0"));
    CHECK(contains(complaint("AUTOLAUNCH_SOCKET=/run/s"), "RANK is not set"));
    CHECK(contains(complaint("TORCHELASTIC_RUN_ID=x"), "RANK is not set"));
    CHECK(contains(complaint(std::string(kTorchrun) + "LOCAL_RANK=4"),
                   "LOCAL_RANK=4 must be below LOCAL_WORLD_SIZE=4"));
    CHECK(contains(complaint(std::string(kTorchrun) + "GROUP_RANK=2"), "GROUP_RANK=2"));
    CHECK(contains(complaint(std::string(kSrunTask) + "SLURM_PROCID=32"), "SLURM_PROCID=32"));
    CHECK(contains(complaint(std::string(kSrunTask) + "SLURM_NODEID=4"), "SLURM_NODEID=4"));
    CHECK(contains(complaint(std::string(kMpirun) + "OMPI_COMM_WORLD_SIZE=1"),
                   "OMPI_COMM_WORLD_RANK=1"));
}

TEST_CASE("Slurm's counts of tasks") {
    CHECK(tasks_on_node("V", "8(x3),4", 2) == 8);
    CHECK(tasks_on_node("V", "8(x3),4", 3) == 4);
    CHECK(tasks_on_node("V", "1", 0) == 1);
    CHECK_THROWS_AS(tasks_on_node("V", "8(x3),4", 4), Error);
    for (const char* wrong :
         {"", "x", "8(", "8()", "8(x)", "8(x3", "8(y3)", "0", "-1", "8(x-3)", "8,,4(", "8(x3))"}) {
        CHECK_THROWS_AS(tasks_on_node("V", wrong, 1), Error);
    }
}

TEST_CASE("session lines survive the way there and back") {
    using namespace autolaunch::session;
    Step step;
    step.step = 7;
    step.loss = std::nan("");
    step.seconds = 0.25;
    std::string buffer =
        format(RankMessage(step)) + format(RankMessage(Message{"two\nlines \xff"}));
    std::string line;
    REQUIRE(take_line(buffer, line));
    const auto back = std::get<Step>(*parse_rank_line(line));
    CHECK(back.step == 7);
    CHECK(std::isnan(*back.loss));
    CHECK(back.seconds == 0.25);
    CHECK_FALSE(back.tokens.has_value());
    REQUIRE(take_line(buffer, line));
    CHECK(std::get<Message>(*parse_rank_line(line)).text == "two\nlines \xef\xbf\xbd");
    CHECK_FALSE(take_line(buffer, line));
    const auto stop = std::get<Stop>(
        *parse_agent_line("{\"type\":\"stop\",\"reason\":\"r\",\"grace_seconds\":30}"));
    CHECK(stop.grace_seconds == 30);
    CHECK(stop.until == 0);
    line = format(AgentMessage(Stop{"r", 30, 1234.5}));
    line.pop_back();
    CHECK(std::get<Stop>(*parse_agent_line(line)).until == 1234.5);
    CHECK_FALSE(parse_agent_line("{\"type\":\"from the future\"}").has_value());
    line = format(RankMessage(MemoryAsked{"g", 3, 1, 8192, {}}));
    line.pop_back();
    const auto asked = std::get<MemoryAsked>(*parse_rank_line(line));
    CHECK((asked.group == "g" && asked.shard == 3 && asked.slot == 1 && asked.bytes == 8192));
    line = format(AgentMessage(MemoryAnswer{0, "no", "ask less"}));
    line.pop_back();
    const auto refused = std::get<MemoryAnswer>(*parse_agent_line(line));
    CHECK((refused.bytes == 0 && refused.refused == "no" && refused.hint == "ask less"));
}

TEST_CASE("no line is longer than the limit, and none that is gets in") {
    using namespace autolaunch::session;
    const std::string line = format(RankMessage(Message{std::string(1U << 20, '\1')}));
    CHECK(line.size() <= kMaxLineBytes);
    CHECK(line.size() > kMaxLineBytes / 4);
    std::string endless(kMaxLineBytes, 'x');
    std::string taken;
    CHECK_THROWS_AS(take_line(endless, taken), Error);
}

TEST_CASE("lines that are no messages are refused") {
    using namespace autolaunch::session;
    for (const char* wrong :
         {"", "x", "[]", "7", "{}", "{\"type\":1}", "{\"type\":\"step\"}",
          "{\"type\":\"step\",\"step\":1.5}", "{\"type\":\"step\",\"step\":18446744073709551615}",
          "{\"type\":\"step\",\"step\":1,\"loss\":\"low\"}",
          "{\"type\":\"step\",\"step\":1,\"loss\":[]}", "{\"type\":\"message\",\"text\":3}",
          "{\"type\":\"hello\"}",
          "{\"type\":\"hello\",\"protocol\":1,\"rank\":-1,\"local_rank\":0,\"generation\":0,"
          "\"pid\":1}"}) {
        CHECK_THROWS_AS(parse_rank_line(wrong), Error);
    }
}

TEST_CASE("what a rank of autolaunch starts through another launcher is of that one's job") {
    const std::string rank =
        "AUTOLAUNCH_GENERATION=0 RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 "
        "GROUP_RANK=1 GROUP_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=9 ";
    const std::string in_step = std::string(kSrunTask) + rank;
    check(read(in_step + "AUTOLAUNCH_WITHIN=slurm=2.0:46359 SLURM_PROCID=3"),
          LaunchedBy::autolaunch, 3, 4, 1, 2, 1, 2);
    // srun within it: another step, another port
    check(read(in_step + "AUTOLAUNCH_WITHIN=slurm=2.1:40000"), LaunchedBy::slurm, 13, 32, 5, 8, 1,
          4);
    check(read(in_step + "AUTOLAUNCH_WITHIN=slurm=2"), LaunchedBy::slurm, 13, 32, 5, 8, 1, 4);
    check(read(in_step), LaunchedBy::slurm, 13, 32, 5, 8, 1, 4);  // it was outside of Slurm
    // sbatch within it: another job, which inherits the step
    check(read(in_step + "AUTOLAUNCH_WITHIN=slurm=1.0:46359"), LaunchedBy::nobody, 0, 1, 0, 1, 0,
          1);
    check(read(std::string(kBatchScript) + rank), LaunchedBy::nobody, 0, 1, 0, 1, 0, 1);
    // the same job's script: it started the agent itself
    check(read(std::string(kBatchScript) + rank + "AUTOLAUNCH_WITHIN=slurm=2"),
          LaunchedBy::autolaunch, 3, 4, 1, 2, 1, 2);
    check(read(rank + kMpirun), LaunchedBy::mpi, 1, 2, 1, 2, 0, 1);
    check(read(rank + kMpirun + "PMIX_NAMESPACE=autolaunch-1.0.2"), LaunchedBy::autolaunch, 3, 4, 1,
          2, 1, 2);
    const std::string hydra = "PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 PMI_FD=5 ";
    check(read(rank + hydra), LaunchedBy::mpi, 1, 2, 1, 2, 0, 1);
    check(read(rank + hydra + "AUTOLAUNCH_MPI=pmi1"), LaunchedBy::autolaunch, 3, 4, 1, 2, 1, 2);
}

TEST_CASE("where the job's store is") {
    using Server = session::StorePlace::Server;
    const auto place = [](const std::string& text) {
        return session::store_place(read(text), captured(text));
    };
    const std::string master = "MASTER_ADDR=node1 MASTER_PORT=29400 ";
    const std::string two_ranks = "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 " + master;
    const std::string ours =
        two_ranks + "TORCHELASTIC_USE_AGENT_STORE=True AUTOLAUNCH_GENERATION=0 ";
    const auto relay = place(ours + "AUTOLAUNCH_STORE=127.0.0.1:40001");
    CHECK(relay.server == Server::agent);
    CHECK(relay.host == "127.0.0.1");
    CHECK(relay.port == 40001);
    CHECK(place(ours + "AUTOLAUNCH_STORE=[::1]:2").host == "::1");
    CHECK(place(ours + "AUTOLAUNCH_STORE=node7:2").host == "node7");
    CHECK(place(ours).server == Server::agent);  // an agent that has no relay
    CHECK(place(ours).host == "node1");
    CHECK(place(ours).port == 29400);
    CHECK(place(two_ranks).server == Server::rank0);
    CHECK(place(two_ranks + "AUTOLAUNCH_STORE=left:1").host == "node1");  // of an outer launch
    CHECK(place("").server == Server::self);
    CHECK(place(master).server == Server::self);
    for (const char* wrong : {"AUTOLAUNCH_STORE=40001", "AUTOLAUNCH_STORE=:1",
                              "AUTOLAUNCH_STORE=a:", "AUTOLAUNCH_STORE=a:0",
                              "AUTOLAUNCH_STORE=a:65536", "AUTOLAUNCH_STORE=a:1x"})
        CHECK_THROWS_AS(place(ours + wrong), Error);
    CHECK_THROWS_AS(place("RANK=1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=http"), Error);
}

}  // namespace session_environment_test
