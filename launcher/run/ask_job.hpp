#pragma once
#include "allocation/allocation.hpp"

#include <string>

namespace autolaunch::launcher {

/// What a person's program wants of a running job.
struct JobCall {
    std::string job;          ///< find_head()
    std::string secret_file;  ///< of a given key; empty: the job's own, or AUTOLAUNCH_JOB_KEY
};

/// `autolaunch drain`: until the node is left, or it is clear that it will not be. An exit code of
/// docs/exit-codes.md. Throws Error where the head is not found.
int drain_node_of_job(const JobCall& call, const std::string& node,
                      const EnvironmentMap& environment);
/// `autolaunch drain --take-back`: a node that was left out may be of the job again, of one that
/// runs or of one that waits to be requeued. The same.
int take_back_node_of_job(const JobCall& call, const std::string& node,
                          const EnvironmentMap& environment);
/// `autolaunch attach`: shows the job's console until it ends (its exit code) or SIGINT comes (0).
int attach_to_job(const JobCall& call, const EnvironmentMap& environment);

}  // namespace autolaunch::launcher
