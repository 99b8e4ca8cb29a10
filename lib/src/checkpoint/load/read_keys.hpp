#pragma once
#include "checkpoint/age/age_keys.hpp"

#include <span>

namespace autolaunch {

/// How a block is verified before anything of it is used.
enum class BlockCheck {
    accidents,  ///< by XXH3
    tampering,  ///< by the SHA-256 of a manifest that is authentic (commit/authentication.hpp)
};

/// What reading a checkpoint takes besides its files.
struct ReadKeys {
    std::span<const age::Identity> identities = {};  ///< for files that are encrypted
    BlockCheck check = BlockCheck::accidents;
};

}  // namespace autolaunch
