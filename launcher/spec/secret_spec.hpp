#pragma once
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A secret that ranks get, and where it comes from: an entry of `secrets`. It holds no value.
struct SecretSpec {
    enum class Source { file, command, vault, vault_transit };
    enum class As { environment, file };

    std::string name;  ///< of the variable
    Source source = Source::file;
    std::string file;  ///< with Source::file; with vault_transit the one that Vault unwraps
    std::vector<std::string> command;  ///< with Source::command: run without a shell
    std::string vault_path;            ///< with Source::vault: "kv/team/hub", the mount first
    std::string vault_key;             ///< the same: of the fields there
    As as = As::environment;
    std::string ranks = "all";          ///< "0,3-5"
    std::vector<std::string> programs;  ///< roles of several programs; empty: of all

    bool operator==(const SecretSpec&) const = default;
};

/// Where Vault is and how this user proves who he is there, where the environment does not say it.
struct VaultSpec {
    std::string address;               ///< empty: VAULT_ADDR
    std::string vault_namespace = {};  ///< empty: VAULT_NAMESPACE, or none
    std::string method = "token";      ///< token, approle, jwt
    std::string mount = {};            ///< of the method; empty: as the method is called
    std::string role = {};             ///< jwt: the role; approle: the role_id
    std::string file = {};             ///< jwt: with the token; approle: with the secret_id

    bool operator==(const VaultSpec&) const = default;
};

}  // namespace autolaunch::launcher
