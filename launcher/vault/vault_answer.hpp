#pragma once
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

/// Whether a token would break the header that it goes into.
bool has_odd_bytes(std::string_view text);

}  // namespace autolaunch::launcher
