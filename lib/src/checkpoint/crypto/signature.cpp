#include "checkpoint/crypto/signature.hpp"

#include <autolaunch/error.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#if AUTOLAUNCH_HAVE_CRYPTO
#include "base/shared_library.hpp"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/opensslv.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#endif

namespace autolaunch::crypto {

#if AUTOLAUNCH_HAVE_CRYPTO

namespace {

#define AUTOLAUNCH_SIGNATURES(X)        \
    X(d2i_PUBKEY)                       \
    X(ERR_clear_error)                  \
    X(EVP_DigestVerify)                 \
    X(EVP_DigestVerifyInit)             \
    X(EVP_MD_CTX_free)                  \
    X(EVP_MD_CTX_new)                   \
    X(EVP_PKEY_CTX_set_rsa_padding)     \
    X(EVP_PKEY_CTX_set_rsa_pss_saltlen) \
    X(EVP_PKEY_free)                    \
    X(EVP_sha256)                       \
    X(EVP_sha384)                       \
    X(EVP_sha512)

AUTOLAUNCH_FUNCTION_TABLE(SignatureLibrary, AUTOLAUNCH_SIGNATURES)

const SignatureLibrary& signatures() {
    static const SignatureLibrary loaded(
        SharedLibrary("libcrypto.so." + std::to_string(OPENSSL_SHLIB_VERSION),
                      {.what = "checking a signature needs OpenSSL's libcrypto",
                       .hint = "install it on all nodes (Debian: libssl3, Fedora: openssl-libs)"}));
    return loaded;
}

struct ReleaseVerifier {
    void operator()(EVP_PKEY* key) const { signatures().EVP_PKEY_free(key); }
    void operator()(EVP_MD_CTX* context) const { signatures().EVP_MD_CTX_free(context); }
};
template <class T>
using OwnedVerifier = std::unique_ptr<T, ReleaseVerifier>;

using Der = std::vector<std::uint8_t>;

constexpr std::uint8_t kSequence = 0x30, kInteger = 0x02, kBitString = 0x03;
// AlgorithmIdentifiers: rsaEncryption with NULL; ecPublicKey with prime256v1.
constexpr std::array<std::uint8_t, 15> kRsa = {0x30, 0x0D, 0x06, 0x09, 0x2A, 0x86, 0x48, 0x86,
                                               0xF7, 0x0D, 0x01, 0x01, 0x01, 0x05, 0x00};
constexpr std::array<std::uint8_t, 21> kP256 = {0x30, 0x13, 0x06, 0x07, 0x2A, 0x86, 0x48,
                                                0xCE, 0x3D, 0x02, 0x01, 0x06, 0x08, 0x2A,
                                                0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07};

Der tagged(std::uint8_t tag, Bytes content) {
    Der der = {tag};
    const std::size_t size = content.size();
    if (size < 0x80) {
        der.push_back(static_cast<std::uint8_t>(size));
    } else {
        der.push_back(0x82);  // at most 64 KiB
        der.push_back(static_cast<std::uint8_t>(size >> 8));
        der.push_back(static_cast<std::uint8_t>(size));
    }
    der.insert(der.end(), content.begin(), content.end());
    return der;
}

// Positive, without leading zeros.
Der integer(Bytes number) {
    while (!number.empty() && number.front() == 0)
        number = number.subspan(1);
    Der content(number.begin(), number.end());
    if (content.empty() || content.front() >= 0x80)
        content.insert(content.begin(), 0);
    return tagged(kInteger, content);
}

Der joined(Der first, const Der& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

// SubjectPublicKeyInfo.
Der public_key_info(Bytes algorithm, Bytes key) {
    Der bits = {0};  // no unused ones
    bits.insert(bits.end(), key.begin(), key.end());
    return tagged(kSequence,
                  joined(Der(algorithm.begin(), algorithm.end()), tagged(kBitString, bits)));
}

const EVP_MD* digest_of(SignatureHash hash) {
    switch (hash) {
        case SignatureHash::sha256:
            return signatures().EVP_sha256();
        case SignatureHash::sha384:
            return signatures().EVP_sha384();
        case SignatureHash::sha512:
            return signatures().EVP_sha512();
    }
    return nullptr;
}

bool verify(const Der& info, SignatureScheme scheme, const EVP_MD* digest, Bytes message,
            Bytes signature) {
    const unsigned char* at = info.data();
    const OwnedVerifier<EVP_PKEY> key(
        signatures().d2i_PUBKEY(nullptr, &at, static_cast<long>(info.size())));
    const OwnedVerifier<EVP_MD_CTX> context(signatures().EVP_MD_CTX_new());
    EVP_PKEY_CTX* settings = nullptr;
    bool good = key && context &&
                signatures().EVP_DigestVerifyInit(context.get(), &settings, digest, nullptr,
                                                  key.get()) == 1;
    if (good && scheme == SignatureScheme::rsa_pss)
        good = signatures().EVP_PKEY_CTX_set_rsa_padding(settings, RSA_PKCS1_PSS_PADDING) == 1 &&
               signatures().EVP_PKEY_CTX_set_rsa_pss_saltlen(settings, RSA_PSS_SALTLEN_DIGEST) == 1;
    good = good && signatures().EVP_DigestVerify(context.get(), signature.data(), signature.size(),
                                                 message.data(), message.size()) == 1;
    signatures().ERR_clear_error();  // of this thread: what failed here is nobody else's error
    return good;
}

}  // namespace

bool has_signed(const RsaPublicKey& key, SignatureScheme scheme, SignatureHash hash, Bytes message,
                Bytes signature) {
    constexpr std::size_t kLeast = 256, kMost = 1024;  // of the modulus: 2048 to 8192 bits
    const std::size_t bytes = key.modulus.size();
    if (bytes < kLeast || bytes > kMost || key.modulus.front() < 0x80 || key.exponent.empty() ||
        key.exponent.size() > 8 || signature.size() != bytes)
        return false;
    const Der numbers = tagged(kSequence, joined(integer(key.modulus), integer(key.exponent)));
    return verify(public_key_info(kRsa, numbers), scheme, digest_of(hash), message, signature);
}

bool has_signed(const P256PublicKey& key, Bytes message, Bytes signature) {
    constexpr std::size_t kHalf = 32;
    if (signature.size() != 2 * kHalf)
        return false;
    Der point = {0x04};
    point.insert(point.end(), key.x.begin(), key.x.end());
    point.insert(point.end(), key.y.begin(), key.y.end());
    const Der pair = tagged(
        kSequence, joined(integer(signature.first(kHalf)), integer(signature.subspan(kHalf))));
    return verify(public_key_info(kP256, point), SignatureScheme::ecdsa,
                  digest_of(SignatureHash::sha256), message, pair);
}

#else

namespace {
[[noreturn]] void no_libcrypto() {
    throw Error(
        ErrorCode::unsupported, "this build cannot check signatures",
        "install OpenSSL's headers (Debian: libssl-dev) and build with AUTOLAUNCH_WITH_CRYPTO=ON");
}
}  // namespace

bool has_signed(const RsaPublicKey&, SignatureScheme, SignatureHash, Bytes, Bytes) {
    no_libcrypto();
}
bool has_signed(const P256PublicKey&, Bytes, Bytes) { no_libcrypto(); }

#endif

}  // namespace autolaunch::crypto
