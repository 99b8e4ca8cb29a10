#pragma once
#include "base/deadline.hpp"
#include "checkpoint/crypto/secret.hpp"

#include <chrono>
#include <string>

namespace autolaunch::crypto {

/// What such a command may take.
inline constexpr std::chrono::minutes kKeyCommandTime{1};

/// What `/bin/sh -c COMMAND` prints. Blocks until it has ended; at the deadline it is killed with
/// its process group, and TimeoutError is thrown. Its stderr is ours. Errors name the command, and
/// never quote its output.
SecretBytes output_of_key_command(const std::string& command, const Deadline& deadline);
/// As errors name it.
std::string name_of_key_command(const std::string& command);

}  // namespace autolaunch::crypto
