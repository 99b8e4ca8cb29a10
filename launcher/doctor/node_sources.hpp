#pragma once
#include "allocation/allocation.hpp"
#include "topology/read_topology.hpp"

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A folder that the job writes to.
struct StorageFolder {
    std::string path;
    std::string purpose;  ///< "checkpoints", "run directory", "scratch"
};

/// What a name was resolved to.
struct ResolvedName {
    bool ipv4 = false, ipv6 = false, loopback = false;
    std::string error = {};  ///< the resolver's words, where there is no address
};

/// What checks look at: this machine, or a test's.
struct NodeSources {
    TopologyOptions roots = {};
    std::string etc_root = "/etc";
    std::string home = {};  ///< of the user, for ~/.nccl.conf
    EnvironmentMap environment = {};
    std::string hostname = {};
    std::vector<std::string> peers =
        {};  ///< names of the job's other nodes that this one asks the resolver for
    std::vector<StorageFolder> folders = {};
    std::vector<pid_t> tasks =
        {};  ///< the other tasks of this node, which must see the same /dev/shm
    std::string nvml_library = {};   ///< empty: the driver's
    std::string verbs_library = {};  ///< empty: the system's libibverbs
    std::string nccl_library = "libnccl.so.2";
    /// Nothing: getrlimit(2) failed.
    std::function<std::optional<rlimit>(int resource)> limit = {};
    std::function<ResolvedName(const std::string& name)> resolve = {};
    /// Between the two readings of counters.
    std::function<void()> pause = {};
};

/// This machine as it is.
NodeSources local_sources(const EnvironmentMap& environment);

/// Which of a job's nodes this one asks the resolver for: all of them, or, in a large job, the head
/// and those that follow in node order, so that the resolver gets a bounded number of questions
/// from each. Pure.
std::vector<std::string> peers_to_resolve(const std::vector<std::string>& nodes, int self);

}  // namespace autolaunch::launcher
