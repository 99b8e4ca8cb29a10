#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace autolaunch::launcher::oidc {

/// What a program that has no browser asks an issuer for (RFC 8628).
struct LoginRequest {
    std::string issuer;     ///< its URL, exactly as it calls itself
    std::string client_id;  ///< under which autolaunch is known there
    std::string scope = "openid";
    std::string ca_file;  ///< certificates to trust; empty: the system's
};

struct Login {
    std::string token;  ///< the ID token
    std::string subject;
    std::chrono::system_clock::time_point expires;
};

// What the issuer says, read strictly: each throws Error{corrupt} that quotes no code and no token.

/// /.well-known/openid-configuration: the three addresses that are used. Each must be https, or of
/// this machine, and `issuer` the very one that was asked.
struct IssuerPlaces {
    std::string device_authorization, token, keys;
};
IssuerPlaces parse_discovery(std::string_view json, const std::string& issuer);

/// What the user has to do, and how long he has.
struct DeviceCode {
    std::string device_code, user_code, address, whole_address;
    std::chrono::seconds lasts{0}, interval{5};
};
DeviceCode parse_device_code(std::string_view json);

/// What came of asking for the token: `token`, or whether to ask again.
struct TokenAnswer {
    std::string token;
    bool pending = false, slow_down = false;
};
/// Throws Error{mismatch} where the user has refused or was too slow.
TokenAnswer parse_token_answer(int status, std::string_view json);

/// Asks the issuer, has `say` tell the user where to go, waits until he was there, and verifies
/// what comes. Throws Error. Blocks: as long as the issuer's code lasts, at most 30 minutes.
Login login_by_device(const LoginRequest& request,
                      const std::function<void(const std::string&)>& say);

}  // namespace autolaunch::launcher::oidc
