#pragma once
#include "checkpoint/crypto/crypto.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace autolaunch::crypto {

/// How a signature is made: RSA with PKCS #1 v1.5 or PSS (salt as long as the digest), ECDSA.
enum class SignatureScheme { rsa_pkcs1, rsa_pss, ecdsa };
enum class SignatureHash { sha256, sha384, sha512 };

/// A public key of RSA, as its two numbers, big-endian.
struct RsaPublicKey {
    std::vector<std::uint8_t> modulus, exponent;
};
/// A point of P-256, as its two coordinates of 32 bytes, big-endian.
struct P256PublicKey {
    std::array<std::uint8_t, 32> x{}, y{};
};

/// Whether the owner of the key has signed the message. False too for a key that is none: numbers
/// out of range, a point that is not on the curve. Throws Error{unsupported} without libcrypto.
[[nodiscard]] bool has_signed(const RsaPublicKey& key, SignatureScheme scheme, SignatureHash hash,
                              Bytes message, Bytes signature);
/// The signature is r and s of 32 bytes each, as JWS has it (RFC 7518, 3.4); over SHA-256.
[[nodiscard]] bool has_signed(const P256PublicKey& key, Bytes message, Bytes signature);

}  // namespace autolaunch::crypto
