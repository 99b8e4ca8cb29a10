#include "allocation/adapters.hpp"
#include "allocation/machine_counts.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {
namespace {

using Variables = std::vector<const char*>;

/// A variable that says how many there are, and in which form.
struct Number {
    const char* variable;
    std::optional<long long> (*count)(const std::string& value) = count_as_number;
    bool in_file = false;  ///< the value names a file, whose text is counted
};
using Numbers = std::vector<Number>;

// One kind of surroundings in which a process is one of several.
struct Surroundings {
    const char* what;
    Variables index;  ///< say which of them this is
    Numbers number;   ///< say how many there are
    /// Nothing but those surroundings sets these. Where a person's shell may have them as well,
    /// they count only with another witness.
    bool sure;
    const char* fix;
};

constexpr const char* kSayAll = "give --nnodes, --node-rank and --master-addr on each of them";
constexpr const char* kSayNumber =
    "give --nnodes the number of those that work together, as the Job's `completions`";
constexpr const char* kVolcanoHosts = "VC_*_HOSTS";  // of all tasks, as one list
constexpr const char* kMpirun = "start it with `mpirun --map-by ppr:1:node autolaunch …`";

// Sources: the products' own documentation, or what sets the variables (docs/allocation.md).
const std::vector<Surroundings>& batch_systems() {
    static const std::vector<Surroundings> kAll = {
        {"prterun's processes",
         {"PRTE_LAUNCHED"},
         {},
         true,
         "start it with `prterun --personality ompi --map-by ppr:1:node autolaunch …`, which tells "
         "how many there are"},
        {"an MPI launcher's processes",
         {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID",
          "JSM_NAMESPACE_RANK"},
         {{"OMPI_COMM_WORLD_SIZE"}, {"PMI_SIZE"}, {"MV2_COMM_WORLD_SIZE"}, {"JSM_NAMESPACE_SIZE"}},
         true,
         kSayAll},
        {"horovodrun's processes", {"HOROVOD_RANK"}, {{"HOROVOD_SIZE"}}, true, kSayAll},
        {"a Flux job",
         {"FLUX_TASK_RANK"},
         {{"FLUX_JOB_NNODES"}, {"FLUX_JOB_SIZE"}},
         true,
         "start one a node, and give --nnodes=$FLUX_JOB_NNODES --node-rank=$FLUX_TASK_RANK and "
         "--master-addr"},
        {"a Slurm job whose SLURM_JOB_ID is not set",
         {"SLURM_PROCID", "SLURM_NODEID"},
         {{"SLURM_JOB_NUM_NODES"}, {"SLURM_STEP_NUM_NODES"}, {"SLURM_STEP_NUM_TASKS"}},
         true,
         "hand on all variables that begin with SLURM_"},
        {"a PBS job whose PBS_JOBID is not set",
         {"PBS_NODENUM"},
         {{"PBS_NUM_NODES"}, {"PBS_NODEFILE", count_lines, true}},
         true,
         "hand on all variables that begin with PBS_"},
        {"an LSF job whose LSB_JOBID is not set",
         {"LSF_PM_TASKID"},
         {{"LSB_MCPU_HOSTS", count_hosts_with_slots},
          {"LSB_HOSTS", count_words},
          {"LSB_DJOB_HOSTFILE", count_lines, true}},
         true,
         "hand on all variables that begin with LSB_"},
        {"a job of Grid Engine",
         {"PE_HOSTFILE"},
         {{"NHOSTS"}, {"PE_HOSTFILE", count_lines, true}},
         false,
         kMpirun},
        {"a job of OAR", {"OAR_NODEFILE"}, {{"OAR_NODEFILE", count_lines, true}}, true, kMpirun},
        {"a job of Cobalt",
         {"COBALT_NODEFILE"},
         {{"COBALT_NODEFILE", count_lines, true}},
         true,
         kMpirun},
        {"a job of LoadLeveler", {}, {{"LOADL_PROCESSOR_LIST", count_words}}, true, kMpirun},
        {"a job of Fujitsu's scheduler (pjsub)",
         {},
         {{"PJM_NODE"}, {"PJM_O_NODEINF", count_lines, true}},
         true,
         kMpirun},
        {"a parallel job of HTCondor", {"_CONDOR_PROCNO"}, {{"_CONDOR_NPROCS"}}, false, kSayAll},
    };
    return kAll;
}

const std::vector<Surroundings>& operators_and_clouds() {
    static const std::vector<Surroundings> kAll = {
        {"an indexed Job of Kubernetes", {"JOB_COMPLETION_INDEX"}, {}, true, kSayNumber},
        {"a job of Volcano",
         {"VC_TASK_INDEX", "VK_TASK_INDEX"},
         {{"MA_NUM_HOSTS"}, {kVolcanoHosts, count_between_commas}},
         true,
         "add Volcano's plugin `svc: []`, which tells the pods' names, or give --nnodes, "
         "--node-rank and --master-addr on each of them"},
        {"a LeaderWorkerSet of Kubernetes",
         {"LWS_WORKER_INDEX"},
         {{"LWS_GROUP_SIZE"}},
         true,
         "give --nnodes=$LWS_GROUP_SIZE --node-rank=$LWS_WORKER_INDEX "
         "--master-addr=$LWS_LEADER_ADDRESS"},
        {"a job of the MPI Operator", {"K_MPI_JOB_ROLE"}, {}, true, kMpirun},
        {"a multi-node job of AWS Batch",
         {"AWS_BATCH_JOB_NODE_INDEX"},
         {{"AWS_BATCH_JOB_NUM_NODES"}},
         true,
         "give --nnodes=$AWS_BATCH_JOB_NUM_NODES --node-rank=$AWS_BATCH_JOB_NODE_INDEX and "
         "--master-addr, which is $AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS on all nodes but "
         "the main one"},
        {"a multi-instance task of Azure Batch",
         {},
         {{"AZ_BATCH_NODE_LIST", count_between_semicolons}},
         true,
         kSayAll},
        {"a job of SageMaker",
         {"SM_CURRENT_HOST", "TRAINING_JOB_ARN"},
         {{"SM_HOSTS", count_json_hosts}, {"SM_RESOURCE_CONFIG", count_json_hosts}},
         true,
         kSayAll},
        {"a job of SkyPilot",
         {"SKYPILOT_NODE_RANK"},
         {{"SKYPILOT_NUM_NODES"}, {"SKYPILOT_NODE_IPS", count_words}},
         true,
         "give --nnodes=$SKYPILOT_NUM_NODES --node-rank=$SKYPILOT_NODE_RANK and --master-addr, the "
         "first of $SKYPILOT_NODE_IPS"},
        {"a job of dstack",
         {"DSTACK_NODE_RANK"},
         {{"DSTACK_NODES_NUM"}},
         true,
         "give --nnodes=$DSTACK_NODES_NUM --node-rank=$DSTACK_NODE_RANK "
         "--master-addr=$DSTACK_MASTER_NODE_IP"},
        {"the hosts of a TPU slice",
         {"TPU_WORKER_ID"},
         {{"TPU_WORKER_HOSTNAMES", count_between_commas}},
         true,
         kSayAll},
        {"a job whose members TF_CONFIG or CLUSTER_SPEC lists",
         {},
         {{"TF_CONFIG", count_cluster_members}, {"CLUSTER_SPEC", count_cluster_members}},
         true,
         kSayAll},
    };
    return kAll;
}

// Names that a person's shell may have, too.
const std::vector<Surroundings>& ranks_of_somebody() {
    static const std::vector<Surroundings> kAll = {
        {"the ranks of another launcher",
         {"LOCAL_RANK"},
         {{"LOCAL_WORLD_SIZE"}, {"WORLD_SIZE"}},
         false,
         "start autolaunch in that launcher's place, and not below it"},
        {"a job whose operator numbers its machines or processes",
         {"RANK"},
         {{"WORLD_SIZE"}},
         false,
         kSayAll},
        {"a job whose operator numbers its machines",
         {"NODE_RANK", "GROUP_RANK"},
         {{"NNODES"}, {"NUM_NODES"}, {"AZUREML_NODE_COUNT"}, {"GROUP_WORLD_SIZE"}},
         false,
         kSayAll},
    };
    return kAll;
}

std::optional<std::string> first_set(const EnvironmentMap& environment,
                                     const Variables& variables) {
    for (const char* variable : variables)
        if (const auto value = lookup(environment, variable); value && !value->empty())
            return fmt::format("{}={}", variable, value->substr(0, 60));
    return std::nullopt;
}

struct Told {
    std::string several;  ///< "WORLD_SIZE=4", of the first that says more than one
    bool one = false;     ///< something says one, and nothing more than one
};

// Nothing of a file that cannot be read: whoever names one is not alone for that.
std::optional<long long> count(const Number& each, const std::string& value,
                               const FileReader& read_text) {
    if (!each.in_file)
        return each.count(value);
    try {
        return each.count(read_text(value));
    } catch (const Error&) {
        return std::nullopt;
    }
}

Told read_numbers(const EnvironmentMap& environment, const Numbers& numbers,
                  const FileReader& read_text) {
    Told told;
    for (const Number& each : numbers) {
        const auto value = lookup(environment, each.variable);
        const auto number =
            value && !value->empty() ? count(each, *value, read_text) : std::nullopt;
        if (number && *number > 1)
            return {each.in_file
                        ? fmt::format("the {} hosts of {}={}", *number, each.variable, *value)
                        : fmt::format("{}={}", each.variable, value->substr(0, 60)),
                    false};
        told.one = told.one || number == 1;
    }
    return told;
}

bool is_elsewhere(const std::string& address, const std::string& hostname) {
    return !address.empty() && address != "localhost" && address != "::1" &&
           !address.starts_with("127.") && !find_host({address}, hostname);
}

// That others are there, too, for variables that do not prove it by themselves.
std::optional<std::string> other_witness(const EnvironmentMap& environment,
                                         const std::string& hostname) {
    const std::string head = lookup(environment, "MASTER_ADDR").value_or("");
    if (is_elsewhere(head, hostname))
        return "MASTER_ADDR=" + head.substr(0, 60);
    if (lookup(environment, "KUBERNETES_SERVICE_HOST"))
        return "KUBERNETES_SERVICE_HOST";
    return std::nullopt;
}

// The variables by which this is one of several, as "RANK=1 and WORLD_SIZE=4"; or nothing.
std::optional<std::string> evidence_in(const Surroundings& row, const EnvironmentMap& environment,
                                       const std::string& hostname, const FileReader& read_text) {
    const auto index = first_set(environment, row.index);
    const Told told = read_numbers(environment, row.number, read_text);
    if (!told.several.empty() && (index || row.sure))
        return index ? *index + " and " + told.several : told.several;
    if (!index || told.one)
        return std::nullopt;
    if (row.sure)
        return *index;
    const auto witness = other_witness(environment, hostname);
    return witness ? std::optional(*index + " and " + *witness) : std::nullopt;
}

[[noreturn]] void refuse_to_train_alone(const Surroundings& row, const std::string& evidence) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("this looks like one of {}, by {}, and autolaunch is not told how many "
                            "it is to work with: each would train alone",
                            row.what, evidence),
                fmt::format("{}; where this one really is alone, say --standalone", row.fix));
}

