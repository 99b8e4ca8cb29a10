#include "checkpoint/crypto/crypto.hpp"

#include <autolaunch/error.hpp>

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#if AUTOLAUNCH_HAVE_CRYPTO
#include "base/shared_library.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/opensslv.h>
#endif

namespace autolaunch::crypto {

SecretBytes random_secret(std::size_t bytes) {
    SecretBytes secret(bytes);
    std::size_t filled = 0;
    while (filled < bytes) {
        const ssize_t got = ::getrandom(secret.data() + filled, bytes - filled, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            throw SystemError(errno, "read random bytes");
        filled += static_cast<std::size_t>(got);
    }
    return secret;
}

bool equal_in_constant_time(Bytes a, Bytes b) {
    if (a.size() != b.size())
        return false;
    volatile std::uint8_t difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        difference = difference | static_cast<std::uint8_t>(a[i] ^ b[i]);
    return difference == 0;
}

namespace {

SecretBytes moved(Digest&& digest) {
    SecretBytes secret(digest.begin(), digest.end());
    ::explicit_bzero(digest.data(), digest.size());
    return secret;
}

}  // namespace

SecretBytes hkdf_sha256(Bytes input_key, Bytes salt, std::string_view info) {
    static constexpr Digest kNoSalt = {};
    const SecretBytes pseudorandom =
        moved(hmac_sha256(salt.empty() ? Bytes(kNoSalt) : salt, input_key));
    SecretBytes block(info.begin(), info.end());
    block.push_back(1);
    return moved(hmac_sha256(pseudorandom, block));
}

#if AUTOLAUNCH_HAVE_CRYPTO

namespace {

#define AUTOLAUNCH_LIBCRYPTO(X)     \
    X(EVP_CIPHER_CTX_ctrl)          \
    X(EVP_CIPHER_CTX_free)          \
    X(EVP_CIPHER_CTX_new)           \
    X(EVP_CipherFinal_ex)           \
    X(EVP_CipherInit_ex)            \
    X(EVP_CipherUpdate)             \
    X(EVP_Digest)                   \
    X(EVP_DigestSign)               \
    X(EVP_DigestSignInit)           \
    X(EVP_DigestVerify)             \
    X(EVP_DigestVerifyInit)         \
    X(EVP_MD_CTX_free)              \
    X(EVP_MD_CTX_new)               \
    X(EVP_PKEY_CTX_free)            \
    X(EVP_PKEY_CTX_new)             \
    X(EVP_PKEY_derive)              \
    X(EVP_PKEY_derive_init)         \
    X(EVP_PKEY_derive_set_peer)     \
    X(EVP_PKEY_free)                \
    X(EVP_PKEY_get_raw_public_key)  \
    X(EVP_PKEY_new_raw_private_key) \
    X(EVP_PKEY_new_raw_public_key)  \
    X(EVP_chacha20_poly1305)        \
    X(EVP_md5)                      \
    X(EVP_sha256)                   \
    X(HMAC)

AUTOLAUNCH_FUNCTION_TABLE(CryptoLibrary, AUTOLAUNCH_LIBCRYPTO)

const CryptoLibrary& library() {
    static const CryptoLibrary loaded(
        SharedLibrary("libcrypto.so." + std::to_string(OPENSSL_SHLIB_VERSION),
                      {.what = "encryption and S3 need OpenSSL's libcrypto",
                       .hint = "install it on all nodes (Debian: libssl3, Fedora: openssl-libs)"}));
    return loaded;
}

struct Release {
    void operator()(EVP_PKEY* key) const { library().EVP_PKEY_free(key); }
    void operator()(EVP_MD_CTX* context) const { library().EVP_MD_CTX_free(context); }
    void operator()(EVP_PKEY_CTX* context) const { library().EVP_PKEY_CTX_free(context); }
};
template <class T>
using Owned = std::unique_ptr<T, Release>;

void require(bool worked, const char* doing) {
    if (!worked)
        throw Error(ErrorCode::system, std::string("libcrypto cannot ") + doing);
}

Owned<EVP_PKEY> private_key(Bytes secret, int type = EVP_PKEY_X25519) {
    Owned<EVP_PKEY> key(
        library().EVP_PKEY_new_raw_private_key(type, nullptr, secret.data(), secret.size()));
    require(key != nullptr,
            type == EVP_PKEY_X25519 ? "make a key of X25519" : "make a key of Ed25519");
    return key;
}

int as_int(std::size_t bytes) {
    if (bytes > std::size_t{1} << 30)
        throw Error(ErrorCode::invalid_argument, "too many bytes for one chunk");
    return static_cast<int>(bytes);
}

}  // namespace

Digest sha256(Bytes message) {
    Digest digest;
    require(library().EVP_Digest(message.data(), message.size(), digest.data(), nullptr,
                                 library().EVP_sha256(), nullptr) == 1,
            "compute SHA-256");
    return digest;
}

std::optional<std::array<std::uint8_t, 16>> md5(Bytes message) {
    std::array<std::uint8_t, 16> digest{};
    if (library().EVP_Digest(message.data(), message.size(), digest.data(), nullptr,
                             library().EVP_md5(), nullptr) != 1)
        return std::nullopt;
    return digest;
}

Digest hmac_sha256(Bytes key, Bytes message) {
    Digest digest;
    require(library().HMAC(library().EVP_sha256(), key.data(), as_int(key.size()), message.data(),
                           message.size(), digest.data(), nullptr) != nullptr,
            "compute HMAC-SHA-256");
    return digest;
}

SecretBytes x25519(Bytes secret, const Point& point) {
    const Owned<EVP_PKEY> mine = private_key(secret);
    const Owned<EVP_PKEY> theirs(library().EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr,
                                                                       point.data(), point.size()));
    const Owned<EVP_PKEY_CTX> context(library().EVP_PKEY_CTX_new(mine.get(), nullptr));
    SecretBytes shared(32);
    std::size_t bytes = shared.size();
    require(theirs && context && library().EVP_PKEY_derive_init(context.get()) == 1 &&
                library().EVP_PKEY_derive_set_peer(context.get(), theirs.get()) == 1,
            "set up X25519");
    // It refuses a product of zero itself.
    if (library().EVP_PKEY_derive(context.get(), shared.data(), &bytes) != 1 ||
        bytes != shared.size())
        throw Error(ErrorCode::corrupt, "the X25519 share is a point of low order");
    return shared;
}

namespace {

Point public_of(const Owned<EVP_PKEY>& key) {
    Point point;
    std::size_t bytes = point.size();
    require(library().EVP_PKEY_get_raw_public_key(key.get(), point.data(), &bytes) == 1,
            "derive a public key");
    return point;
}

}  // namespace

Point x25519_public(Bytes secret) { return public_of(private_key(secret)); }
Point ed25519_public(Bytes secret) { return public_of(private_key(secret, EVP_PKEY_ED25519)); }

Signature ed25519_sign(Bytes secret, Bytes message) {
    const Owned<EVP_PKEY> key = private_key(secret, EVP_PKEY_ED25519);
    const Owned<EVP_MD_CTX> context(library().EVP_MD_CTX_new());
    Signature signature = {};
    std::size_t bytes = signature.size();
    require(context &&
                library().EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) ==
                    1 &&
                library().EVP_DigestSign(context.get(), signature.data(), &bytes, message.data(),
                                         message.size()) == 1 &&
                bytes == signature.size(),
            "sign with Ed25519");
    return signature;
}

