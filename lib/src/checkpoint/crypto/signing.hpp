#pragma once
#include "checkpoint/crypto/crypto.hpp"
#include "checkpoint/crypto/secret.hpp"

#include <filesystem>
#include <string>
#include <string_view>

namespace autolaunch::crypto {

/// A key of Ed25519 that signs, as `openssl genpkey -algorithm ed25519` or `autolaunch ckpt keygen
/// --signing` writes it: PEM of PKCS#8, or 64 hexadecimal digits. Wiped when it goes.
class SigningKey {
public:
    SigningKey() = default;
    /// Throws Error{invalid_argument} where the file is open to others, or has no such key. Errors
    /// never quote it.
    static SigningKey read(const std::filesystem::path& file);
    /// The same of a text; `source` names it in errors.
    static SigningKey parse(std::string_view text, const std::string& source);

    bool empty() const { return seed_.empty(); }
    Signature sign(std::string_view message) const;
    /// 64 hexadecimal digits.
    std::string public_text() const;

private:
    SecretBytes seed_;
};

/// PEM of a public key, or 64 hexadecimal digits. Throws Error{invalid_argument}.
Point parse_public_key(std::string_view text, const std::string& source);

/// PEM texts of a new key: what signs, and what verifies.
SecretBytes pem_of_new_signing_key(std::string& public_pem);

}  // namespace autolaunch::crypto
