#pragma once
#include <cstddef>
#include <string_view>

namespace autolaunch::launcher {

/// A secret at the front of a text: how much of it may be shown, and how much is hidden after that.
struct SecretShape {
    std::size_t shown = 0;   ///< bytes such as "hf_", which say what it is
    std::size_t hidden = 0;  ///< 0: there is none
};

/// Whether a token, key or password of a well-known shape begins here. `before` is the byte in
/// front, 0 at a text's start: tokens do not begin within words.
SecretShape secret_at(std::string_view text, char before);

}  // namespace autolaunch::launcher
