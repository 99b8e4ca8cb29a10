#pragma once
#include "spec/secret_spec.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

enum class CheckpointAction {
    list,
    show,
    verify,
    diff,
    export_tensors,
    reshard,
    prune,
    convert,
    new_key
};

/// Where keys are; commands print them (docs/encryption.md). Empty: there is none.
struct CheckpointKeys {
    std::string identity_file, identity_command;
    std::string authentication_key_file, authentication_key_command;
    std::string signing_key_file;         ///< reshard, convert: what is made is signed with it
    std::string public_key_file;          ///< verify: whose signature it must have
    std::vector<std::string> recipients;  ///< reshard, convert: what is made is encrypted for these
};

/// Where a key that Vault has wrapped is unwrapped.
struct VaultPlace {
    VaultSpec configured;
    std::map<std::string, std::string> environment;
};

/// What `autolaunch ckpt` was asked for.
struct CheckpointRequest {
    CheckpointAction action = CheckpointAction::list;
    std::vector<std::string> paths;
    bool json = false;
    bool tensors = false;           ///< show: every tensor
    bool all = false;               ///< export: optimizer state too
    bool dry_run = false;           ///< prune
    std::vector<std::string> only;  ///< beginnings of tensors' names; empty: every tensor
    std::string dtype;  ///< export, reshard: "f32", "bf16" or "f16" for floating-point tensors
    std::uint64_t max_file_bytes =
        5'000'000'000;       ///< export: a larger file is cut, as Hugging Face does
    int ranks = 1;           ///< reshard, convert
    int keep = 0;            ///< prune: so many of the newest
    std::int64_t every = 0;  ///< prune: and every checkpoint whose step is a multiple of it
    std::optional<std::int64_t> step;  ///< convert: the step of what is made
    std::string python = "python3";    ///< convert: for PyTorch's own checkpoints
    CheckpointKeys keys;
    bool trust_source = false;  ///< reshard: it needs no MAC, though what is made gets one
    bool signing = false;       ///< keygen: a pair that signs and verifies
    std::string vault_transit;  ///< keygen: a secret key of age, wrapped by this MOUNT/KEY
    VaultPlace vault;
    bool plain = false;  ///< reshard: of an encrypted one, not encrypted
};

struct CheckpointOutcome {
    std::string text;  ///< for the standard output
    int exit_code = 0;
    /// Of directories that were named: newer checkpoints than the one that was taken, with the
    /// reason. For stderr.
    std::vector<std::string> passed_over = {};
};

/// Does it. Shows progress on stderr where that is a terminal. Throws Error: of code corrupt or
/// mismatch for what is in files, SystemError for what cannot be read or written.
CheckpointOutcome run_checkpoint_command(const CheckpointRequest& request);

/// ls, show or verify over the places of a spec, the nearest first, as its paths: ls lists each,
/// verify takes the newest of each, show that of all. A directory that is not there yet is passed
/// over. Throws the same, and ExitError where none is there.
CheckpointOutcome run_on_places(CheckpointRequest request);

}  // namespace autolaunch::launcher
