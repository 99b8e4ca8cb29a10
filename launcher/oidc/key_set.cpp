#include "oidc/key_set.hpp"

#include "checkpoint/format/json.hpp"
#include "oidc/base64url.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>

namespace autolaunch::launcher::oidc {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxBytes = 256 << 10, kMaxKeys = 100, kMaxId = 256;
constexpr std::size_t kLeastModulus = 256, kMostModulus = 1024, kMostExponent = 8;
constexpr char kWhat[] = "the issuer's key set";

[[noreturn]] void refuse_set(const std::string& why) {
    throw Error(ErrorCode::corrupt, std::string(kWhat) + " " + why);
}

std::string member_text(const Json& key, const char* name) {
    const auto found = key.find(name);
    return found != key.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<crypto::RsaPublicKey> rsa_key(const Json& key) {
    auto modulus = decode_base64url(member_text(key, "n"));
    auto exponent = decode_base64url(member_text(key, "e"));
    if (!modulus || !exponent || exponent->empty() || exponent->size() > kMostExponent ||
        modulus->size() < kLeastModulus || modulus->size() > kMostModulus ||
        modulus->front() < 0x80)
        return std::nullopt;
    // What is signed with the exponent 1 everybody can sign.
    const bool is_odd = (exponent->back() & 1) != 0;
    const bool is_one =
        exponent->back() == 1 && std::all_of(exponent->begin(), exponent->end() - 1,
                                             [](std::uint8_t byte) { return byte == 0; });
    if (!is_odd || is_one)
        return std::nullopt;
    return crypto::RsaPublicKey{std::move(*modulus), std::move(*exponent)};
}

std::optional<crypto::P256PublicKey> p256_key(const Json& key) {
    const auto x = decode_base64url(member_text(key, "x")),
               y = decode_base64url(member_text(key, "y"));
    crypto::P256PublicKey point;
    if (member_text(key, "crv") != "P-256" || !x || !y || x->size() != point.x.size() ||
        y->size() != point.y.size())
        return std::nullopt;
    std::copy(x->begin(), x->end(), point.x.begin());
    std::copy(y->begin(), y->end(), point.y.begin());
    return point;
}

bool is_for_signatures(const Json& key) {
    const std::string use = member_text(key, "use");
    if (!use.empty() && use != "sig")
        return false;
    const auto operations = key.find("key_ops");
    return operations == key.end() ||
           (operations->is_array() &&
            std::find(operations->begin(), operations->end(), "verify") != operations->end());
}

std::optional<SigningKey> signing_key(const Json& key) {
    if (!is_for_signatures(key))
        return std::nullopt;
    SigningKey read{member_text(key, "kid"), member_text(key, "alg"), {}};
    if (read.id.size() > kMaxId)
        return std::nullopt;
    const std::string kind = member_text(key, "kty");
    if (kind == "RSA") {
        if (auto rsa = rsa_key(key)) {
            read.key = std::move(*rsa);
            return read;
        }
    } else if (kind == "EC") {
        if (const auto point = p256_key(key)) {
            read.key = *point;
            return read;
        }
    }
    return std::nullopt;
}

}  // namespace

std::vector<SigningKey> parse_key_set(std::string_view json) {
    if (json.size() > kMaxBytes)
        refuse_set("has more than 256 KiB");
    const Json document = parse_strictly(json, kWhat);
    const auto list = document.find("keys");
    if (list == document.end() || !list->is_array())
        refuse_set("has no list \"keys\"");
    if (list->size() > kMaxKeys)
        refuse_set("has more than " + std::to_string(kMaxKeys) + " keys");
    std::vector<SigningKey> keys;
    std::set<std::string> ids;
    for (const Json& entry : *list) {
        auto key = entry.is_object() ? signing_key(entry) : std::nullopt;
        if (!key)
            continue;
        if (!key->id.empty() && !ids.insert(key->id).second)
            refuse_set("has two keys of one id");
        keys.push_back(std::move(*key));
    }
    if (keys.empty())
        refuse_set("has no key that checks RS256, PS256, ES256 or their like");
    return keys;
}

}  // namespace autolaunch::launcher::oidc
