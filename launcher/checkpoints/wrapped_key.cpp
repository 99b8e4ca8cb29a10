#include "checkpoint/age/encryption_keys.hpp"
#include "checkpoint/crypto/key_file.hpp"
#include "checkpoints/commands.hpp"
#include "checkpoints/open_checkpoint.hpp"
#include "exit_codes/exit_error.hpp"
#include "vault/wrapped_identity.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>

namespace autolaunch::launcher {

namespace {

constexpr auto kTransitTime = std::chrono::seconds(15);

}  // namespace

// Vault is asked first: where it refuses, there is no file, and no key that nobody can open.
CheckpointOutcome make_wrapped_identity(const CheckpointRequest& request) {
    const std::string &path = request.paths.at(0), what = "ckpt keygen";
    const auto key = transit_key_from(request.vault_transit);
    if (!key)
        throw UsageError("--vault-transit: expected MOUNT/KEY of Vault's transit engine",
                         "--vault-transit transit/run-7, after vault write -f transit/keys/run-7");
    require_free(path);
    require_free(path + ".pub");
    VaultClient vault(vault_access(what, request.vault.configured, request.vault.environment));
    const WrappedIdentity wrapped =
        wrap(vault, what, *key, age::Identity::generate(), Deadline::after(kTransitTime));
    write_new_file(path, to_text(wrapped), 0600);
    write_new_file(path + ".pub", wrapped.recipient + '\n', 0644);
    if (request.json)
        return {made_json("keygen", {{"path", path},
                                     {"public_key", path + ".pub"},
                                     {"recipient", wrapped.recipient},
                                     {"vault_transit", key->to_text()}}),
                0};
    return {fmt::format("{}\n{} has the secret key that opens what is encrypted for it, as Vault's "
                        "{} has wrapped it; {} has the line above, for checkpoint.recipients\n",
                        wrapped.recipient, shown(path), key->to_text(), shown(path + ".pub")),
            0};
}

std::vector<age::Identity> identities_to_read(const EncryptionOptions& encryption,
                                              const VaultPlace& place) {
    const std::string& path = encryption.identity_file;
    if (path.empty())
        return find_identities(encryption);
    const crypto::SecretBytes text = crypto::read_key_file(path);
    if (!age::looks_wrapped(crypto::as_text(text)))
        return age::parse_identities(crypto::as_text(text), path);
    const WrappedIdentity wrapped = parse_wrapped_identity(crypto::as_text(text), path);
    VaultClient vault(vault_access(path, place.configured, place.environment));
    std::vector<age::Identity> identities;
    identities.push_back(unwrap(vault, path, wrapped, Deadline::after(kTransitTime)));
    return identities;
}

}  // namespace autolaunch::launcher
