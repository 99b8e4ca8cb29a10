// What starts autolaunch beside Slurm: mpirun, Kubernetes, PBS, LSF. mpirun's environments are
// captured (Open MPI 4.1); the others follow the schedulers' manuals.

#include "captured_environment.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace allocation_launchers_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace autolaunch::launcher::testing;
using Names = std::vector<std::string>;

namespace {

// The only file there is.
FileReader file(const std::string& name, const std::string& text) {
    return [=](const std::string& path) {
        if (path != name)
            throw SystemError(2, "open " + path);
        return text;
    };
}

std::string fault(const EnvironmentMap& environment, const std::string& hostname,
                  const NodeOptions& options = {}, const FileReader& read_text = file("", "")) {
    return error_of([&] { read_allocation(environment, hostname, options, read_text); });
}

EnvironmentMap prrte(long long rank, long long size, long long local_rank, long long local_size,
                     long long daemon) {
    return {{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
            {"OMPI_COMM_WORLD_SIZE", std::to_string(size)},
            {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(local_rank)},
            {"OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(local_size)},
            {"PMIX_NAMESPACE", "prterun-login-a-4711@1"},
            {"PMIX_SERVER_URI41",
             "prterun-login-a-4711@0." + std::to_string(daemon) + ";tcp4://127.0.0.1:5"}};
}

EnvironmentMap hydra(int rank, int size, int local_rank, int local_size) {
    return {{"PMI_RANK", std::to_string(rank)},
            {"PMI_SIZE", std::to_string(size)},
            {"MPI_LOCALRANKID", std::to_string(local_rank)},
            {"MPI_LOCALNRANKS", std::to_string(local_size)}};
}

const EnvironmentMap kPod = {{"JOB_COMPLETION_INDEX", "2"},
                             {"KUBERNETES_SERVICE_HOST", "10.96.0.1"}};
const FileReader kPodHosts = file(
    "/etc/hosts",
    "127.0.0.1 localhost\n10.1.0.7\tset-w-0-2.set.ns.svc.cluster.local\tset-w-0-2 # kubelet\n");

}  // namespace

TEST_CASE("mpirun on one machine") {
    const Allocation allocation = read_allocation(captured("mpirun-one-node"), "vm");
    CHECK(allocation.source == "mpirun");
    CHECK(allocation.node_names == Names{"vm"});
    CHECK(allocation.tasks_on_node == 2);
    CHECK(allocation.local_task == 1);
    CHECK(allocation.job_id == "1205338113");
    CHECK(allocation.head_address.empty());
    CHECK(allocation.on_every_node);
}

TEST_CASE("mpirun in a Slurm job: the step is that of its daemons, not ours") {
    const Names names = {"node1", "node2", "node3"};
    const Allocation first = read_allocation(captured("mpirun-slurm-first"), "node1");
    CHECK(first.source == "mpirun");
    CHECK(first.node_names == names);
    CHECK(first.node_rank == 0);
    CHECK(first.local_task == 0);
    CHECK(first.tasks_on_node == 2);
    CHECK(first.job_id == "13.1231749121");
    CHECK(first.head_address == "10.231.0.11");
    const Allocation last = read_allocation(captured("mpirun-slurm-last"), "node3");
    CHECK(last.node_names == names);
    CHECK(last.node_rank == 2);
    CHECK(last.local_task == 1);
    CHECK(last.job_id == first.job_id);
    CHECK(last.head_address == first.head_address);
    CHECK_FALSE(last.keeps_node_order);
    const Allocation one = read_allocation(captured("mpirun-one-a-node"), "node3");
    CHECK(one.node_rank == 2);
    CHECK(one.tasks_on_node == 1);
}

TEST_CASE("mpirun without a scheduler knows no names, but numbers and its own address") {
    const auto plain =
        without(captured("mpirun-slurm-last"), {"SLURM_JOB_ID", "SLURM_JOB_NODELIST"});
    const Allocation allocation = read_allocation(plain, "c");
    CHECK(allocation.node_names == Names{"10.231.0.11", "node-rank-1", "c"});
    CHECK(allocation.node_rank == 2);
    CHECK(allocation.head_address == "10.231.0.11");
    CHECK(allocation.keeps_node_order);
    const auto two = with(plain, {{"OMPI_MCA_orte_hnp_uri",
                                   "7.0;tcp://127.0.0.1,10.0.0.4,10.1.0.4:53;tcp6://[fd::4]:5"}});
    CHECK(read_allocation(two, "c").head_address == "10.0.0.4");
    const auto v6 = with(plain, {{"OMPI_MCA_orte_hnp_uri", "7.0;tcp6://[fd00::4]:5"}});
    CHECK(read_allocation(v6, "c").head_address == "fd00::4");
}

TEST_CASE("mpirun that does not tell enough is refused, with what helps") {
    // mpirun's own node has no rank; the two of this node cannot know where the first are.
    CHECK(fault(captured("mpirun-from-outside"), "node3") ==
          "mpirun started this process, but does not tell which of the nodes this one is (start "
          "one a node, with "
          "`mpirun --map-by ppr:1:node autolaunch …`)");
    CHECK(fault(captured("mpirun-partial"), "node2").find("does not tell which of the nodes") !=
          std::string::npos);
    const auto one_a_node =
        with(captured("mpirun-from-outside"),
             {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
    CHECK(fault(one_a_node, "node3") ==
          "mpirun started this process, but does not tell where the first node is (give "
          "--master-addr=HOST, the node of "
          "rank 0, or start with srun)");
    const Allocation told = read_allocation(one_a_node, "node3", {.head_address = "node2"});
    CHECK(told.node_rank == 1);
    CHECK(told.head_address == "node2");
    const auto broken = with(captured("mpirun-one-node"), {{"OMPI_COMM_WORLD_LOCAL_SIZE", "0"}});
    CHECK(fault(broken, "vm").find("cannot be") != std::string::npos);
}

TEST_CASE("PRRTE, Open MPI 5's mpirun") {
    CHECK(read_allocation(prrte(1, 2, 1, 2, 0), "a").node_names == Names{"a"});
    const Allocation one = read_allocation(prrte(2, 3, 0, 1, 2), "c");
    CHECK(one.node_names == Names{"login-a", "node-rank-1", "c"});
    CHECK(one.node_rank == 2);
    CHECK(one.head_address == "login-a");
    CHECK(one.job_id == "prterun-login-a-4711.1");
    CHECK(read_allocation(prrte(5, 6, 1, 2, 2), "c").node_rank == 2);  // by slot
    CHECK(read_allocation(prrte(5, 6, 1, 2, 2), "c").local_task == 1);
    CHECK(read_allocation(prrte(4, 6, 1, 2, 1), "b").node_rank == 1);  // by node
    CHECK(fault(prrte(1, 2, 0, 1, 2), "c").find("where the first node is") !=
          std::string::npos);  // not on mpirun's
    CHECK(fault(prrte(2, 4, 0, 2, 2), "c").find("which of the nodes") != std::string::npos);
    CHECK(fault(prrte(2, 5, 0, 2, 1), "c") ==
          "mpirun started this process, but its 5 processes are spread unevenly, 2 of them here, "
          "so the number of nodes "
          "is not known (start one a node, with `mpirun --map-by ppr:1:node autolaunch …`)");
}

TEST_CASE("MPICH's mpiexec tells numbers only") {
    CHECK(read_allocation(hydra(1, 2, 1, 2), "a").node_names == Names{"a"});
    CHECK(read_allocation(hydra(1, 2, 1, 2), "a").local_task == 1);
    CHECK(fault(hydra(3, 4, 1, 2), "b").find("give --master-addr=HOST") != std::string::npos);
    const Allocation told = read_allocation(hydra(3, 4, 1, 2), "b", {.head_address = "a"});
    CHECK(told.node_names == Names{"a", "b"});
    CHECK(told.node_rank == 1);
    auto in_slurm = hydra(2, 4, 0, 2);
    in_slurm["SLURM_JOB_ID"] = "5";
    in_slurm["SLURM_JOB_NODELIST"] = "n[1-2]";
    CHECK(read_allocation(in_slurm, "n2").node_names == Names{"n1", "n2"});
    CHECK(read_allocation(in_slurm, "n2").job_id == "5");
}

TEST_CASE("srun's own PMIx is not mpirun") {
    auto environment = with(captured("slurm-one-task-a-node"),
                            {{"PMIX_NAMESPACE", "slurm.pmix.1.0"}, {"PMIX_RANK", "3"}});
    environment["OMPI_COMM_WORLD_RANK"] = "3";
    CHECK(read_allocation(environment, "x").source == "slurm");
}

TEST_CASE("a pod of an indexed Job or a JobSet") {
    const Allocation allocation = read_allocation(kPod, "set-w-0-2", {.nodes = 4}, kPodHosts);
    CHECK(allocation.source == "kubernetes");
    CHECK(allocation.node_names == Names{"set-w-0-0", "set-w-0-1", "set-w-0-2", "set-w-0-3"});
    CHECK(allocation.node_rank == 2);
    CHECK(allocation.head_address == "set-w-0-0.set.ns.svc.cluster.local");
    CHECK(allocation.job_id.empty());
    for (const NodeOptions& alone :
         {NodeOptions{.standalone = true}, NodeOptions{.nodes_given = true}})
        CHECK(read_allocation(kPod, "set-w-0-2", alone, kPodHosts).node_names ==
              Names{"set-w-0-2"});
    CHECK(
        read_allocation(with(kPod, {{"MASTER_ADDR", "m"}}), "set-w-0-2", {.nodes = 4}, file("", ""))
            .head_address == "m");
    CHECK(read_allocation(kPod, "gpu-host-7", {.nodes = 4, .head_address = "h"}, kPodHosts)
              .node_names == Names{"h", "node-rank-1", "gpu-host-7", "node-rank-3"});
    CHECK(fault(kPod, "set-w-0-2", {.nodes = 2}, kPodHosts) ==
          "JOB_COMPLETION_INDEX=2, but the job has 2 nodes (give --nnodes the number of pods that "
          "work together: the "
          "Job's `completions`)");
    CHECK(fault(kPod, "set-w-0-2", {.nodes = 4}, file("/etc/hosts", "10.1.0.7 set-w-0-2\n")) ==
          "this pod, set-w-0-2, has no domain in /etc/hosts, so other pods cannot be found by name "
          "(make a headless "
          "Service and name it as `subdomain` in the Job's pod template (a JobSet does both), or "
          "give "
          "--master-addr=HOST, where pod 0 can be reached, on every pod)");
    CHECK(fault(kPod, "gpu-host-7", {.nodes = 4}, kPodHosts)
              .starts_with("this pod's host name, gpu-host-7, is not that of an indexed Job, so "
                           "pod 0 cannot be named"));
}

TEST_CASE("a pod of Kubeflow's PyTorchJob") {
    const EnvironmentMap pod = {{"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                                {"MASTER_ADDR", "pt-master-0"},
                                {"MASTER_PORT", "23456"},
                                {"WORLD_SIZE", "3"},
                                {"RANK", "1"}};
    const Allocation allocation = read_allocation(pod, "pt-worker-0");
    CHECK(allocation.source == "kubernetes");
    CHECK(allocation.node_names.size() == 3);
    CHECK(allocation.node_rank == 1);
    CHECK(allocation.head_address == "pt-master-0");
    CHECK(read_allocation(pod, "pt-worker-0", {.nodes = 2}).node_names.size() ==
          2);  // WORLD_SIZE counts ranks there
    CHECK(read_allocation(with(pod, {{"LOCAL_RANK", "0"}}), "x", {.standalone = true}).source ==
          "local");  // a rank, not a pod
    CHECK(read_allocation(with(pod, {{"WORLD_SIZE", "1"}}), "x").node_names == Names{"x"});
    CHECK(fault(with(pod, {{"WORLD_SIZE", "99999999"}}), "x").find("99999999 nodes") !=
          std::string::npos);
}

TEST_CASE("a pod of a Volcano job") {
    const EnvironmentMap pod = {{"VC_TASK_INDEX", "1"},
                                {"VC_WORKER_HOSTS", "gpt-worker-0.gpt,gpt-worker-1.gpt"},
                                {"VC_WORKER_NUM", "2"}};
    const Allocation allocation = read_allocation(pod, "gpt-worker-1");
    CHECK(allocation.source == "volcano");
    CHECK(allocation.node_names == Names{"gpt-worker-0.gpt", "gpt-worker-1.gpt"});
    CHECK(allocation.node_rank == 1);
    CHECK(allocation.on_every_node);
    CHECK(read_allocation(pod, "gpt-worker-1", {.nodes = 2}).node_names.size() == 2);
    CHECK(read_allocation(pod, "any-name").node_rank == 1);  // hostNetwork: true
    CHECK(fault(pod, "gpt-worker-0") ==
          "VC_TASK_INDEX=1 on gpt-worker-0, VC_WORKER_HOSTS with 2 pods, and 1 node asked for: "
          "they do not agree (leave --nnodes out, or give --nnodes, --node-rank and --master-addr "
          "on every pod)");
    CHECK(fault(pod, "gpt-worker-1", {.nodes = 3}).find("they do not agree") != std::string::npos);
    CHECK(fault(with(pod, {{"VC_TASK_INDEX", "2"}}), "gpt-worker-2").find("do not agree") !=
          std::string::npos);
    CHECK(fault(with(pod, {{"VC_MASTER_HOSTS", "gpt-master-0.gpt"}}), "gpt-worker-1")
              .starts_with("the pods of this Volcano job are of several tasks: VC_MASTER_HOSTS "
                           "(1), VC_WORKER_HOSTS (2). Nothing says which of them train together"));
    for (const NodeOptions& alone :
         {NodeOptions{.standalone = true}, NodeOptions{.nodes_given = true}})
        CHECK(read_allocation(pod, "gpt-worker-1", alone).node_names == Names{"gpt-worker-1"});
    const NodeOptions range = {.nodes = 1, .most_nodes = 1, .spare_nodes = 1};
    CHECK(read_allocation(pod, "gpt-worker-1", range).node_names.size() == 2);
    CHECK(read_allocation(pod, "gpt-worker-1", {.nodes = 1, .most_nodes = 2}).node_rank == 1);
    CHECK(fault(pod, "gpt-worker-1", {.nodes = 2, .most_nodes = 3}).find("and 3 nodes asked for") !=
          std::string::npos);
    const NodeOptions told = {.nodes = 3, .node_rank = 2, .head_address = "gpt-master-0.gpt"};
    CHECK(read_allocation(pod, "gpt-worker-1", told).node_rank == 2);
}

TEST_CASE("pods of several tasks that Volcano's plugin pytorch numbers") {
    const EnvironmentMap pod = {{"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                                {"VC_TASK_INDEX", "0"},
                                {"VC_MASTER_HOSTS", "gpt-master-0.gpt"},
                                {"VC_WORKER_HOSTS", "gpt-worker-0.gpt,gpt-worker-1.gpt"},
                                {"MASTER_ADDR", "gpt-master-0.gpt"},
                                {"MASTER_PORT", "23456"},
                                {"WORLD_SIZE", "3"},
                                {"RANK", "1"}};
    const Allocation allocation = read_allocation(pod, "gpt-worker-0");
    CHECK(allocation.node_names == Names{"gpt-master-0.gpt", "gpt-worker-0", "node-rank-2"});
    CHECK(allocation.node_rank == 1);
    CHECK(allocation.head_address == "gpt-master-0.gpt");
}

TEST_CASE("one of several that is not told of how many does not train alone") {
    const EnvironmentMap pod = {{"KUBERNETES_SERVICE_HOST", "10.96.0.1"}};
    const std::vector<EnvironmentMap> several = {
        {{"JOB_COMPLETION_INDEX", "0"}},
        {{"VC_TASK_INDEX", "0"}},
        {{"VK_TASK_INDEX", "0"}},
        {{"VC_TASK_INDEX", "1"}, {"MA_NUM_HOSTS", "2"}},
        {{"LWS_WORKER_INDEX", "0"}, {"LWS_GROUP_SIZE", "4"}},
        {{"K_MPI_JOB_ROLE", "launcher"}},
        {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
        {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}},
        {{"PMIX_RANK", "0"}},
        {{"PRTE_LAUNCHED", "1"}},
        {{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_NNODES", "2"}},
        {{"SLURM_JOB_NUM_NODES", "2"}},
        {{"SLURM_PROCID", "0"}},
        {{"SLURM_NODEID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}},
        {{"PBS_NODENUM", "0"}},
        {{"AWS_BATCH_JOB_NODE_INDEX", "0"}, {"AWS_BATCH_JOB_NUM_NODES", "2"}},
        {{"LSF_PM_TASKID", "1"}},
        {{"LSB_MCPU_HOSTS", "a 8 b 8"}},
        {{"LSB_HOSTS", "a a b"}},
        {{"PALS_RANKID", "0"}},
        {{"NHOSTS", "2"}, {"PE_HOSTFILE", "/spool/pe_hostfile"}},
        {{"_CONDOR_NPROCS", "2"}, {"_CONDOR_PROCNO", "0"}},
        {{"AZ_BATCH_NODE_LIST", "10.0.0.4;10.0.0.5"}},
        {{"SKYPILOT_NODE_IPS", "10.0.0.4\n10.0.0.5"}},
        {{"TRAINING_JOB_ARN", "arn:aws:sagemaker:eu-west-1:1:training-job/a"}},
        {{"TF_CONFIG", R"({"cluster":{"chief":["a:1"],"worker":["b:1"]},"task":{"index":0}})"}},
        {{"CLUSTER_SPEC", R"({"cluster":{"workerpool0":["a:1"],"workerpool1":["b:1","c:1"]}})"}},
        {{"SM_CURRENT_HOST", "algo-1"}, {"SM_HOSTS", R"(["algo-1","algo-2"])"}},
        {{"SKYPILOT_NODE_RANK", "0"}, {"SKYPILOT_NUM_NODES", "2"}},
        {{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}, {"WORLD_SIZE", "2"}, {"RANK", "0"}},
        {{"RANK", "0"}, {"WORLD_SIZE", "2"}},
        {{"RANK", "0"}, {"MASTER_ADDR", "pt-master-0"}},
        with(pod, {{"RANK", "1"}}),
        {{"NODE_RANK", "0"}, {"MASTER_ADDR", "10.0.0.4"}},
        {{"NODE_RANK", "1"}, {"AZUREML_NODE_COUNT", "2"}},
        {{"HOROVOD_RANK", "0"}, {"HOROVOD_SIZE", "2"}},
        {{"LOADL_PROCESSOR_LIST", "a a b b"}},
        {{"PJM_NODE", "2"}},
        {{"DSTACK_NODES_NUM", "2"}, {"DSTACK_NODE_RANK", "0"}},
        {{"TPU_WORKER_HOSTNAMES", "a,b"}, {"TPU_WORKER_ID", "0"}},
        {{"OAR_NODEFILE", "/cannot/be/read"}},
        {{"COBALT_NODEFILE", "/cannot/be/read"}},
    };
    for (const EnvironmentMap& environment : several) {
        CAPTURE(environment.begin()->first);
        const std::string what = fault(environment, "h");
        CHECK(what.starts_with("this looks like one of "));
        CHECK(what.find(environment.begin()->first) != std::string::npos);
        CHECK(what.ends_with("; where this one really is alone, say --standalone)"));
        CHECK(fault(environment, "h", {.nodes_given = true}) == "no error");
        CHECK(fault(environment, "h", {.standalone = true}) == "no error");
    }
    CHECK(fault({{"RANK", "1"}, {"WORLD_SIZE", "2"}}, "h") ==
          "this looks like one of a job whose operator numbers its machines or processes, by "
          "RANK=1 and WORLD_SIZE=2, and autolaunch is not told how many it is to work with: each "
          "would train alone (give --nnodes, --node-rank and --master-addr on each of them; where "
          "this one really is alone, say --standalone)");
    CHECK(fault({}, "h", {.node_rank = 0, .head_address = "node0"}) ==
          "this is node 0, and node 0 is at node0, but nothing says how many nodes there are (give "
          "--nnodes (or PET_NNODES) on every node; where this one really is alone, say "
          "--nnodes=1)");
}

TEST_CASE("a host file of several hosts is one of several, where nothing else tells") {
    for (const char* variable : {"OAR_NODEFILE", "COBALT_NODEFILE", "PJM_O_NODEINF", "PBS_NODEFILE",
                                 "LSB_DJOB_HOSTFILE", "PE_HOSTFILE"}) {
        CAPTURE(variable);
        const EnvironmentMap job = {{variable, "/hosts"}};
        const std::string two = "a 4 all.q@a\na 4 all.q@a\nb 4 all.q@b\n";
        CHECK(fault(job, "a", {}, file("/hosts", two))
                  .find(std::string("the 2 hosts of ") + variable + "=/hosts") !=
              std::string::npos);
        CHECK(fault(job, "a", {}, file("/hosts", "a 4\na 4\n# b\n\n")) == "no error");
        CHECK(fault(job, "a", {.standalone = true}, file("/hosts", two)) == "no error");
    }
}

TEST_CASE("a Volcano pod that is told of others, and not which of them it is") {
    const std::string what =
        fault({{"VC_WORKER_HOSTS", "w-0.j,w-1.j"}, {"VC_PS_HOSTS", "p-0.j"}}, "w-0");
    CHECK(what.starts_with("this looks like one of a job of Volcano, by VC_*_HOSTS=p-0.j,w-0.j,"));
    CHECK(fault({{"VC_WORKER_HOSTS", "w-0.j"}, {"VC_PS_HOSTS", "p-0.j"}}, "w-0") != "no error");
}

TEST_CASE("SageMaker tells a container of one's own in a file") {
    const EnvironmentMap job = {{"TRAINING_JOB_ARN", "arn:aws:sagemaker:x:1:training-job/a"}};
    const auto told = [&](const std::string& text) {
        return fault(job, "h", {}, file("/opt/ml/input/config/resourceconfig.json", text));
    };
    CHECK(told(R"({"current_host":"algo-1","hosts":["algo-1"]})") == "no error");
    CHECK(
        told(R"({"current_host":"algo-1","hosts":["algo-1","algo-2"]})")
            .find(
                "TRAINING_JOB_ARN=arn:aws:sagemaker:x:1:training-job/a and SM_RESOURCE_CONFIG=") !=
        std::string::npos);
    CHECK(told("no JSON").starts_with("this looks like one of a job of SageMaker, by "));
}

TEST_CASE("a machine with a stray variable is a machine") {
    const std::vector<EnvironmentMap> alone = {
        {{"RANK", "0"}},
        {{"RANK", "3"}},
        {{"WORLD_SIZE", "8"}},
        {{"MASTER_ADDR", "node0"}},
        {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "node0"}},
        {{"RANK", "0"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}},
        {{"RANK", "0"}, {"MASTER_ADDR", "h"}},
        {{"NODE_RANK", "0"}, {"MASTER_ADDR", "127.0.0.1"}},
        {{"LOCAL_RANK", "0"}},
        {{"SLURM_NNODES", "2"}, {"SLURM_CONF", "/etc/slurm.conf"}},  // srun's defaults
        {{"SLURM_PROCID", "0"}, {"SLURM_JOB_NUM_NODES", "1"}, {"SLURM_STEP_NUM_TASKS", "1"}},
        {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}},
        {{"SM_CURRENT_HOST", "algo-1"}, {"SM_HOSTS", R"(["algo-1"])"}},
        {{"SM_RESOURCE_CONFIG", R"({"current_host":"algo-1","hosts":["algo-1"]})"},
         {"TRAINING_JOB_ARN", "arn"}},
        {{"LSB_HOSTS", "a a a"}, {"LSB_MCPU_HOSTS", "a 3"}, {"LSF_PM_TASKID", "1"}},
        {{"NHOSTS", "2"}},
        {{"NHOSTS", "1"}, {"PE_HOSTFILE", "/spool/pe_hostfile"}},
        {{"_CONDOR_NPROCS", "8"}},
        {{"_CONDOR_NPROCS", "1"}, {"_CONDOR_PROCNO", "0"}},
        {{"AZ_BATCH_NODE_LIST", "10.0.0.4"}},
        {{"TF_CONFIG", R"({"cluster":{"worker":["a:1"],"evaluator":["b:1"]}})"}},
        {{"TF_CONFIG", R"({"environment":"cloud"})"}},
        {{"TF_CONFIG", "{"}},
        {{"TF_CONFIG", std::string(100'000, '[')}},
        {{"VC_WORKER_HOSTS", "a"}},
        {{"LOADL_PROCESSOR_LIST", "a a"}},
        {{"PJM_NODE", "1"}},
        {{"TPU_WORKER_HOSTNAMES", "localhost"}, {"TPU_WORKER_ID", "0"}},
        {{"PBS_NODEFILE", "/cannot/be/read"}},
        {{"KUBERNETES_SERVICE_HOST", "10.96.0.1"}},
    };
    for (const EnvironmentMap& environment : alone) {
        CAPTURE(environment.begin()->first);
        CHECK(fault(environment, "h") == "no error");
    }
    CHECK(fault({}, "h", {.node_rank = 0, .head_address = "localhost"}) == "no error");
}

TEST_CASE("PBS") {
    const EnvironmentMap task = {
        {"PBS_JOBID", "4711.server"}, {"PBS_NODEFILE", "/aux/4711"}, {"PBS_TASKNUM", "3"}};
    const FileReader nodes =
        file("/aux/4711", "b.cluster\nb.cluster\na.cluster\n\nc.cluster\na.cluster\n");
    const Allocation allocation = read_allocation(task, "a", {}, nodes);
    CHECK(allocation.source == "pbs");
    CHECK(allocation.node_names == Names{"b.cluster", "a.cluster", "c.cluster"});
    CHECK(allocation.node_rank == 1);
    CHECK(allocation.job_id == "4711");
    CHECK(allocation.on_every_node);
    CHECK_FALSE(allocation.tasks_on_node);
    CHECK(read_allocation(with(task, {{"PBS_JOBID", "4711[3].server"}}), "a", {}, nodes).job_id ==
          "4711_3");
    const Allocation script = read_allocation(with(task, {{"PBS_TASKNUM", "1"}}), "b", {}, nodes);
    CHECK(error_of([&] { check_runs_on_every_node(script); }).find("mpirun --map-by ppr:1:node") !=
          std::string::npos);
    CHECK(fault(task, "d", {}, nodes) ==
          "this machine, d, is not one of the 3 hosts that PBS_NODEFILE names (start autolaunch on "
          "these hosts, or give "
          "--nnodes, --node-rank and --master-addr)");
    CHECK(fault(task, "a").starts_with("PBS_NODEFILE=/aux/4711: cannot open /aux/4711"));
    CHECK(fault(without(task, {"PBS_NODEFILE"}), "a")
              .starts_with("PBS_JOBID is set, but PBS_NODEFILE is not"));
}

TEST_CASE("LSF") {
    const EnvironmentMap task = {
        {"LSB_JOBID", "88"}, {"LSB_JOBINDEX", "0"}, {"LSB_MCPU_HOSTS", "b 8 a 8 "}};
    const Allocation allocation = read_allocation(task, "a.cluster");
    CHECK(allocation.source == "lsf");
    CHECK(allocation.node_names == Names{"b", "a"});
    CHECK(allocation.node_rank == 1);
    CHECK(allocation.job_id == "88");
    CHECK(read_allocation(with(task, {{"LSB_JOBINDEX", "3"}}), "a").job_id == "88_3");
    const auto by_file = with(without(task, {"LSB_MCPU_HOSTS"}), {{"LSB_DJOB_HOSTFILE", "/h"}});
    CHECK(read_allocation(by_file, "c", {}, file("/h", "b\nb\nc\n")).node_names == Names{"b", "c"});
    CHECK(fault(with(task, {{"LSB_MCPU_HOSTS", "b 8 a"}}), "a")
              .starts_with("LSB_MCPU_HOSTS: no number of slots after 'a'"));
    CHECK(fault(without(task, {"LSB_MCPU_HOSTS"}), "a")
              .starts_with("LSB_JOBID is set, but neither LSB_MCPU_HOSTS nor"));
}

TEST_CASE("who is asked first") {
    auto all = captured("slurm-one-task-a-node");
    for (const auto& [name, value] : EnvironmentMap{{"JOB_COMPLETION_INDEX", "0"},
                                                    {"PBS_JOBID", "1"},
                                                    {"PBS_NODEFILE", "/f"},
                                                    {"LSB_JOBID", "1"}})
        all[name] = value;
    const FileReader hosts = file("/f", "x\n");
    CHECK(read_allocation(all, "x", {}, hosts).source == "slurm");
    CHECK(read_allocation(all, "x", {.nodes = 2, .node_rank = 1, .head_address = "h"}, hosts)
              .source == "static");
    CHECK(read_allocation(with(all, prrte(0, 1, 0, 1, 0)), "x", {}, hosts).source == "mpirun");
    std::erase_if(all, [](const auto& set) { return set.first.starts_with("SLURM"); });
    CHECK(read_allocation(all, "x", {.nodes_given = true}, hosts).source == "kubernetes");
    all.erase("JOB_COMPLETION_INDEX");
    CHECK(read_allocation(all, "x", {}, hosts).source == "pbs");
    all.erase("PBS_JOBID");
    all["LSB_MCPU_HOSTS"] = "x 1";
    CHECK(read_allocation(all, "x", {}, hosts).source == "lsf");
    all.erase("LSB_JOBID");
    CHECK(read_allocation(all, "x", {}, hosts).source == "local");
}

}  // namespace allocation_launchers_test
