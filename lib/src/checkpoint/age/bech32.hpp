#pragma once
#include "checkpoint/crypto/secret.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace autolaunch::age {

// Bech32 of BIP 173, without its limit of 90 characters: how age writes keys. Pure.

struct Bech32 {
    std::string prefix;  ///< as written: upper or lower case
    crypto::SecretBytes data;
};

/// Throws Error{invalid_argument}; the text may be a secret, so no error quotes it.
Bech32 decode_bech32(std::string_view text);
/// In upper case when the prefix is.
crypto::SecretBytes encode_bech32(std::string_view prefix, std::span<const std::uint8_t> data);

}  // namespace autolaunch::age