// A container of one's own finds SageMaker's word in a file; SageMaker's containers make variables
// of it.
EnvironmentMap with_file_of_sagemaker(EnvironmentMap environment, const FileReader& read_text) {
    const bool told =
        environment.contains("SM_HOSTS") || environment.contains("SM_RESOURCE_CONFIG");
    if (told || !environment.contains("TRAINING_JOB_ARN"))
        return environment;
    try {
        environment["SM_RESOURCE_CONFIG"] = read_text("/opt/ml/input/config/resourceconfig.json");
    } catch (const Error&) {  // then nothing says that there is only one
    }
    return environment;
}

// Volcano's plugin svc tells the pods of each task of the job, also where env tells no index.
EnvironmentMap with_hosts_of_volcano(EnvironmentMap environment) {
    std::string hosts;
    for (const auto& [name, value] : environment)
        if (name.starts_with("VC_") && name.ends_with("_HOSTS"))
            hosts += (hosts.empty() ? "" : ",") + value;
    environment[kVolcanoHosts] = hosts;
    return environment;
}

}  // namespace

void check_is_not_one_of_several(const EnvironmentMap& found, const std::string& hostname,
                                 const NodeOptions& options, const FileReader& read_text) {
    if (options.nodes_given)
        return;
    if (options.node_rank && is_elsewhere(options.head_address, hostname)) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("this is node {}, and node 0 is at {}, but nothing says how many "
                                "nodes there are",
                                *options.node_rank, options.head_address),
                    "give --nnodes (or PET_NNODES) on every node; where this one really is alone, "
                    "say --nnodes=1");
    }
    const EnvironmentMap environment =
        with_hosts_of_volcano(with_file_of_sagemaker(found, read_text));
    for (const auto* rows : {&operators_and_clouds(), &batch_systems(), &ranks_of_somebody()})
        for (const Surroundings& row : *rows)
            if (const auto evidence = evidence_in(row, environment, hostname, read_text))
                refuse_to_train_alone(row, *evidence);
}

}  // namespace autolaunch::launcher
