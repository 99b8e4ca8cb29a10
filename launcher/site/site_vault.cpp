#include "site/site_vault.hpp"

#include <algorithm>
#include <string>

namespace autolaunch::launcher {

namespace {

// Without its port; empty: there is none, or what stands there is no mere host ("user@host").
std::string_view host_of(std::string_view rest) {
    rest = rest.substr(0, rest.find_first_of("/?#"));
    if (rest.find('@') != rest.npos || rest.find('\\') != rest.npos)
        return {};
    if (rest.starts_with('['))
        return rest.substr(0, rest.find(']') + 1);
    return rest.substr(0, rest.find(':'));
}

// 127.0.0.1 and its like, as four numbers: "127.evil.example" is a name.
bool is_loopback(std::string_view host) {
    if (host == "localhost" || host == "[::1]")
        return true;
    return host.starts_with("127.") && std::count(host.begin(), host.end(), '.') == 3 &&
           host.find_first_not_of("0123456789.") == host.npos;
}

}  // namespace

VaultSpec vault_of(const SiteSettings& settings) {
    VaultSpec vault;
    const auto take = [&settings](std::string_view path, std::string& to) {
        if (const SiteSetting* found = settings.find(path))
            to = found->value.text;
    };
    take("vault.address", vault.address);
    take("vault.namespace", vault.vault_namespace);
    take("vault.auth.method", vault.method);
    take("vault.auth.mount", vault.mount);
    take("vault.auth.role", vault.role);
    take("vault.auth.file", vault.file);
    return vault;
}

bool is_safe_vault_address(std::string_view address) {
    constexpr std::string_view kSafe = "https://", kPlain = "http://";
    const bool odd = std::any_of(address.begin(), address.end(), [](char c) {
        return static_cast<unsigned char>(c) <= ' ' || c == 0x7f;
    });
    if (odd)
        return false;
    if (address.starts_with(kSafe))
        return !host_of(address.substr(kSafe.size())).empty();
    return address.starts_with(kPlain) && is_loopback(host_of(address.substr(kPlain.size())));
}

bool is_own_machine(std::string_view url) {
    const std::size_t scheme = url.find("://");
    return scheme != url.npos && is_loopback(host_of(url.substr(scheme + 3)));
}

bool is_vault_method(std::string_view word) {
    return word == "token" || word == "approle" || word == "jwt";
}

}  // namespace autolaunch::launcher
