#pragma once
#include "checkpoint/crypto/secret.hpp"
#include "checkpoint/crypto/signing.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/checkpoint/manifest.hpp>
#include <autolaunch/error.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace autolaunch {

// Who wrote a checkpoint: HMAC-SHA-256 over the manifest's text, which has the SHA-256 of every
// stored block. The bytes are in docs/checkpoint-format.md, what it protects in docs/encryption.md.

/// A manifest that nobody with the key wrote.
class NotAuthentic : public Error {
public:
    explicit NotAuthentic(const std::string& what, const std::string& hint = {})
        : Error(ErrorCode::corrupt, what, hint) {}
};

/// Secrets that those share who may write and who read. With none of them every manifest is
/// accepted, and none gets a MAC. Wiped when they go. Threads: any, for const functions.
class AuthenticationKeys {
public:
    static constexpr std::size_t kKeyBytes = 32;

    AuthenticationKeys() = default;
    /// Lines of 64 hexadecimal digits, empty ones, and comments that start with '#'. `source` names
    /// them in errors, which never quote the text. Throws Error{invalid_argument} with the line's
    /// number, and when there is no key at all.
    static AuthenticationKeys parse(std::string_view text, const std::string& source);
    /// The options' file, or what their command prints; none where there is neither. Blocks: while
    /// the command runs, at most a minute.
    static AuthenticationKeys find(const EncryptionOptions& options);
    /// A line for a new key file.
    static crypto::SecretBytes new_key_line();

    bool empty() const noexcept { return keys_.empty(); }
    /// The manifest's text, with the first key's MAC and the signature of `signer`, if there are
    /// such. Throws Error{mismatch} unless every file has its SHA-256.
    std::string to_text(const Manifest& manifest, const crypto::SigningKey& signer = {}) const;
    /// Throws NotAuthentic unless the text has the MAC of one of the keys; `name` is the manifest's
    /// in errors. Nothing of the text is looked at before.
    void require_authentic(std::string_view text, const std::string& name) const;

private:
    std::vector<crypto::SecretBytes> keys_;  ///< derived, for the MAC
};

/// Of a manifest's text, which has its digest: whether it has a signature, and of this key.
enum class Signed { no, by_key, otherwise };
Signed signature_of(std::string_view text, const crypto::Point& public_key);

/// An authentication key is set.
bool is_authenticated(const EncryptionOptions& options);

}  // namespace autolaunch