bool ed25519_verify(const Point& point, Bytes message, const Signature& signature) {
    const Owned<EVP_PKEY> key(library().EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr,
                                                                    point.data(), point.size()));
    const Owned<EVP_MD_CTX> context(library().EVP_MD_CTX_new());
    require(key && context &&
                library().EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr,
                                               key.get()) == 1,
            "set up Ed25519");
    return library().EVP_DigestVerify(context.get(), signature.data(), signature.size(),
                                      message.data(), message.size()) == 1;
}

// One context a direction, keyed once: a chunk then sets its nonce only.
struct ChaCha20Poly1305::Contexts {
    explicit Contexts(Bytes key)
        : sealing(library().EVP_CIPHER_CTX_new()), opening(library().EVP_CIPHER_CTX_new()) {
        if (key.size() != kKeyBytes)
            throw Error(ErrorCode::invalid_argument, "a key has 32 bytes");
        const EVP_CIPHER* cipher = library().EVP_chacha20_poly1305();
        require(sealing && opening &&
                    library().EVP_CipherInit_ex(sealing.get(), cipher, nullptr, key.data(), nullptr,
                                                1) == 1 &&
                    library().EVP_CipherInit_ex(opening.get(), cipher, nullptr, key.data(), nullptr,
                                                0) == 1,
                "set up ChaCha20-Poly1305");
    }

    struct Release {
        void operator()(EVP_CIPHER_CTX* context) const { library().EVP_CIPHER_CTX_free(context); }
    };
    std::unique_ptr<EVP_CIPHER_CTX, Release> sealing, opening;
};

