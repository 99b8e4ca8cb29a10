#include "allocation/adapters.hpp"
#include "allocation/hostlist.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {
namespace {

constexpr const char* kOnePerNode =
    "start one a node, with `mpirun --map-by ppr:1:node autolaunch …`";

// What a process of mpirun (Open MPI up to 4, PRRTE from 5 on) or of MPICH's mpiexec (Hydra) is
// told. No host list.
struct MpiProcess {
    long long rank = 0, size = 1, local_rank = 0, local_size = 1;
    std::string name_space;           ///< of this mpirun; empty: Hydra
    std::optional<long long> nodes;   ///< Open MPI up to 4: nodes with ranks
    std::optional<long long> daemon;  ///< number of the daemon on this node; mpirun itself is 0
    std::optional<long long>
        daemons;  ///< Open MPI up to 4, on other nodes than mpirun's: how many there are
    std::string mpirun_host;  ///< where mpirun runs: a name or an address
};

// Nothing is started here, or all that we are told of it.
[[noreturn]] void refuse_mpirun(const std::string& what, const std::string& hint) {
    throw Error(ErrorCode::invalid_argument, "mpirun started this process, but " + what, hint);
}

// "1231749120.2;tcp4://…" and "prterun-node1-77@0.2;tcp4://…" name daemon 2.
std::optional<long long> daemon_number(std::string_view uri) {
    const std::string_view name = uri.substr(0, uri.find(';'));
    const std::size_t dot = name.rfind('.');
    long long number = 0;
    if (dot == std::string_view::npos || !parse_integer(name.substr(dot + 1), number))
        return std::nullopt;
    return number;
}

// The first address of "1231749120.0;tcp://10.0.0.1,192.168.0.1:5381;tcp6://[fd00::2]:39091" that
// others can reach.
std::string address_in(const std::string& uri) {
    for (const auto& transport : split(uri, ';')) {
        const std::size_t scheme = transport.find("://");
        if (!transport.starts_with("tcp") || scheme == std::string::npos)
            continue;
        std::string hosts = transport.substr(scheme + 3);
        hosts.resize(std::min(hosts.rfind(':'), hosts.size()));
        std::erase_if(hosts, [](char c) { return c == '[' || c == ']'; });
        for (const auto& host : split(hosts, ','))
            if (!host.empty() && !host.starts_with("127.") && host != "::1")
                return host;
    }
    return {};
}

// "node-a" of "prterun-node-a-4711@1".
std::string host_in_name_space(const std::string& name) {
    const std::size_t first = name.find('-'), last = name.rfind('-');
    if (first == std::string::npos || last <= first + 1 || name.find('@') == std::string::npos)
        return {};
    return name.substr(first + 1, last - first - 1);
}

std::optional<MpiProcess> read_open_mpi(const EnvironmentMap& environment) {
    const auto rank = lookup_count(environment, "OMPI_COMM_WORLD_RANK");
    const std::string name_space = lookup(environment, "PMIX_NAMESPACE").value_or("");
    if (!rank || name_space.empty() || name_space.starts_with("slurm."))
        return std::nullopt;
    MpiProcess process;
    process.rank = *rank;
    process.size = lookup_count(environment, "OMPI_COMM_WORLD_SIZE").value_or(1);
    process.local_rank = lookup_count(environment, "OMPI_COMM_WORLD_LOCAL_RANK").value_or(0);
    process.local_size = lookup_count(environment, "OMPI_COMM_WORLD_LOCAL_SIZE").value_or(1);
    process.name_space = name_space;
    process.nodes = lookup_count(environment, "OMPI_MCA_orte_num_nodes");
    process.daemons = lookup_count(environment, "OMPI_MCA_ess_base_num_procs");
    for (const char* variable : {"OMPI_MCA_orte_local_daemon_uri", "PMIX_SERVER_URI41",
                                 "PMIX_SERVER_URI4", "PMIX_SERVER_URI3"}) {
        const auto uri = lookup(environment, variable);
        if (uri && !process.daemon)
            process.daemon = daemon_number(*uri);
    }
    const auto uri = lookup(environment, "OMPI_MCA_orte_hnp_uri");
    process.mpirun_host = uri ? address_in(*uri) : host_in_name_space(name_space);
    return process;
}

std::optional<MpiProcess> read_hydra(const EnvironmentMap& environment) {
    const auto rank = lookup_count(environment, "PMI_RANK"),
               size = lookup_count(environment, "PMI_SIZE");
    const auto local_size = lookup_count(environment, "MPI_LOCALNRANKS");
    if (!rank || !size || !local_size)
        return std::nullopt;
    MpiProcess process;
    process.rank = *rank;
    process.size = *size;
    process.local_rank = lookup_count(environment, "MPI_LOCALRANKID").value_or(0);
    process.local_size = *local_size;
    return process;
}

int count_nodes(const MpiProcess& process) {
    const auto [size, local_size] = std::pair(process.size, process.local_size);
    if (local_size < 1 || size < local_size || process.rank >= size ||
        process.local_rank >= local_size)
        refuse_mpirun(
            fmt::format("rank {} of {} and local rank {} of {} cannot be", process.rank, size,
                        process.local_rank, local_size),
            "unset OMPI_COMM_WORLD_RANK and PMI_RANK if they are left over from another job");
    if (!process.nodes && size % local_size != 0)
        refuse_mpirun(
            fmt::format("its {} processes are spread unevenly, {} of them here, so the number "
                        "of nodes is not known",
                        size, local_size),
            kOnePerNode);
    const long long nodes = process.nodes ? *process.nodes : size / local_size;
    if (nodes < 1 || nodes > static_cast<long long>(kMaxHosts))
        refuse_mpirun(fmt::format("says {} nodes", nodes), kOnePerNode);
    return static_cast<int>(nodes);
}

// Which of the nodes this is, and whether mpirun's own node is the first of them. Daemons are
// numbered as the nodes are, from mpirun's own on; but it may run none of the processes, and there
// may be daemons without any.
struct Place {
    long long node_rank = 0;
    bool mpirun_is_first = false;
};

std::optional<Place> find_place(const MpiProcess& process, long long nodes) {
    const auto daemon = process.daemon;
    if (nodes == 1)
        return Place{0, true};
    if (process.nodes && daemon && (*daemon == 0 || process.daemons == nodes))
        return Place{*daemon, true};
    const bool by_slot = process.rank % process.local_size == process.local_rank;
    const bool by_node = process.rank / nodes == process.local_rank;
    const long long slot_place = process.rank / process.local_size,
                    node_place = process.rank % nodes;
    if (process.local_size == 1 && process.size == nodes)
        return Place{process.rank, !process.nodes && daemon == process.rank};
    if (process.nodes)
        return std::nullopt;
    if (by_slot && (!daemon || daemon == slot_place))
        return Place{slot_place, daemon.has_value()};
    if (by_node && daemon && daemon == node_place)
        return Place{node_place, true};
    return std::nullopt;
}

// A Slurm job that mpirun runs in knows the names, if it is on all nodes of the job and numbers
// them alike. True when all names are known.
bool name_nodes(Allocation& allocation, const EnvironmentMap& environment,
                const std::string& hostname) {
    const auto node_rank = static_cast<std::size_t>(allocation.node_rank);
    const std::size_t nodes = allocation.node_names.size();
    allocation.node_names[node_rank] = hostname;
    const auto list = lookup(environment, "SLURM_JOB_NODELIST");
    if (!list || slurm_job_id(environment).empty())
        return nodes == 1;
    auto names = expand_hostlist(*list);
    const auto position =
        find_host(names, lookup(environment, "SLURMD_NODENAME").value_or(hostname));
    if (names.size() != nodes || position != node_rank)
        return nodes == 1;
    allocation.node_names = std::move(names);
    return true;
}

std::string job_name(const MpiProcess& process, const EnvironmentMap& environment) {
    std::string name = process.name_space;
    std::replace(name.begin(), name.end(), '@', '.');
    const std::string job = slurm_job_id(environment);
    if (job.empty() || name.empty())
        return job + name;
    return job + "." + name;
}

}  // namespace

