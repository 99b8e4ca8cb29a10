#pragma once
#include "allocation/allocation.hpp"
#include "spec/job_spec.hpp"
#include "topology/node_topology.hpp"

#include <functional>
#include <string>

namespace autolaunch::launcher {

/// What others have to say of a job before it starts; the launch knows only that they may throw.
struct StartGate {
    /// Once the nodes and the GPUs of each (granted, or used) are known, before the nodes meet; may
    /// be empty.
    std::function<void(int nodes, int gpus_per_node)> size;
    /// Once Slurm has said the job's time limit ("4:00:00", "UNLIMITED"; empty: it did not), on the
    /// head; empty: nobody wants to know.
    std::function<void(const std::string& time_limit)> time_limit;
};

/// The GPUs of this node that the scheduler granted, also where nothing of them can be used.
int granted_gpus(const Allocation& allocation);
int granted_gpus(const JobSpec& spec, const EnvironmentMap& environment);

/// The same or those that are used, whichever are more. Throws Error, as planning does.
int gpus_of_node(const JobSpec& spec, const Allocation& allocation, const NodeTopology& topology);

}  // namespace autolaunch::launcher
