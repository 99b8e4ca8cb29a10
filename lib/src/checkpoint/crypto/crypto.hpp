#pragma once
#include "checkpoint/crypto/secret.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace autolaunch::crypto {

// What age and S3 need of OpenSSL's libcrypto (3.0 or newer). It is loaded at the first call, so a
// job without either never pays for it. Every function throws Error{unsupported} where the library
// is missing, or where this was built without its headers (AUTOLAUNCH_WITH_CRYPTO).

using Bytes = std::span<const std::uint8_t>;
using Digest = std::array<std::uint8_t, 32>;
using Point = std::array<std::uint8_t, 32>;  ///< a public key of X25519

inline Bytes bytes_of(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

Digest sha256(Bytes message);
/// RFC 1321, to recognise what an S3 server has, never to trust it. Nothing where libcrypto refuses
/// it (FIPS).
std::optional<std::array<std::uint8_t, 16>> md5(Bytes message);
/// RFC 2104.
Digest hmac_sha256(Bytes key, Bytes message);
/// RFC 5869, 32 bytes of output. An empty salt is the RFC's default.
SecretBytes hkdf_sha256(Bytes input_key, Bytes salt, std::string_view info);

/// RFC 7748. The secret has 32 bytes. Throws Error{corrupt} for a point of low order, whose product
/// everybody knows.
SecretBytes x25519(Bytes secret, const Point& point);
Point x25519_public(Bytes secret);

/// RFC 8032, Ed25519. The secret is the seed of 32 bytes.
using Signature = std::array<std::uint8_t, 64>;
Signature ed25519_sign(Bytes secret, Bytes message);
Point ed25519_public(Bytes secret);
bool ed25519_verify(const Point& key, Bytes message, const Signature& signature);

/// From the kernel's generator.
SecretBytes random_secret(std::size_t bytes);
/// Takes the same time wherever they differ.
bool equal_in_constant_time(Bytes a, Bytes b);

/// ChaCha20-Poly1305 of RFC 8439 with one key, without associated data. Threads: one.
class ChaCha20Poly1305 {
public:
    static constexpr std::size_t kKeyBytes = 32, kTagBytes = 16;
    using Nonce = std::array<std::uint8_t, 12>;

    explicit ChaCha20Poly1305(Bytes key);
    ChaCha20Poly1305(ChaCha20Poly1305&&) noexcept;
    ChaCha20Poly1305& operator=(ChaCha20Poly1305&&) noexcept;
    ~ChaCha20Poly1305();

    /// `sealed` is kTagBytes longer than `plain`; they may start at the same byte.
    void seal(const Nonce& nonce, std::span<const std::byte> plain, std::span<std::byte> sealed);
    /// The reverse; false when the tag does not fit, and then `plain` is all zeros.
    [[nodiscard]] bool open(const Nonce& nonce, std::span<const std::byte> sealed,
                            std::span<std::byte> plain);

private:
    struct Contexts;
    std::unique_ptr<Contexts> contexts_;
};

}  // namespace autolaunch::crypto
