#pragma once
#include "oidc/device_flow.hpp"
#include "oidc/identity_token.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher::oidc {

inline bool is_taken(auto parse) {
    try {
        parse();
        return true;
    } catch (const Error& error) {
        if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::mismatch &&
            error.code() != ErrorCode::unsupported)
            std::abort();
        return false;
    }
}

/// What an issuer answers: each document is read as each kind; a first line is a token, and what
/// follows the keys that it is to be signed by. Each is read or refused. Aborts where that is not
/// so. How much was taken.
inline std::size_t check_issuer_bytes(std::string_view bytes) {
    std::size_t taken = 0;
    taken += is_taken([&] { parse_discovery(bytes, "https://issuer.example"); }) ? 1 : 0;
    taken += is_taken([&] { parse_device_code(bytes); }) ? 1 : 0;
    for (const int status : {200, 400})
        taken += is_taken([&] { parse_token_answer(status, bytes); }) ? 1 : 0;
    taken += is_taken([&] { parse_key_set(bytes); }) ? 1 : 0;
    const std::size_t line = std::min(bytes.find('\n'), bytes.size());
    TokenRules rules;
    rules.issuer = "https://login.example.org/realms/hpc";  // tests/data/oidc's
    rules.client_id = "autolaunch";
    rules.now = std::chrono::system_clock::from_time_t(1795866582);
    taken += is_taken([&] {
        const auto keys = parse_key_set(bytes.substr(line));
        if (verify_identity_token(bytes.substr(0, line), keys, rules).subject.empty())
            std::abort();
    })
                 ? 1
                 : 0;
    return taken;
}

}  // namespace autolaunch::launcher::oidc
