#pragma once
#include "spec/secret_spec.hpp"

#include <map>
#include <string>

namespace autolaunch::launcher {

/// Where Vault is, and how this user proves there who he is. Whatever is a secret in it is read
/// when it is used.
struct VaultAccess {
    std::string address;  ///< without a slash at its end
    std::string vault_namespace;
    std::string ca_file;
    std::string method;  ///< token, approle, jwt
    std::string mount;   ///< of approle and jwt
    std::string role;
    std::string file;   ///< of the token, the secret_id or the JWT
    std::string token;  ///< VAULT_TOKEN's; else empty
};

/// VAULT_ADDR, VAULT_NAMESPACE, VAULT_CACERT and VAULT_TOKEN of the environment; else what
/// `configured` has; else ~/.vault-token. Throws ExitError 65, with `what` before the reason: there
/// is no address, it is no https and not this machine's, or a method lacks something. Pure.
VaultAccess vault_access(const std::string& what, const VaultSpec& configured,
                         const std::map<std::string, std::string>& environment);

}  // namespace autolaunch::launcher
