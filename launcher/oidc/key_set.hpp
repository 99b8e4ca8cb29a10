#pragma once
#include "checkpoint/crypto/signature.hpp"

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace autolaunch::launcher::oidc {

/// One public key that signs, of an issuer.
struct SigningKey {
    std::string id;         ///< kid; may be empty
    std::string algorithm;  ///< the only one it is for, where its issuer says so; else empty
    std::variant<crypto::RsaPublicKey, crypto::P256PublicKey> key;
};

/// Of a JWKS document (RFC 7517). Keys that cannot check a signature here are left out: symmetric
/// ones, those for encryption, other curves, RSA of less than 2048 bits. Throws Error{corrupt}
/// where it is no such document, has a name twice, two keys of one id, or none that is of use.
/// Pure.
std::vector<SigningKey> parse_key_set(std::string_view json);

}  // namespace autolaunch::launcher::oidc
