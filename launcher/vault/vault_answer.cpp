#include "vault/vault_answer.hpp"

#include "base/json_nesting.hpp"
#include "checkpoint/age/age_header.hpp"

#include <string.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::json;

// Vault's own have some 6, and a secret of KV may be a tree. What is deeper is copied recursively.
constexpr int kDeepest = 64;

Json parsed(std::string_view body) {
    return nests_at_most(body, kDeepest) ? Json::parse(body, nullptr, false) : Json();
}

/// Nothing where the answer is no JSON, or has not that in it.
Json member(const Json& tree, std::initializer_list<const char*> names) {
    const Json* at = &tree;
    for (const char* name : names) {
        if (!at->is_object() || !at->contains(name))
            return {};
        at = &(*at)[name];
    }
    return *at;
}

// With the padding that RFC 4648 wants and age's Base64 has not.
std::optional<crypto::SecretBytes> decode_padded(std::string_view text) {
    if (text.size() % 4 != 0)
        return std::nullopt;
    for (int i = 0; i < 2 && text.ends_with('='); ++i)
        text.remove_suffix(1);
    std::vector<std::uint8_t> bytes;
    bytes.reserve(text.size());  // no piece of it is left behind where it would grow
    const bool good = age::decode_base64(text, bytes);
    crypto::SecretBytes secret(bytes.begin(), bytes.end());
    if (!bytes.empty())
        ::explicit_bzero(bytes.data(), bytes.size());
    return good ? std::optional(std::move(secret)) : std::nullopt;
}

}  // namespace

bool has_odd_bytes(std::string_view text) {
    return std::any_of(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; });
}

std::optional<std::string> vault_token_in(std::string_view body) {
    const Json token = member(parsed(body), {"auth", "client_token"});
    if (!token.is_string() || has_odd_bytes(token.get_ref<const std::string&>()))
        return std::nullopt;
    return token.get<std::string>();
}

std::optional<VaultMountAnswer> vault_mount_in(std::string_view body) {
    const Json data = member(parsed(body), {"data"});
    const Json at = member(data, {"path"}), version = member(data, {"options", "version"});
    if (!at.is_string())
        return std::nullopt;
    return VaultMountAnswer{at.get<std::string>(), version == Json("2") ? 2 : 1};
}

VaultSecretAnswer vault_secret_in(std::string_view body, bool second, const std::string& key) {
    using Kind = VaultSecretAnswer::Kind;
    const Json tree = parsed(body);
    const Json fields = second ? member(tree, {"data", "data"}) : member(tree, {"data"});
    if (!fields.is_object())
        return {Kind::no_secret};
    const auto found = fields.find(key);
    if (found == fields.end())
        return {Kind::no_key};
    return found->is_string() ? VaultSecretAnswer{Kind::text, found->get<std::string>()}
                              : VaultSecretAnswer{Kind::no_text};
}

std::optional<std::string> vault_ciphertext_in(std::string_view body) {
    const Json text = member(parsed(body), {"data", "ciphertext"});
    if (!text.is_string() || !is_vault_ciphertext(text.get_ref<const std::string&>()))
        return std::nullopt;
    return text.get<std::string>();
}

std::optional<crypto::SecretBytes> vault_plaintext_in(std::string_view body) {
    Json tree = parsed(body);
    const auto data = tree.is_object() ? tree.find("data") : tree.end();
    if (data == tree.end() || !data->is_object() || !data->contains("plaintext") ||
        !(*data)["plaintext"].is_string())
        return std::nullopt;
    auto& text = (*data)["plaintext"].get_ref<std::string&>();  // the one copy, wiped below
    auto secret = decode_padded(text);
    ::explicit_bzero(text.data(), text.size());
    return secret;
}

bool vault_has_no_key(std::string_view body) {
    const Json errors = member(parsed(body), {"errors"});
    return errors.is_array() && std::any_of(errors.begin(), errors.end(), [](const Json& error) {
               return error.is_string() && error.get_ref<const std::string&>().find(
                                               "key not found") != std::string::npos;
           });
}

bool is_vault_ciphertext(std::string_view text) {
    constexpr std::string_view kStart = "vault:v";
    if (!text.starts_with(kStart))
        return false;
    text.remove_prefix(kStart.size());
    const std::size_t colon = text.find(':');
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const auto is_base64 = [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
               c == '+' || c == '/' || c == '=';
    };
    return colon != std::string_view::npos && colon > 0 && colon + 1 < text.size() &&
           std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(colon), is_digit) &&
           std::all_of(text.begin() + static_cast<std::ptrdiff_t>(colon) + 1, text.end(),
                       is_base64);
}

}  // namespace autolaunch::launcher
