#pragma once
#include "checkpoint/age/age_keys.hpp"
#include "checkpoint/commit/authentication.hpp"
#include "checkpoint/load/read_keys.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/checkpoint/manifest.hpp>

#include <optional>
#include <vector>

namespace autolaunch {

/// The keys of a job's checkpoints, each read when it is first asked for. Owner: the engine.
/// Threads: one; but what was asked for before, a writer's thread may ask for, too. Blocks: while
/// the options' commands run.
class CheckpointKeys {
public:
    explicit CheckpointKeys(const EncryptionOptions& options) : options_(options) {}

    /// Rank 0's alone; that there are any all ranks know.
    const AuthenticationKeys& authentication();
    /// Rank 0's alone; empty: nothing is signed.
    const crypto::SigningKey& signer();
    /// What reading these files takes. Where nothing is encrypted nobody is asked for a key to open
    /// it.
    ReadKeys reading(const Manifest& manifest);

private:
    EncryptionOptions options_;
    std::optional<AuthenticationKeys> authentication_;
    std::optional<crypto::SigningKey> signer_;
    std::vector<age::Identity> identities_;
};

}  // namespace autolaunch