std::optional<Allocation> read_mpirun_allocation(const EnvironmentMap& environment,
                                                 const std::string& hostname,
                                                 const NodeOptions& options) {
    auto process = read_open_mpi(environment);
    if (!process)
        process = read_hydra(environment);
    if (!process)
        return std::nullopt;

    const int nodes = count_nodes(*process);
    const auto place = find_place(*process, nodes);
    if (!place || place->node_rank >= nodes)
        refuse_mpirun("does not tell which of the nodes this one is", kOnePerNode);

    Allocation allocation;
    allocation.source = "mpirun";
    allocation.node_names = nameless_nodes(nodes);
    allocation.node_rank = static_cast<int>(place->node_rank);
    const bool names_known = name_nodes(allocation, environment, hostname);
    if (nodes > 1 && place->mpirun_is_first)
        allocation.head_address = process->mpirun_host;
    if (!names_known && allocation.head_address.empty() && options.head_address.empty())
        refuse_mpirun("does not tell where the first node is",
                      "give --master-addr=HOST, the node of rank 0, or start with srun");
    allocation.keeps_node_order = !names_known;
    allocation.job_id = job_name(*process, environment);
    allocation.tasks_on_node = static_cast<int>(process->local_size);
    allocation.local_task = static_cast<int>(process->local_rank);
    fill_slurm_job(allocation, environment);
    fill_granted_gpus(allocation, environment);
    return allocation;
}

}  // namespace autolaunch::launcher
