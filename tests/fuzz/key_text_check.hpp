#pragma once
#include "checkpoint/age/age_keys.hpp"
#include "checkpoint/age/bech32.hpp"
#include "checkpoint/crypto/signing.hpp"
#include "checkpoint/s3/s3_settings.hpp"
#include "exit_codes/exit_error.hpp"
#include "require.hpp"
#include "vault/wrapped_identity.hpp"

#include <autolaunch/error.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace autolaunch {

namespace key_text {

/// Whether it is one; a refusal is Error{invalid_argument}.
template <class Use>
std::size_t is_one(Use use) {
    try {
        use();
        return 1;
    } catch (const Error& error) {
        fuzz::require(error.code() == ErrorCode::invalid_argument);
        return 0;
    }
}

/// What Vault has wrapped; a refusal is of exit code 65.
inline bool wrapped_reads_back(std::string_view bytes) {
    using namespace launcher;
    age::looks_wrapped(bytes);
    try {
        const WrappedIdentity wrapped = parse_wrapped_identity(bytes, "keys.txt");
        fuzz::require(parse_wrapped_identity(to_text(wrapped), "keys.txt") == wrapped);
        return true;
    } catch (const ExitError& error) {
        fuzz::require(error.exit_code() == exit_code::kBadData);
        return false;
    }
}

inline std::string_view view_of(const crypto::SecretBytes& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace key_text

/// Files of keys and credentials that a user has: keys, which are written to read the same, or a
/// refusal. Aborts where that is not so. How many forms it is one of.
inline std::size_t check_key_bytes(std::string_view bytes) {
    using namespace key_text;
    return is_one([&] {
               const auto recipient = age::Recipient::parse(bytes);
               fuzz::require(age::Recipient::parse(recipient.to_text()) == recipient);
           }) +
           is_one([&] {
               for (const auto& identity : age::parse_identities(bytes, "keys.txt")) {
                   const crypto::SecretBytes text = identity.to_text();
                   fuzz::require(age::Identity::parse(view_of(text)).recipient() ==
                                 identity.recipient());
               }
           }) +
           is_one([&] {
               const auto read = age::decode_bech32(bytes);
               const crypto::SecretBytes text = age::encode_bech32(read.prefix, read.data);
               fuzz::require(view_of(text) == bytes);
           }) +
           is_one([&] { crypto::parse_public_key(bytes, "key.pem"); }) +
           is_one([&] { crypto::SigningKey::parse(bytes, "key.pem"); }) +
           is_one([&] { s3::parse_credentials(bytes, "default", "credentials"); }) +
           (wrapped_reads_back(bytes) ? 1 : 0);
}

}  // namespace autolaunch
