#pragma once
#include "oidc/key_set.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher::oidc {

/// Whom a token has to be from and for.
struct TokenRules {
    std::string issuer;                ///< exactly as configured; never as the token says
    std::string client_id;             ///< ours: among its audience
    std::optional<std::string> nonce;  ///< where the flow sent one
    std::chrono::system_clock::time_point now;
    std::chrono::seconds skew{60};  ///< by which clocks may differ; at most 5 min is used
};

struct VerifiedToken {
    std::string subject;
    std::chrono::system_clock::time_point expires;
};

/// An ID token (OpenID Connect Core 1.0, 3.1.3.7) in JWS's compact form: what its issuer has signed
/// for us, and is not over.
///
/// Algorithms are RS256 to RS512, PS256 to PS512 and ES256, whatever the token or a key wants; the
/// kind of the key decides which of them. Keys are of `keys` alone: jku, x5u, jwk and x5c, by which
/// a token brings or names a key of its own, are not looked at. Without kid the set must have one
/// key of that kind. Nothing of the claims is used before the signature is right.
///
/// Pure. Throws Error{mismatch} with the first reason, which quotes nothing of the token, and
/// Error{unsupported} without libcrypto.
VerifiedToken verify_identity_token(std::string_view token, const std::vector<SigningKey>& keys,
                                    const TokenRules& rules);

}  // namespace autolaunch::launcher::oidc
