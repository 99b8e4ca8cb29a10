#pragma once
#include "checkpoint/age/age_keys.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>

#include <vector>

namespace autolaunch {

// Shards that are stored as files of age. The manifest's sizes and digests are of what is stored,
// so that it is copied and verified without a key; pieces are places in the plaintext.

inline constexpr char kEncryptedSuffix[] = ".age";

/// Of the options' recipients. Throws Error{invalid_argument} with the number of the one that is
/// none.
std::vector<age::Recipient> parse_recipients(const EncryptionOptions& options);
/// From the options' file or command; Error{invalid_argument} where there is neither. Blocks: while
/// the command runs, at most a minute.
std::vector<age::Identity> find_identities(const EncryptionOptions& options);

}  // namespace autolaunch
