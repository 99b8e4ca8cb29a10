#pragma once
#include "session/checkpoint_settings.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>

namespace autolaunch {

/// Whether the settings are for checkpoints in that directory. Looks at links, for two names of one
/// folder.
bool is_meant(const CheckpointSettings& settings, const std::filesystem::path& directory);

/// The trainer's options with what the spec says in their place: its word wins. Pure.
CheckpointOptions with_settings(CheckpointOptions options, const CheckpointSettings& settings);

}  // namespace autolaunch
