#include "checkpoint/age/age_keys.hpp"

#include "base/refuse.hpp"
#include "base/text.hpp"
#include "checkpoint/age/bech32.hpp"
#include "checkpoint/crypto/key_command.hpp"
#include "checkpoint/crypto/key_file.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>

namespace autolaunch::age {
namespace {

using crypto::SecretBytes;

constexpr char kRecipientPrefix[] = "age";
constexpr char kIdentityPrefix[] = "AGE-SECRET-KEY-";
constexpr std::size_t kKeyBytes = 32;

}  // namespace

Recipient Recipient::parse(std::string_view text) {
    Bech32 decoded = decode_bech32(text);
    if (decoded.prefix == kIdentityPrefix)
        refuse("a secret key was given where a recipient belongs",
               "give its public key, which starts with age1");
    if (decoded.prefix != kRecipientPrefix || decoded.data.size() != kKeyBytes)
        refuse("not a recipient of age",
               "only keys that start with age1 and have 62 characters are known");
    Recipient recipient;
    std::copy(decoded.data.begin(), decoded.data.end(), recipient.point.begin());
    return recipient;
}

std::string Recipient::to_text() const {
    return std::string(crypto::as_text(encode_bech32(kRecipientPrefix, point)));
}

Identity::Identity(SecretBytes secret)
    : secret_(std::move(secret)), recipient_{crypto::x25519_public(secret_)} {}

Identity Identity::generate() { return Identity(crypto::random_secret(kKeyBytes)); }

Identity Identity::parse(std::string_view text) {
    Bech32 decoded = decode_bech32(text);
    if (decoded.prefix != kIdentityPrefix || decoded.data.size() != kKeyBytes)
        refuse("not a secret key of age", "it starts with AGE-SECRET-KEY-1 and has 74 characters");
    return Identity(std::move(decoded.data));
}

SecretBytes Identity::to_text() const { return encode_bech32(kIdentityPrefix, secret_); }

std::vector<Identity> parse_identities(std::string_view text, const std::string& source) {
    std::vector<Identity> identities;
    for (std::size_t line_number = 1; !text.empty(); ++line_number) {
        const std::string_view line = trim(text.substr(0, text.find('\n')));
        text.remove_prefix(std::min(text.size(), text.find('\n') == std::string_view::npos
                                                     ? text.size()
                                                     : text.find('\n') + 1));
        if (line.empty() || line.starts_with('#'))
            continue;
        try {
            identities.push_back(Identity::parse(line));
        } catch (const Error& error) {
            if (error.code() != ErrorCode::invalid_argument)
                throw;
            refuse(source + ", line " + std::to_string(line_number) + ": " + error.what(),
                   error.hint());
        }
    }
    if (identities.empty())
        refuse(source + " has no key in it", "age-keygen makes one");
    return identities;
}

bool looks_wrapped(std::string_view text) { return trim(text).starts_with('{'); }

std::vector<Identity> read_identities(const std::filesystem::path& file) {
    const SecretBytes text = crypto::read_key_file(file);
    if (looks_wrapped(crypto::as_text(text)))
        refuse(file.string() + " has a key that Vault has wrapped, which the launcher unwraps",
               "in the spec, secrets: {KEY: {vault_transit: FILE, as: file}} and checkpoint: "
               "{identity_secret: KEY}");
    return parse_identities(crypto::as_text(text), file.string());
}

std::vector<Identity> identities_of_command(const std::string& command, const Deadline& deadline) {
    const SecretBytes text = crypto::output_of_key_command(command, deadline);
    return parse_identities(crypto::as_text(text), crypto::name_of_key_command(command));
}

}  // namespace autolaunch::age
