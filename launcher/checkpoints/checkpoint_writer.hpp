#pragma once
#include "checkpoint/storage/storage.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/checkpoint/manifest.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>

#include <filesystem>
#include <functional>

namespace autolaunch::launcher {

/// Fills the memory of one rank's part of the state.
using FillState = std::function<void(const fsdp::State& state)>;

struct WrittenAs {
    int ranks = 1;
    EncryptionOptions encryption = {};  ///< recipients, and the authentication key
};

/// Publishes a checkpoint of `described` (its step, tensors and what a person reads; files, pieces
/// and digests are made here) in a directory of checkpoints, as `as.ranks` ranks would have saved
/// it: each tensor cut into equal runs. Takes memory for one rank's part. Throws
/// SystemError{EEXIST} where the step is there. Returns its path.
std::filesystem::path write_checkpoint(Storage& storage, const std::filesystem::path& directory,
                                       const Manifest& described, const WrittenAs& as,
                                       const FillState& fill);

}  // namespace autolaunch::launcher
