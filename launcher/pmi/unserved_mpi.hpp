#pragma once
#include "pmi/mpi_state.hpp"

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// What the memory map of a process says of MPI.
struct MappedMpi {
    std::string library;            ///< "libmpi.so.40.30.4"
    bool initialised = false;       ///< it has what MPI_Init makes: segments, transports
    std::vector<MappedFile> files;  ///< the MPI libraries
};

/// Of the text of /proc/PID/maps; nothing where no MPI library is mapped. Pure.
std::optional<MappedMpi> find_mapped_mpi(std::string_view maps);

/// How a process was told who it is in MPI.
enum class MpiIdentity {
    ours,     ///< by autolaunch
    foreign,  ///< by another launcher: an mpirun that the rank started
    none,     ///< not at all: MPI_Init makes it rank 0 of 1
};

/// What autolaunch has told all ranks of a node; empty: it has not.
struct MpiNames {
    std::string name_space;  ///< PMIX_NAMESPACE
    std::string port;        ///< PMI_PORT
    std::string fd;          ///< PMI_FD
};

/// Of the bytes of /proc/PID/environ. Pure.
MpiIdentity find_mpi_identity(std::string_view environment, const MpiNames& names);

/// A process that has MPI and did not come to autolaunch for it.
struct UnservedMpi {
    pid_t pid = -1;
    std::string program;
    MappedMpi mpi;
    MpiIdentity identity = MpiIdentity::ours;
};

/// The first one among `rank` and its descendants; one that has initialised before all others.
/// Processes of an mpirun of their own do not count, nor, on demand, those that have our variables.
/// Reads /proc: some hundred microseconds a process that counts.
std::optional<UnservedMpi> find_unserved_mpi(pid_t rank, const MpiNames& names,
                                             MpiStateReader& states,
                                             bool only_unidentified = false);

}  // namespace autolaunch::launcher
