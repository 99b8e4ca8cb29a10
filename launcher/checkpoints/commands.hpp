#pragma once
#include "checkpoints/checkpoint_command.hpp"

#include <nlohmann/json_fwd.hpp>

#include <sys/types.h>

#include <string>
#include <string_view>

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
/// In new_key.cpp: keygen, of each kind.
CheckpointOutcome make_key(const CheckpointRequest& request);
/// In wrapped_key.cpp.
CheckpointOutcome make_wrapped_identity(const CheckpointRequest& request);

/// A file of keys. It never replaces one: that may be the only copy of a key. Throws SystemError.
void write_new_file(const std::string& path, std::string_view text, mode_t mode);

/// What a command has made, for programs: docs/json-output.md.
std::string made_json(const char* command, nlohmann::ordered_json facts);

}  // namespace autolaunch::launcher
