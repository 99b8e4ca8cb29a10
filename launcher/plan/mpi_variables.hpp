#pragma once
#include <string_view>

namespace autolaunch::launcher {

// Variables by which launchers of MPI speak to the processes that they start. Pure.

/// Leads a process to its PMIx or PMI server and says who it is there. PMIX_MCA_* and PMI_DEBUG are
/// settings.
bool is_of_mpi_server(std::string_view name);
/// What mpirun tells the children of its own daemons.
bool is_of_mpirun_daemon(std::string_view name);

}  // namespace autolaunch::launcher
