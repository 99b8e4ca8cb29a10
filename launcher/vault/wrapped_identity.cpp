#include "vault/wrapped_identity.hpp"

#include "base/json_nesting.hpp"
#include "base/text.hpp"
#include "exit_codes/exit_error.hpp"
#include "secret_sources/secret_file.hpp"
#include "vault/vault_answer.hpp"

#include <nlohmann/json.hpp>

#include <optional>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::json;

constexpr char kWrappedFormat[] = "autolaunch wrapped identity 1";
constexpr int kDeepestFile = 4;

[[noreturn]] void refuse_wrapped(const std::string& source, const std::string& why,
                                 const std::string& hint) {
    throw ExitError(exit_code::kBadData, ErrorCode::invalid_argument, source + why, hint);
}

std::string text_of(const Json& tree, const char* name) {
    const auto found = tree.is_object() ? tree.find(name) : tree.end();
    return found != tree.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool is_recipient(const std::string& text) {
    try {
        age::Recipient::parse(text);
        return true;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace

WrappedIdentity parse_wrapped_identity(std::string_view text, const std::string& source) {
    const std::string hint = "autolaunch ckpt keygen --vault-transit MOUNT/KEY FILE writes one";
    const Json tree =
        nests_at_most(text, kDeepestFile) ? Json::parse(text, nullptr, false) : Json();
    if (const std::string format = text_of(tree, "format"); format != kWrappedFormat)
        refuse_wrapped(source, " is no wrapped identity, or one of another format",
                       "its \"format\" would be \"" + std::string(kWrappedFormat) + "\"; " + hint);
    const auto key = transit_key_from(text_of(tree, "vault_transit"));
    if (!key)
        refuse_wrapped(source, ": vault_transit is no MOUNT/KEY of Vault's transit engine", hint);
    WrappedIdentity wrapped{*key, text_of(tree, "recipient"), text_of(tree, "ciphertext")};
    if (!is_recipient(wrapped.recipient))
        refuse_wrapped(source, ": recipient is no public key of age", hint);
    if (!is_vault_ciphertext(wrapped.ciphertext))
        refuse_wrapped(source, ": ciphertext is none of Vault's, vault:v1:…", hint);
    return wrapped;
}

std::string to_text(const WrappedIdentity& wrapped) {
    const nlohmann::ordered_json json = {{"format", kWrappedFormat},
                                         {"vault_transit", wrapped.key.to_text()},
                                         {"recipient", wrapped.recipient},
                                         {"ciphertext", wrapped.ciphertext}};
    return json.dump(2) + '\n';
}

age::Identity unwrap(VaultClient& vault, const std::string& what, const WrappedIdentity& wrapped,
                     const Deadline& deadline) {
    const crypto::SecretBytes plain =
        vault.decrypt(what, wrapped.key, wrapped.ciphertext, deadline);
    const std::string key = wrapped.key.to_text();
    std::optional<age::Identity> identity;
    try {
        identity = age::Identity::parse(trim(crypto::as_text(plain)));
    } catch (const Error& error) {
        if (error.code() != ErrorCode::invalid_argument)
            throw;
        refuse_wrapped(what, ": what " + key + " has wrapped there is no secret key of age",
                       "autolaunch ckpt keygen --vault-transit MOUNT/KEY FILE makes and wraps one");
    }
    if (identity->recipient().to_text() != wrapped.recipient)
        refuse_wrapped(
            what,
            ": what " + key + " has wrapped there is not the secret half of " + wrapped.recipient,
            "the file was changed, or is of two others: take the one that keygen wrote");
    return std::move(*identity);
}

WrappedIdentity wrap(VaultClient& vault, const std::string& what, const TransitKey& key,
                     const age::Identity& identity, const Deadline& deadline) {
    return {key, identity.recipient().to_text(),
            vault.encrypt(what, key, identity.to_text(), deadline)};
}

std::string unwrapped_line(VaultClient& vault, const std::string& what, const std::string& path,
                           const Deadline& deadline) {
    const WrappedIdentity wrapped =
        parse_wrapped_identity(read_secret_of_file(what, path), what + ": " + path);
    const auto line = unwrap(vault, what, wrapped, deadline).to_text();
    return std::string(crypto::as_text(line)) + '\n';
}

}  // namespace autolaunch::launcher
