#include "vault/vault_answer.hpp"

#include "base/json_nesting.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <initializer_list>

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

}  // namespace autolaunch::launcher