ChaCha20Poly1305::ChaCha20Poly1305(Bytes key) : contexts_(std::make_unique<Contexts>(key)) {}
ChaCha20Poly1305::ChaCha20Poly1305(ChaCha20Poly1305&&) noexcept = default;
ChaCha20Poly1305& ChaCha20Poly1305::operator=(ChaCha20Poly1305&&) noexcept = default;
ChaCha20Poly1305::~ChaCha20Poly1305() = default;

void ChaCha20Poly1305::seal(const Nonce& nonce, std::span<const std::byte> plain,
                            std::span<std::byte> sealed) {
    if (sealed.size() != plain.size() + kTagBytes)
        throw Error(ErrorCode::invalid_argument, "wrong size to seal into");
    EVP_CIPHER_CTX* context = contexts_->sealing.get();
    auto* out = reinterpret_cast<unsigned char*>(sealed.data());
    int written = 0, rest = 0;
    // An update of nothing would end the context's buffer; there is nothing to update.
    const bool sealed_all =
        library().EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, nonce.data(), 1) == 1 &&
        (plain.empty() ||
         library().EVP_CipherUpdate(context, out, &written,
                                    reinterpret_cast<const unsigned char*>(plain.data()),
                                    as_int(plain.size())) == 1) &&
        library().EVP_CipherFinal_ex(context, out + written, &rest) == 1 &&
        library().EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, kTagBytes,
                                      out + plain.size()) == 1;
    require(sealed_all, "encrypt");
}

bool ChaCha20Poly1305::open(const Nonce& nonce, std::span<const std::byte> sealed,
                            std::span<std::byte> plain) {
    if (sealed.size() != plain.size() + kTagBytes)
        throw Error(ErrorCode::invalid_argument, "wrong size to open into");
    EVP_CIPHER_CTX* context = contexts_->opening.get();
    std::array<unsigned char, kTagBytes> tag;
    std::copy_n(reinterpret_cast<const unsigned char*>(sealed.data()) + plain.size(), kTagBytes,
                tag.begin());
    auto* out = reinterpret_cast<unsigned char*>(plain.data());
    unsigned char nothing = 0;
    int written = 0, rest = 0;
    require(library().EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, nonce.data(), 0) == 1 &&
                library().EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, kTagBytes,
                                              tag.data()) == 1 &&
                (plain.empty() ||
                 library().EVP_CipherUpdate(context, out, &written,
                                            reinterpret_cast<const unsigned char*>(sealed.data()),
                                            as_int(plain.size())) == 1),
            "decrypt");
    if (library().EVP_CipherFinal_ex(context, plain.empty() ? &nothing : out + written, &rest) == 1)
        return true;
    std::fill(plain.begin(), plain.end(), std::byte{0});
    return false;
}

#else

namespace {

[[noreturn]] void refuse_without_openssl() {
    throw Error(
        ErrorCode::unsupported, "this build has neither encryption nor S3",
        "install OpenSSL's headers (Debian: libssl-dev) and build with AUTOLAUNCH_WITH_CRYPTO=ON");
}

}  // namespace

struct ChaCha20Poly1305::Contexts {};

Digest sha256(Bytes) { refuse_without_openssl(); }
std::optional<std::array<std::uint8_t, 16>> md5(Bytes) { refuse_without_openssl(); }
Digest hmac_sha256(Bytes, Bytes) { refuse_without_openssl(); }
SecretBytes x25519(Bytes, const Point&) { refuse_without_openssl(); }
Point x25519_public(Bytes) { refuse_without_openssl(); }
Signature ed25519_sign(Bytes, Bytes) { refuse_without_openssl(); }
Point ed25519_public(Bytes) { refuse_without_openssl(); }
bool ed25519_verify(const Point&, Bytes, const Signature&) { refuse_without_openssl(); }
ChaCha20Poly1305::ChaCha20Poly1305(Bytes) { refuse_without_openssl(); }
ChaCha20Poly1305::ChaCha20Poly1305(ChaCha20Poly1305&&) noexcept = default;
ChaCha20Poly1305& ChaCha20Poly1305::operator=(ChaCha20Poly1305&&) noexcept = default;
ChaCha20Poly1305::~ChaCha20Poly1305() = default;
void ChaCha20Poly1305::seal(const Nonce&, std::span<const std::byte>, std::span<std::byte>) {
    refuse_without_openssl();
}
bool ChaCha20Poly1305::open(const Nonce&, std::span<const std::byte>, std::span<std::byte>) {
    refuse_without_openssl();
}

#endif

}  // namespace autolaunch::crypto
