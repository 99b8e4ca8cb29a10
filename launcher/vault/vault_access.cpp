#include "vault/vault_access.hpp"

#include "exit_codes/exit_error.hpp"
#include "secret_sources/secret_file.hpp"
#include "site/site_vault.hpp"

#include <utility>

namespace autolaunch::launcher {

namespace {

using Variables = std::map<std::string, std::string>;

[[noreturn]] void refuse_access(const std::string& what, const std::string& why, std::string hint) {
    throw ExitError(exit_code::kBadSpec, ErrorCode::invalid_argument, what + ": " + why,
                    std::move(hint));
}

std::string variable_or(const Variables& environment, const char* name, const std::string& other) {
    const auto found = environment.find(name);
    return found == environment.end() || found->second.empty() ? other : found->second;
}

void check_address(const std::string& what, const std::string& address) {
    if (address.empty())
        refuse_access(what, "nothing says where Vault is",
                      "set VAULT_ADDR=https://HOST:8200, or vault.address in the spec or in the "
                      "administrator's file");
    if (!is_safe_vault_address(address) || address.find_first_of("?#") != std::string::npos)
        refuse_access(what, "Vault's address is neither https nor this machine's own loopback",
                      "a token may not travel in clear: VAULT_ADDR is https://HOST:PORT");
}

void check_method(const std::string& what, const VaultAccess& access) {
    if (!is_vault_method(access.method))
        refuse_access(what, "vault.auth.method is " + access.method,
                      "there are token, approle and jwt");
    if (access.method != "token" && (access.role.empty() || access.file.empty()))
        refuse_access(what, "vault.auth lacks a role or a file for " + access.method,
                      "approle: role is the role_id, file has the secret_id; jwt: role is the "
                      "role's name, file has the token");
}

}  // namespace

VaultAccess vault_access(const std::string& what, const VaultSpec& configured,
                         const Variables& environment) {
    VaultAccess access{
        .address = variable_or(environment, "VAULT_ADDR", configured.address),
        .vault_namespace = variable_or(environment, "VAULT_NAMESPACE", configured.vault_namespace),
        .ca_file = variable_or(environment, "VAULT_CACERT", ""),
        .method = configured.method,
        .mount = configured.mount.empty() ? configured.method : configured.mount,
        .role = configured.role,
        .file = with_home(configured.file, environment),
        .token = variable_or(environment, "VAULT_TOKEN", ""),
    };
    check_address(what, access.address);
    while (access.address.ends_with('/'))
        access.address.pop_back();
    if (!access.token.empty())
        access.method = "token";
    check_method(what, access);
    if (access.method == "token" && access.file.empty())
        access.file = with_home("~/.vault-token", environment);
    return access;
}

}  // namespace autolaunch::launcher
