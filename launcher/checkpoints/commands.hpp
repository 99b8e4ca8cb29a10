#pragma once
#include "checkpoints/checkpoint_command.hpp"

namespace autolaunch::launcher {

// One function a subcommand, each in a file of its own name (list and show in describe.cpp).

CheckpointOutcome list_checkpoints(const CheckpointRequest& request);
CheckpointOutcome show_checkpoint(const CheckpointRequest& request);
/// Exit code kFindings when anything is damaged.
CheckpointOutcome verify_checkpoints(const CheckpointRequest& request);
/// Exit code kFindings when they differ.
CheckpointOutcome diff_checkpoints(const CheckpointRequest& request);
CheckpointOutcome export_checkpoint(const CheckpointRequest& request);
CheckpointOutcome reshard_checkpoint(const CheckpointRequest& request);
CheckpointOutcome prune_checkpoints(const CheckpointRequest& request);
CheckpointOutcome convert_to_checkpoint(const CheckpointRequest& request);
/// In new_key.cpp.
CheckpointOutcome make_authentication_key(const CheckpointRequest& request);

}  // namespace autolaunch::launcher
