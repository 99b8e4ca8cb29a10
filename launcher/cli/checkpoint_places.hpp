#pragma once
#include "checkpoints/checkpoint_command.hpp"
#include "spec/job_spec.hpp"

#include <string>

namespace autolaunch::launcher {

/// The request with what the spec says of places and keys, where the command line says nothing.
/// `current`: where autolaunch was started. Pure.
CheckpointRequest with_spec(CheckpointRequest request, const JobSpec& spec,
                            const std::string& current);

}  // namespace autolaunch::launcher
