#pragma once
#include "base/deadline.hpp"
#include "checkpoint/age/age_keys.hpp"
#include "vault/vault_client.hpp"

#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// What a file holds in the place of a secret key of age: the key as one of Vault's has wrapped it.
/// Only who may use that one there, while it is there, can open what is encrypted for `recipient`.
struct WrappedIdentity {
    TransitKey key;
    std::string recipient;   ///< "age1…", the public half
    std::string ciphertext;  ///< "vault:v1:…"

    bool operator==(const WrappedIdentity&) const = default;
};

/// JSON; docs/encryption.md has its format. Throws ExitError 65, begun by `source`. Pure.
WrappedIdentity parse_wrapped_identity(std::string_view text, const std::string& source);
std::string to_text(const WrappedIdentity& wrapped);

/// Asks Vault; 65 also where that is not the secret half of its recipient. Errors are
/// VaultClient's. Blocks: until the deadline.
age::Identity unwrap(VaultClient& vault, const std::string& what, const WrappedIdentity& wrapped,
                     const Deadline& deadline);
WrappedIdentity wrap(VaultClient& vault, const std::string& what, const TransitKey& key,
                     const age::Identity& identity, const Deadline& deadline);

/// Of a file that has a wrapped identity and is as those of secrets are (secret_file.hpp): the line
/// "AGE-SECRET-KEY-1…", for ranks. Throws as read_secret_of_file(), too.
std::string unwrapped_line(VaultClient& vault, const std::string& what, const std::string& path,
                           const Deadline& deadline);

}  // namespace autolaunch::launcher
