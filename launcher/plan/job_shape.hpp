#pragma once
#include "allocation/allocation.hpp"
#include "spec/job_spec.hpp"
#include "topology/node_topology.hpp"

namespace autolaunch::launcher {

/// How large the job is, as far as one node knows before the nodes have met.
struct JobShape {
    int nodes = 1;
    int ranks_here = 1;
};

/// Pure. Throws Error{invalid_argument} for a shape that cannot be, e.g. several launchers on this
/// node that are each to start several ranks.
JobShape decide_shape(const JobSpec& spec, const Allocation& allocation,
                      const NodeTopology& topology);

}  // namespace autolaunch::launcher
