#pragma once
#include "checkpoint/crypto/secret.hpp"

#include <filesystem>
#include <string>

namespace autolaunch::crypto {

/// What one read(2) gives, appended to memory that is wiped. `source` names the descriptor in
/// errors. Throws Error{invalid_argument} beyond 1 MiB: no keys are that long.
void read_some(int fd, SecretBytes& text, const std::string& source);

/// A file with secrets. Throws Error{invalid_argument} when anybody but its owner may read, write
/// or execute it, when the owner is neither this user nor root, or when it is no regular file.
SecretBytes read_key_file(const std::filesystem::path& file);

}  // namespace autolaunch::crypto
