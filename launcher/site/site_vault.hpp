#pragma once
#include "site/site_settings.hpp"
#include "spec/secret_spec.hpp"

#include <string_view>

namespace autolaunch::launcher {

/// What the section `vault` says, for a job. Pure.
VaultSpec vault_of(const SiteSettings& settings);

/// https://…, or http:// to this machine's own loopback: a token goes nowhere else. Pure.
bool is_safe_vault_address(std::string_view address);

/// Whether a URL of any scheme leads to this machine's own loopback: localhost, 127.0.0.0/8, [::1],
/// and no name that only begins so. Pure.
bool is_own_machine(std::string_view url);

/// Whether it is a way to prove who one is that we know. Pure.
bool is_vault_method(std::string_view word);

}  // namespace autolaunch::launcher
