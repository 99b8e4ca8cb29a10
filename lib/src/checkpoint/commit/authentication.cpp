#include "checkpoint/commit/authentication.hpp"

#include "base/hash.hpp"
#include "base/refuse.hpp"
#include "base/text.hpp"
#include "checkpoint/crypto/crypto.hpp"
#include "checkpoint/crypto/key_command.hpp"
#include "checkpoint/crypto/key_file.hpp"
#include "checkpoint/format/manifest_text.hpp"

#include <algorithm>
#include <chrono>

namespace autolaunch {

namespace {

using crypto::SecretBytes;

constexpr char kPurpose[] = "autolaunch checkpoint manifest v1";
// Between the manifest's digest and the MAC's digits; the MAC is of all that follows those.
constexpr std::string_view kMacStart = "\",\n\"manifest_hmac_sha256\":\"";
constexpr std::size_t kMacDigits = 64;
// Behind the MAC where there is one, else in its place; the signature is of all that follows.
constexpr std::string_view kSignatureStart = "\",\n\"manifest_ed25519\":\"";
constexpr std::size_t kSignatureDigits = 128;

// Up to the end of the line, without it.
std::string_view take_line(std::string_view& text) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    return trim(line);
}

bool has_sha256(const Manifest::File& file) {
    return file.block_sha256.size() == file.block_digests.size();
}

}  // namespace

AuthenticationKeys AuthenticationKeys::parse(std::string_view text, const std::string& source) {
    AuthenticationKeys keys;
    for (std::size_t number = 1; !text.empty(); ++number) {
        const std::string_view line = take_line(text);
        if (line.empty() || line.starts_with('#'))
            continue;
        SecretBytes key(kKeyBytes);
        if (!parse_hex(line, key))
            refuse(source + ", line " + std::to_string(number) + ": not an authentication key",
                   "it has 64 hexadecimal digits; autolaunch ckpt keygen makes one");
        keys.keys_.push_back(crypto::hkdf_sha256(key, {}, kPurpose));
    }
    if (keys.empty())
        refuse(source + " has no key in it", "autolaunch ckpt keygen makes one");
    return keys;
}

AuthenticationKeys AuthenticationKeys::find(const EncryptionOptions& options) {
    if (!options.authentication_key_file.empty()) {
        const SecretBytes text = crypto::read_key_file(options.authentication_key_file);
        return parse(crypto::as_text(text), options.authentication_key_file.string());
    }
    const std::string& command = options.authentication_key_command;
    if (command.empty())
        return {};
    const SecretBytes text =
        crypto::output_of_key_command(command, Deadline::after(crypto::kKeyCommandTime));
    return parse(crypto::as_text(text), crypto::name_of_key_command(command));
}

SecretBytes AuthenticationKeys::new_key_line() {
    constexpr char kDigits[] = "0123456789abcdef";
    const SecretBytes key = crypto::random_secret(kKeyBytes);
    SecretBytes line;
    line.reserve(2 * kKeyBytes + 1);
    for (const std::uint8_t byte : key) {
        line.push_back(static_cast<std::uint8_t>(kDigits[byte >> 4]));
        line.push_back(static_cast<std::uint8_t>(kDigits[byte & 15]));
    }
    line.push_back('\n');
    return line;
}

std::string AuthenticationKeys::to_text(const Manifest& manifest,
                                        const crypto::SigningKey& signer) const {
    const std::string plain = manifest.to_text();
    if (empty() && signer.empty())
        return plain;
    for (const Manifest::File& file : manifest.files)
        if (!has_sha256(file))
            throw Error(ErrorCode::mismatch,
                        "rank " + std::to_string(file.rank) + " gave no SHA-256 of " + file.name,
                        "give all ranks the same encryption options");
    std::string body(body_of_manifest(plain));
    if (!signer.empty())
        body = std::string(kSignatureStart) + hex(signer.sign(body)) + body;
    if (empty())
        return with_digest(body);
    const crypto::Digest mac = crypto::hmac_sha256(keys_.front(), crypto::bytes_of(body));
    return with_digest(std::string(kMacStart) + hex(mac) + body);
}

Signed signature_of(std::string_view text, const crypto::Point& public_key) {
    std::string_view body = body_of_manifest(text);
    if (body.starts_with(kMacStart) && body.size() > kMacStart.size() + kMacDigits)
        body.remove_prefix(kMacStart.size() + kMacDigits);
    if (!body.starts_with(kSignatureStart))
        return Signed::no;
    body.remove_prefix(kSignatureStart.size());
    crypto::Signature signature = {};
    if (!parse_hex(body.substr(0, kSignatureDigits), signature))
        return Signed::otherwise;
    body.remove_prefix(kSignatureDigits);
    return crypto::ed25519_verify(public_key, crypto::bytes_of(body), signature)
               ? Signed::by_key
               : Signed::otherwise;
}

void AuthenticationKeys::require_authentic(std::string_view text, const std::string& name) const {
    if (empty())
        return;
    const std::size_t mac_at = kManifestStart.size() + kManifestDigestDigits + kMacStart.size();
    crypto::Digest mac = {};
    if (text.size() < mac_at + kMacDigits ||
        text.substr(mac_at - kMacStart.size(), kMacStart.size()) != kMacStart ||
        !parse_hex(text.substr(mac_at, kMacDigits), mac))
        throw NotAuthentic(
            name + " has no MAC, and an authentication key was given",
            "somebody without the key wrote it; take the key out only if you know who");
    const crypto::Bytes body = crypto::bytes_of(text.substr(mac_at + kMacDigits));
    for (const SecretBytes& key : keys_)
        if (crypto::equal_in_constant_time(mac, crypto::hmac_sha256(key, body)))
            return;
    throw NotAuthentic(name + " does not have the MAC of the authentication key given",
                       "it was changed, or written with another key");
}

bool is_authenticated(const EncryptionOptions& options) {
    return !options.authentication_key_file.empty() || !options.authentication_key_command.empty();
}

}  // namespace autolaunch
