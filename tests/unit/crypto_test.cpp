// libcrypto through our functions, against the vectors of the RFCs. Skipped where the build or the
// machine lacks it.

#include "checkpoint/crypto/crypto.hpp"
#include "need_crypto.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace crypto_test {

using namespace autolaunch;
using autolaunch::testing::need_crypto;
using namespace autolaunch::crypto;

namespace {

std::vector<std::uint8_t> unhex(const std::string& text) {
    std::vector<std::uint8_t> bytes;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2)
        bytes.push_back(static_cast<std::uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
    return bytes;
}

template <class Range>
std::string hex(const Range& bytes) {
    std::string text;
    for (const auto byte : bytes) {
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(byte));
        text += digits;
    }
    return text;
}

Point point(const std::string& text) {
    Point bytes;
    const auto from = unhex(text);
    std::copy(from.begin(), from.end(), bytes.begin());
    return bytes;
}

}  // namespace

TEST_CASE("SHA-256 of FIPS 180") {
    need_crypto();
    CHECK(hex(sha256(bytes_of("abc"))) ==
          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(hex(sha256({})) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_CASE("HMAC-SHA-256 of RFC 4231") {
    CHECK(
        hex(hmac_sha256(unhex("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"), bytes_of("Hi There"))) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    CHECK(hex(hmac_sha256(bytes_of("Jefe"), bytes_of("what do ya want for nothing?"))) ==
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST_CASE("HKDF-SHA-256 of RFC 5869, its first 32 bytes") {
    const auto key = unhex("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b");
    const auto info = unhex("f0f1f2f3f4f5f6f7f8f9");
    CHECK(hex(hkdf_sha256(key, unhex("000102030405060708090a0b0c"),
                          std::string(info.begin(), info.end()))) ==
          "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
    CHECK(hex(hkdf_sha256(key, {}, "")) ==
          "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d");
}

TEST_CASE("X25519 of RFC 7748") {
    CHECK(hex(x25519(unhex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"),
                     point("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"))) ==
          "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
    CHECK(hex(x25519(unhex("4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d"),
                     point("e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493"))) ==
          "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957");
    CHECK(hex(x25519_public(
              unhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"))) ==
          "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
}

TEST_CASE("a point of low order is refused") {
    for (const char* low : {"0000000000000000000000000000000000000000000000000000000000000000",
                            "0100000000000000000000000000000000000000000000000000000000000000",
                            "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
                            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"})
        CHECK_THROWS_AS(
            x25519(unhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"),
                   point(low)),
            Error);
}

TEST_CASE("ChaCha20-Poly1305 opens what it sealed, and nothing else") {
    const auto key = random_secret(32);
    ChaCha20Poly1305 cipher(key);
    for (const std::size_t bytes : {0UL, 1UL, 63UL, 64UL, 65536UL}) {
        std::vector<std::byte> plain(bytes, std::byte{7}), sealed(bytes + 16), opened(bytes);
        const ChaCha20Poly1305::Nonce nonce = {1, 2, 3};
        cipher.seal(nonce, plain, sealed);
        CHECK(cipher.open(nonce, sealed, opened));
        CHECK(opened == plain);
        CHECK_FALSE(cipher.open({1, 2, 4}, sealed, opened));
        for (const std::size_t at : {std::size_t{0}, bytes / 2, sealed.size() - 1}) {
            sealed[at] ^= std::byte{1};
            CHECK_FALSE(cipher.open(nonce, sealed, opened));
            CHECK(std::all_of(opened.begin(), opened.end(),
                              [](std::byte byte) { return byte == std::byte{0}; }));
            sealed[at] ^= std::byte{1};
        }
        // In place, as a file is read.
        CHECK(cipher.open(nonce, sealed, std::span(sealed).first(bytes)));
        CHECK(std::equal(plain.begin(), plain.end(), sealed.begin()));
    }
}

// RFC 8439's example of the AEAD has associated data, which this does not; its Appendix A.1
// keystream of a zero key is what a sealed run of zeros must show, from its second block on.
TEST_CASE("the cipher's stream is ChaCha20's") {
    ChaCha20Poly1305 cipher(std::vector<std::uint8_t>(32));
    std::vector<std::byte> plain(64), sealed(80);
    cipher.seal({}, plain, sealed);
    std::vector<unsigned> stream;
    for (const std::byte byte : std::span(sealed).first(64))
        stream.push_back(static_cast<unsigned>(byte));
    CHECK(hex(stream) ==
          "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed29b721769ce64e43d57133b0"
          "74d839d531ed1f28510a"
          "fb45"
          "ace10a1f4b794d6f");
}

TEST_CASE("bytes are compared as a whole") {
    CHECK(equal_in_constant_time(bytes_of("abc"), bytes_of("abc")));
    CHECK_FALSE(equal_in_constant_time(bytes_of("abc"), bytes_of("abd")));
    CHECK_FALSE(equal_in_constant_time(bytes_of("abc"), bytes_of("ab")));
}

}  // namespace crypto_test
