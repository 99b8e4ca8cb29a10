#pragma once
#include "allocation/allocation.hpp"
#include "plan/job_shape.hpp"
#include "rendezvous/join.hpp"
#include "spec/job_spec.hpp"

#include <string>

namespace autolaunch::launcher {

// What `run` and `doctor` bring to a rendezvous.

/// "20260309-174501-4711": of this second and process.
std::string now_text();
NodeOptions node_options(const JobSpec& spec);
JoinRequest join_request(const JobSpec& spec, const JobShape& shape, const std::string& version,
                         int cancel_fd);

/// Where the key file is, where the job's key comes from one.
std::string shared_directory_of(const JobSpec& spec);

}  // namespace autolaunch::launcher
