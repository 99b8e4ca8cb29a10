#include "checkpoint/crypto/signing.hpp"

#include "base/hash.hpp"
#include "base/refuse.hpp"
#include "base/text.hpp"
#include "checkpoint/crypto/key_file.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace autolaunch::crypto {

namespace {

// RFC 8410: what stands before the 32 bytes of a key of Ed25519, in DER.
constexpr std::array<std::uint8_t, 16> kPrivateStart = {
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20};
constexpr std::array<std::uint8_t, 12> kPublicStart = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                                       0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};
constexpr std::size_t kKeyBytes = 32;
constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Of a PEM block with this label; empty: there is none.
SecretBytes der_of_pem(std::string_view text, const std::string& label) {
    const std::string begin = "-----BEGIN " + label + "-----", end = "-----END " + label + "-----";
    const std::size_t from = text.find(begin);
    const std::size_t to = from == text.npos ? text.npos : text.find(end, from);
    if (to == text.npos)
        return {};
    SecretBytes der;
    std::uint32_t bits = 0;
    int have = 0;
    for (const char c : text.substr(from + begin.size(), to - from - begin.size())) {
        const std::size_t value = kAlphabet.find(c);
        if (value == kAlphabet.npos)
            continue;  // line ends and padding
        bits = bits << 6 | static_cast<std::uint32_t>(value);
        have += 6;
        if (have >= 8) {
            have -= 8;
            der.push_back(static_cast<std::uint8_t>(bits >> have & 255));
        }
    }
    return der;
}

template <std::size_t N>
bool begins_with(const SecretBytes& der, const std::array<std::uint8_t, N>& start) {
    return der.size() == N + kKeyBytes && std::equal(start.begin(), start.end(), der.begin());
}

template <std::size_t N>
SecretBytes pem_of(const std::array<std::uint8_t, N>& start, Bytes key, const std::string& label) {
    SecretBytes der(start.begin(), start.end());
    der.insert(der.end(), key.begin(), key.end());
    SecretBytes text;
    const auto add = [&text](std::string_view part) {
        text.insert(text.end(), part.begin(), part.end());
    };
    add("-----BEGIN " + label + "-----\n");
    for (std::size_t i = 0; i < der.size(); i += 3) {
        std::uint32_t bits = 0;
        const std::size_t left = std::min<std::size_t>(3, der.size() - i);
        for (std::size_t k = 0; k < 3; ++k)
            bits = bits << 8 | (k < left ? der[i + k] : 0U);
        for (std::size_t k = 0; k < 4; ++k)
            text.push_back(k <= left
                               ? static_cast<std::uint8_t>(kAlphabet[bits >> (18 - 6 * k) & 63])
                               : static_cast<std::uint8_t>('='));
    }
    add("\n-----END " + label + "-----\n");
    return text;
}

constexpr char kHint[] =
    "openssl genpkey -algorithm ed25519 makes one, and autolaunch ckpt keygen "
    "--signing";

}  // namespace

SigningKey SigningKey::parse(std::string_view text, const std::string& source) {
    SigningKey key;
    key.seed_.resize(kKeyBytes);
    const SecretBytes der = der_of_pem(text, "PRIVATE KEY");
    if (begins_with(der, kPrivateStart)) {
        std::copy(der.begin() + kPrivateStart.size(), der.end(), key.seed_.begin());
        return key;
    }
    if (!der.empty() || !parse_hex(trim(text), key.seed_))
        refuse(source + " has no key of Ed25519 that signs", kHint);
    return key;
}

SigningKey SigningKey::read(const std::filesystem::path& file) {
    const SecretBytes text = read_key_file(file);
    return parse(as_text(text), file.string());
}

Signature SigningKey::sign(std::string_view message) const {
    return ed25519_sign(seed_, bytes_of(message));
}

std::string SigningKey::public_text() const { return hex(ed25519_public(seed_)); }

Point parse_public_key(std::string_view text, const std::string& source) {
    Point key = {};
    const SecretBytes der = der_of_pem(text, "PUBLIC KEY");
    if (begins_with(der, kPublicStart)) {
        std::copy(der.begin() + kPublicStart.size(), der.end(), key.begin());
        return key;
    }
    if (!der.empty() || !parse_hex(trim(text), key))
        refuse(source + " has no public key of Ed25519", "openssl pkey -in KEY -pubout writes it");
    return key;
}

SecretBytes pem_of_new_signing_key(std::string& public_pem) {
    const SecretBytes seed = random_secret(kKeyBytes);
    const SecretBytes open = pem_of(kPublicStart, ed25519_public(seed), "PUBLIC KEY");
    public_pem.assign(open.begin(), open.end());
    return pem_of(kPrivateStart, seed, "PRIVATE KEY");
}

}  // namespace autolaunch::crypto
