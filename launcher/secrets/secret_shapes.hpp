#pragma once
#include <cstddef>
#include <string_view>

namespace autolaunch::launcher {

/// Where a text shows a secret.
struct SecretPlace {
    std::size_t begin = 0;  ///< behind bytes such as "hf_", which may be shown: they say what it is
    std::size_t size = 0;   ///< 0: there is none
};

/// The first token, key or password of a well-known shape that begins at `from` or behind it.
/// Tokens do not begin within words.
SecretPlace find_secret(std::string_view text, std::size_t from);

}  // namespace autolaunch::launcher
