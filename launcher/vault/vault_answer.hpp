#pragma once
#include "checkpoint/crypto/secret.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

// What is in the bodies of Vault's answers. A body may be anything: TLS says who sent it, and not
// that it is JSON, small or flat. Pure.

/// Of a login: auth.client_token, without blanks or line ends.
std::optional<std::string> vault_token_in(std::string_view body);

/// Of sys/internal/ui/mounts: data.path, and 2 where data.options.version says so.
struct VaultMountAnswer {
    std::string at;
    int version = 1;
};
std::optional<VaultMountAnswer> vault_mount_in(std::string_view body);

/// Of a read: one text of data, or of data.data in version 2.
struct VaultSecretAnswer {
    enum class Kind { no_secret, no_key, no_text, text } kind = Kind::no_secret;
    std::string text = {};
};
VaultSecretAnswer vault_secret_in(std::string_view body, bool second, const std::string& key);

/// Of transit's encrypt: data.ciphertext.
std::optional<std::string> vault_ciphertext_in(std::string_view body);

/// Of its decrypt: data.plaintext, out of Base64. What else this function makes of it is wiped.
std::optional<crypto::SecretBytes> vault_plaintext_in(std::string_view body);

/// Whether an answer 400 of transit says that it has no key of that name.
bool vault_has_no_key(std::string_view body);

/// "vault:v1:…": the version of the key, and Base64.
bool is_vault_ciphertext(std::string_view text);

/// Whether a token would break the header that it goes into.
bool has_odd_bytes(std::string_view text);

}  // namespace autolaunch::launcher
