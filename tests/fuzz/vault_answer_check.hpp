#pragma once
#include "vault/vault_answer.hpp"

#include <cstdlib>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// The body of an answer of Vault: what is taken out of it is a part of it, and fits where it goes.
/// Aborts where that is not so. Whether anything was.
inline bool check_vault_bytes(std::string_view bytes) {
    using Kind = VaultSecretAnswer::Kind;
    const auto token = vault_token_in(bytes);
    const auto mount = vault_mount_in(bytes);
    if ((token && (has_odd_bytes(*token) || token->size() > bytes.size())) ||
        (mount && (mount->version < 1 || mount->version > 2 || mount->at.size() > bytes.size())))
        std::abort();
    const auto wrapped = vault_ciphertext_in(bytes);
    const auto plain = vault_plaintext_in(bytes);
    if ((wrapped && (!is_vault_ciphertext(*wrapped) || wrapped->size() > bytes.size())) ||
        (plain && plain->size() > bytes.size()))
        std::abort();
    bool any = token || mount || wrapped || plain || vault_has_no_key(bytes);
    for (const bool second : {false, true}) {
        const auto secret = vault_secret_in(bytes, second, "key");
        if (secret.text.size() > bytes.size() ||
            (secret.kind != Kind::text && !secret.text.empty()))
            std::abort();
        any = any || secret.kind == Kind::text;
    }
    return any;
}

}  // namespace autolaunch::launcher
