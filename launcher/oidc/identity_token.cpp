#include "oidc/identity_token.hpp"

#include "base/clock_time.hpp"
#include "checkpoint/format/json.hpp"
#include "oidc/base64url.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace autolaunch::launcher::oidc {

namespace {

using Json = nlohmann::json;
using crypto::SignatureHash;
using crypto::SignatureScheme;
using std::chrono::seconds;
using std::chrono::system_clock;

constexpr std::size_t kMaxToken = 64 << 10, kMaxHeader = 8 << 10, kMaxSubject = 255;
constexpr seconds kMostSkew{300};
constexpr double kLastTime = 253'402'300'799;  // the end of the year 9999

struct Algorithm {
    std::string_view name;
    SignatureScheme scheme;
    SignatureHash hash;
};
constexpr std::array kAlgorithms = {
    Algorithm{"RS256", SignatureScheme::rsa_pkcs1, SignatureHash::sha256},
    Algorithm{"RS384", SignatureScheme::rsa_pkcs1, SignatureHash::sha384},
    Algorithm{"RS512", SignatureScheme::rsa_pkcs1, SignatureHash::sha512},
    Algorithm{"PS256", SignatureScheme::rsa_pss, SignatureHash::sha256},
    Algorithm{"PS384", SignatureScheme::rsa_pss, SignatureHash::sha384},
    Algorithm{"PS512", SignatureScheme::rsa_pss, SignatureHash::sha512},
    Algorithm{"ES256", SignatureScheme::ecdsa, SignatureHash::sha256},
};

[[noreturn]] void refuse_token(const std::string& why) {
    throw Error(ErrorCode::mismatch, "the identity token is refused: " + why);
}

struct Parts {
    std::string_view header, claims, signature, signed_text;
};

Parts cut(std::string_view token) {
    if (token.empty() || token.size() > kMaxToken)
        refuse_token(token.empty() ? "there is none" : "it has more than 64 KiB");
    const auto dots = std::count(token.begin(), token.end(), '.');
    if (dots == 4)
        refuse_token("it is encrypted (JWE), and not signed");
    if (dots != 2)
        refuse_token("it does not have three parts");
    const std::size_t first = token.find('.'), second = token.find('.', first + 1);
    if (first > kMaxHeader)
        refuse_token("its header has more than 8 KiB");
    return {token.substr(0, first), token.substr(first + 1, second - first - 1),
            token.substr(second + 1), token.substr(0, second)};
}

std::vector<std::uint8_t> bytes_of_part(std::string_view part, const char* what) {
    auto bytes = decode_base64url(part);
    if (!bytes)
        refuse_token(std::string(what) + " is not base64url");
    return std::move(*bytes);
}

// Its own words of what is wrong would quote names of the token.
Json parse_part(std::string_view part, const char* what) {
    const auto bytes = bytes_of_part(part, what);
    try {
        return parse_strictly({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, what);
    } catch (const Error&) {
        refuse_token(std::string(what) +
                     " is no JSON object, has a name twice, or is nested too deeply");
    }
}

// Nothing: it is not there.
std::optional<std::string> text_of(const Json& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end())
        return std::nullopt;
    if (!found->is_string())
        refuse_token(std::string(name) + " is no text");
    return found->get<std::string>();
}

const Algorithm& algorithm_of(const Json& header) {
    const std::string name = text_of(header, "alg").value_or("");
    for (const Algorithm& known : kAlgorithms)
        if (known.name == name)
            return known;
    refuse_token("its algorithm is none of RS256, RS384, RS512, PS256, PS384, PS512 and ES256");
}

void check_header(const Json& header) {
    if (header.contains("crit"))
        refuse_token("it has critical extensions (crit), and none is known here");
    if (header.contains("b64") || header.contains("enc") || header.contains("zip"))
        refuse_token("it is not signed as identity tokens are");
    std::string type = text_of(header, "typ").value_or("JWT");
    std::transform(type.begin(), type.end(), type.begin(),
                   [](unsigned char c) { return c >= 'a' && c <= 'z' ? c - 32 : c; });
    if (type != "JWT")
        refuse_token("its typ is not JWT");
    if (header.contains("cty"))
        refuse_token("it holds another token (cty)");
}

bool fits(const SigningKey& key, const Algorithm& algorithm) {
    const bool is_rsa = std::holds_alternative<crypto::RsaPublicKey>(key.key);
    return is_rsa == (algorithm.scheme != SignatureScheme::ecdsa) &&
           (key.algorithm.empty() || key.algorithm == algorithm.name);
}

const SigningKey& key_of(const Json& header, const std::vector<SigningKey>& keys,
                         const Algorithm& algorithm) {
    const auto id = text_of(header, "kid");
    const SigningKey* found = nullptr;
    for (const SigningKey& key : keys) {
        if (!fits(key, algorithm) || (id && (id->empty() || key.id != *id)))
            continue;
        if (found != nullptr)
            refuse_token("it names no key (kid), and its issuer has several of that kind");
        found = &key;
    }
    if (found == nullptr)
        refuse_token("its issuer has no key of that id for that algorithm");
    return *found;
}

bool is_signed(const SigningKey& key, const Algorithm& algorithm, std::string_view text,
               const std::vector<std::uint8_t>& signature) {
    if (const auto* rsa = std::get_if<crypto::RsaPublicKey>(&key.key))
        return crypto::has_signed(*rsa, algorithm.scheme, algorithm.hash, crypto::bytes_of(text),
                                  signature);
    return crypto::has_signed(std::get<crypto::P256PublicKey>(key.key), crypto::bytes_of(text),
                              signature);
}

std::optional<system_clock::time_point> time_of(const Json& claims, const char* name) {
    const auto found = claims.find(name);
    if (found == claims.end())
        return std::nullopt;
    const double value = found->is_number() ? found->get<double>() : -1;
    if (!std::isfinite(value) || value < 0 || value > kLastTime)
        refuse_token(std::string(name) + " is no time");
    return clock_time(static_cast<std::int64_t>(value));
}

void check_times(const Json& claims, const TokenRules& rules, VerifiedToken& verified) {
    const seconds skew = std::clamp(rules.skew, seconds(0), kMostSkew);
    const auto expires = time_of(claims, "exp"), issued = time_of(claims, "iat"),
               not_before = time_of(claims, "nbf");
    if (!expires || !issued)
        refuse_token("it does not say when it was issued (iat) or when it ends (exp)");
    if (rules.now >= *expires + skew)
        refuse_token("it is over");
    if (not_before && rules.now + skew < *not_before)
        refuse_token("it does not hold yet (nbf)");
    if (rules.now + skew < *issued)
        refuse_token("it was issued in the future (iat): do the clocks differ?");
    if (*expires < *issued)
        refuse_token("it ends before it was issued");
    verified.expires = *expires;
}

std::vector<std::string> audience_of(const Json& claims) {
    const auto found = claims.find("aud");
    if (found == claims.end())
        refuse_token("it does not say for whom it is (aud)");
    if (found->is_string())
        return {found->get<std::string>()};
    std::vector<std::string> audience;
    if (!found->is_array())
        refuse_token("aud is neither text nor a list");
    for (const Json& one : *found) {
        if (!one.is_string())
            refuse_token("aud has what is no text");
        audience.push_back(one.get<std::string>());
    }
    return audience;
}

void check_parties(const Json& claims, const TokenRules& rules, VerifiedToken& verified) {
    if (rules.issuer.empty() || rules.client_id.empty())
        throw Error(ErrorCode::invalid_argument, "a token is checked for an issuer and a client",
                    "name both");
    if (text_of(claims, "iss") != rules.issuer)
        refuse_token("it is of another issuer");
    const auto audience = audience_of(claims);
    if (std::find(audience.begin(), audience.end(), rules.client_id) == audience.end())
        refuse_token("it is for somebody else (aud)");
    const auto authorized = text_of(claims, "azp");
    if ((audience.size() > 1 || authorized) && authorized != rules.client_id)
        refuse_token("it was issued to somebody else (azp)");
    if (rules.nonce && text_of(claims, "nonce") != *rules.nonce)
        refuse_token("its nonce is not the one that was sent");
    verified.subject = text_of(claims, "sub").value_or("");
    if (verified.subject.empty() || verified.subject.size() > kMaxSubject)
        refuse_token("it does not say whose it is (sub)");
}

}  // namespace

VerifiedToken verify_identity_token(std::string_view token, const std::vector<SigningKey>& keys,
                                    const TokenRules& rules) {
    const Parts parts = cut(token);
    const Json header = parse_part(parts.header, "its header");
    const Algorithm& algorithm = algorithm_of(header);
    check_header(header);
    const SigningKey& key = key_of(header, keys, algorithm);
    if (!is_signed(key, algorithm, parts.signed_text,
                   bytes_of_part(parts.signature, "its signature")))
        refuse_token("its signature is not of that key");
    const Json claims = parse_part(parts.claims, "what it says");
    VerifiedToken verified;
    check_parties(claims, rules, verified);
    check_times(claims, rules, verified);
    return verified;
}

}  // namespace autolaunch::launcher::oidc
