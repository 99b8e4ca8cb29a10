#include "pmi/mpi_environment.hpp"

#include "plan/mpi_choice.hpp"
#include "plan/mpi_variables.hpp"
#include "session/environment.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>

namespace autolaunch::launcher {

namespace {

std::string_view name_of(std::string_view line) { return line.substr(0, line.find('=')); }

bool has(const std::vector<std::string>& environment, std::string_view name) {
    return std::any_of(environment.begin(), environment.end(),
                       [&](const std::string& line) { return name_of(line) == name; });
}

// Whose process an MPI rank is.
bool is_identity(std::string_view name) {
    constexpr std::array<std::string_view, 6> kOfOthers = {
        "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE", "MPI_LOCALRANKID",
        "MPI_LOCALNRANKS",  "JSM_JSRUN_PORT",     env::kMpi};
    return is_of_mpi_server(name) ||
           std::any_of(kOfOthers.begin(), kOfOthers.end(),
                       [&](std::string_view prefix) { return name.starts_with(prefix); });
}

bool names_transport(std::string_view name) {
    return name == "OMPI_MCA_pml" || name == "OMPI_MCA_btl" || name == "OMPI_MCA_mtl";
}

void add(std::vector<std::pair<std::string, std::string>>& list, const char* name,
         long long value) {
    list.emplace_back(name, std::to_string(value));
}

using Variables = std::vector<std::pair<std::string, std::string>>;

void add_lines(Variables& list, const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
        const auto equals = line.find('=');
        if (equals != std::string::npos)
            list.emplace_back(line.substr(0, equals), line.substr(equals + 1));
    }
}

// What programs read to choose a GPU before MPI_Init.
void add_mpirun_names(Variables& list, const MpiPlace& place) {
    add(list, "OMPI_COMM_WORLD_RANK", place.rank);
    add(list, "OMPI_COMM_WORLD_SIZE", place.world_size);
    add(list, "OMPI_COMM_WORLD_LOCAL_RANK", place.local_rank);
    add(list, "OMPI_COMM_WORLD_LOCAL_SIZE", place.local_size);
    add(list, "OMPI_COMM_WORLD_NODE_RANK", place.local_rank);
}

void add_mpiexec_names(Variables& list, const MpiPlace& place) {
    add(list, "MPI_LOCALRANKID", place.local_rank);
    add(list, "MPI_LOCALNRANKS", place.local_size);
}

void add_open_mpi_settings(Variables& defaults, const OpenMpiNode& node) {
    defaults.emplace_back("OMPI_MCA_shmem", "mmap");
    if (!node.shared_memory.empty()) {
        defaults.emplace_back("OMPI_MCA_btl_vader_backing_directory", node.shared_memory);
        defaults.emplace_back("OMPI_MCA_btl_sm_backing_directory", node.shared_memory);
        defaults.emplace_back("OMPI_MCA_osc_sm_backing_directory", node.shared_memory);
    }
    if (node.oversubscribed)
        defaults.emplace_back("OMPI_MCA_mpi_oversubscribe", "1");
    if (!node.has_fabric && !node.user_transport) {
        defaults.emplace_back("OMPI_MCA_pml", "ob1");
        defaults.emplace_back("OMPI_MCA_btl", "self,vader,tcp");
    }
}

}  // namespace

std::string MpiEnvironment::identity_value(std::string_view name) const {
    for (const auto& [known, value] : identity)
        if (known == name)
            return value;
    return {};
}

std::vector<std::string> with_mpi(std::vector<std::string> environment, const MpiEnvironment& mpi) {
    const bool below_mpirun = has(environment, "OMPI_COMM_WORLD_SIZE");
    std::erase_if(environment, [&](const std::string& line) {
        const std::string_view name = name_of(line);
        const bool replaced =
            std::any_of(mpi.identity.begin(), mpi.identity.end(),
                        [&](const auto& variable) { return variable.first == name; });
        return replaced || is_identity(name) || (below_mpirun && is_of_mpirun_daemon(name));
    });
    // Transports are one choice in several variables: who makes a part of it makes all of it.
    const bool chose_transport =
        std::any_of(environment.begin(), environment.end(),
                    [](const std::string& line) { return names_transport(name_of(line)); });
    for (const auto& [name, value] : mpi.defaults) {
        if (has(environment, name) || (chose_transport && names_transport(name)))
            continue;
        environment.push_back(name + '=' + value);
    }
    for (const auto& [name, value] : mpi.identity)
        environment.push_back(name + '=' + value);
    return environment;
}

