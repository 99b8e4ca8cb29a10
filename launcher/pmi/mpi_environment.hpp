#pragma once
#include "allocation/roster.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// What an MPI rank's environment has besides the plan's. Pure.
struct MpiEnvironment {
    std::vector<std::pair<std::string, std::string>>
        identity;  ///< who it is and where its server is: ours alone
    std::vector<std::pair<std::string, std::string>> defaults;  ///< settings; the user's own win

    /// Empty where there is none.
    std::string identity_value(std::string_view name) const;
};

/// The rank's environment ("NAME=value") with `mpi` in it, and without what an outer mpirun or srun
/// --mpi has told this process, and would mislead its children.
std::vector<std::string> with_mpi(std::vector<std::string> environment, const MpiEnvironment& mpi);

/// A rank among the others.
struct MpiPlace {
    int rank = 0, world_size = 1;
    int local_rank = 0, local_size = 1;
};

struct OpenMpiNode {
    std::string shared_memory;  ///< a folder in memory for this job's segments, removed by us;
                                ///< empty: there is none
    bool has_fabric =
        false;  ///< InfiniBand, RoCE, EFA, Slingshot, …: Open MPI then chooses its own transports
    bool user_transport = false;  ///< a parameter file of the user's names transports
    bool oversubscribed = false;  ///< ranks outnumber the CPUs that they may use
};

/// `pmix` is what PMIx wants in the rank's environment. docs/mpi.md has the reasons.
MpiEnvironment open_mpi_environment(const MpiPlace& place, const OpenMpiNode& node,
                                    const std::vector<std::string>& pmix);

/// For MPICH and others that speak PMI-1 on descriptor `fd`.
MpiEnvironment pmi1_environment(const MpiPlace& place, int fd);

/// For a rank of which nobody knows whether it will use MPI, and which: Open MPI's (`pmix` is empty
/// where PMIx cannot be had), and PMI-1 at a port of the loopback.
MpiEnvironment offered_environment(const MpiPlace& place, const OpenMpiNode& node,
                                   const std::vector<std::string>& pmix, int pmi1_port);

/// A name for each node that no other has, of characters that PMIx's lists can hold: the
/// scheduler's, where it has these properties. Equal on all nodes for equal rosters.
std::vector<std::string> node_labels(const Roster& roster);

/// "(vector,(0,2,4),(2,1,3))" of {4, 4, 3}: which ranks share a node, as PMI-1 says it.
std::string process_mapping(const std::vector<int>& ranks_per_node);

}  // namespace autolaunch::launcher
