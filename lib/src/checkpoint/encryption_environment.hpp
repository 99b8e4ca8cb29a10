#pragma once
#include "base/environment.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>

namespace autolaunch {

/// What the job's spec and the administrator's file add to the trainer's own options, by
/// AUTOLAUNCH_CHECKPOINT_* (docs/encryption.md): recipients beside the trainer's, keys where the
/// trainer names none. Pure. Throws Error{invalid_argument} where checkpoints must be encrypted and
/// nobody was named who may open them.
EncryptionOptions with_environment(EncryptionOptions options, const Environment& environment);

}  // namespace autolaunch