MpiEnvironment open_mpi_environment(const MpiPlace& place, const OpenMpiNode& node,
                                    const std::vector<std::string>& pmix) {
    MpiEnvironment environment;
    auto& identity = environment.identity;
    add_lines(identity, pmix);
    identity.emplace_back(env::kMpi, mpi_mode_name(MpiMode::pmix));
    // Open MPI 4 takes PMIx alone for a process that nobody launched, and starts N jobs of one
    // rank. This variable of another launcher makes it a launched one, and turns off its own
    // binding.
    identity.emplace_back("JSM_JSRUN_PORT", "0");
    add_mpirun_names(identity, place);
    add(identity, "OMPI_UNIVERSE_SIZE", place.world_size);
    add_open_mpi_settings(environment.defaults, node);
    return environment;
}

MpiEnvironment offered_environment(const MpiPlace& place, const OpenMpiNode& node,
                                   const std::vector<std::string>& pmix, int pmi1_port) {
    MpiEnvironment environment;
    auto& identity = environment.identity;
    identity.emplace_back("PMI_PORT", "127.0.0.1:" + std::to_string(pmi1_port));
    add(identity, "PMI_ID", place.rank);
    add_mpiexec_names(identity, place);
    // MPICH from 4.3 on takes PMI-1 and PMIx side by side for a mistake, unless it is told which.
    environment.defaults.emplace_back("MPIR_CVAR_PMI_VERSION", "1");
    if (pmix.empty())
        return environment;
    identity.emplace_back(env::kMpi, mpi_mode_name(MpiMode::offered));
    // Without OMPI_UNIVERSE_SIZE: where it is set, Open MPI 4's mpirun refuses to run, and a rank
    // may start one.
    add_lines(identity, pmix);
    identity.emplace_back("JSM_JSRUN_PORT", "0");
    add_mpirun_names(identity, place);
    add_open_mpi_settings(environment.defaults, node);
    return environment;
}

MpiEnvironment pmi1_environment(const MpiPlace& place, int fd) {
    MpiEnvironment environment;
    auto& identity = environment.identity;
    identity.emplace_back(env::kMpi, mpi_mode_name(MpiMode::pmi1));
    add(identity, "PMI_FD", fd);
    add(identity, "PMI_RANK", place.rank);
    add(identity, "PMI_SIZE", place.world_size);
    add_mpiexec_names(identity, place);
    return environment;
}

std::vector<std::string> node_labels(const Roster& roster) {
    std::vector<std::string> labels;
    std::set<std::string> taken;
    for (std::size_t node = 0; node < roster.nodes.size(); ++node) {
        std::string label = roster.nodes[node].name.empty() ? "node" : roster.nodes[node].name;
        for (char& c : label)
            if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '.')
                c = '-';
        if (!taken.insert(label).second) {
            label += ".node" + std::to_string(node);
            taken.insert(label);
        }
        labels.push_back(std::move(label));
    }
    return labels;
}

std::string process_mapping(const std::vector<int>& ranks_per_node) {
    std::string mapping = "(vector";
    for (std::size_t node = 0; node < ranks_per_node.size();) {
        std::size_t end = node + 1;
        while (end < ranks_per_node.size() && ranks_per_node[end] == ranks_per_node[node])
            ++end;
        mapping += ",(" + std::to_string(node) + ',' + std::to_string(end - node) + ',' +
                   std::to_string(ranks_per_node[node]) + ')';
        node = end;
    }
    return mapping + ')';
}

}  // namespace autolaunch::launcher
