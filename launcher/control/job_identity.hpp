#pragma once
#include "allocation/allocation.hpp"
#include "spec/rendezvous_spec.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Which job this is: equal on all its nodes, different between jobs that run at once. Not secret.
struct JobIdentity {
    std::string name;  ///< "slurm/4711.0", "static/host:29500/run1", …: the TLS key's identity, too
    /// Where the head may listen, in the order tried. Below the kernel's ephemeral range.
    std::vector<std::uint16_t> ports;
};

/// Pure. A requeued job is another one than before (its restart count is part of the name).
/// `run_id` is the user's own, or empty.
JobIdentity job_identity(const Allocation& allocation, const RendezvousSpec& spec,
                         const std::string& run_id);

}  // namespace autolaunch::launcher
