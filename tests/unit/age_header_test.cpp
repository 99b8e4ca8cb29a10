// What is pure of age: Bech32, Base64, and the header's text.

#include "checkpoint/age/age_header.hpp"
#include "../fuzz/age_header_check.hpp"
#include "base/file_io.hpp"
#include "checkpoint/age/bech32.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

namespace age_header_test {

using namespace autolaunch;
using namespace autolaunch::age;

namespace {

std::string repeated(const std::string& text, std::size_t times) {
    std::string all;
    for (std::size_t i = 0; i < times; ++i)
        all += text;
    return all;
}

void refused(const std::string& text, const std::string& words) {
    INFO(text);
    try {
        parse_header(text);
        FAIL("it was taken for a header");
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::corrupt);
        CHECK_MESSAGE(std::string(error.what()).find(words) != std::string::npos, error.what());
    }
}

const std::string kVersion = "age-encryption.org/v1\n";
const std::string kShare = "-> X25519 " + std::string(42, 'B') + "A\n";
const std::string kBody = std::string(42, 'C') + "A\n";
const std::string kMac = "--- " + std::string(42, 'D') + "A\n";

}  // namespace

TEST_CASE("Bech32's own examples are accepted and refused") {
    for (const char* good :
         {"A12UEL5L", "a12uel5l", "abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw",
          "split1checkupstagehandshakeupstreamerranterredcaperred2y9e3w", "?1ezyfcl"}) {
        const Bech32 decoded = decode_bech32(good);
        CHECK(crypto::as_text(encode_bech32(decoded.prefix, decoded.data)) == good);
    }
    for (const char* bad : {"\x20"
                            "1nwldj5",
                            "pzry9x0s0muk", "1pzry9x0s0muk", "x1b4n0q5v", "li1dgmt3", "A1G7SGD8",
                            "10a06t8", "1qzzfhee", "A12uEL5L", "split1cheo2y9e2w", "", "1", "age"})
        CHECK_THROWS_AS(decode_bech32(bad), Error);
}

TEST_CASE("Bech32 survives any length, and notices any changed character") {
    for (std::size_t bytes = 0; bytes < 70; ++bytes) {
        std::vector<std::uint8_t> data(bytes);
        for (std::size_t i = 0; i < bytes; ++i)
            data[i] = static_cast<std::uint8_t>(37 * i + bytes);
        std::string text(crypto::as_text(encode_bech32("age", data)));
        const Bech32 decoded = decode_bech32(text);
        CHECK(std::vector<std::uint8_t>(decoded.data.begin(), decoded.data.end()) == data);
        for (std::size_t at = 4; at < text.size(); ++at) {
            const char before = text[at];
            text[at] = before == 'q' ? 'p' : 'q';
            CHECK_THROWS_AS(decode_bech32(text), Error);
            text[at] = before;
        }
    }
}

TEST_CASE("Base64 has one form for any bytes") {
    std::vector<std::uint8_t> decoded;
    CHECK(encode_base64(crypto::bytes_of("light work")) == "bGlnaHQgd29yaw");
    CHECK(decode_base64("bGlnaHQgd29yaw", decoded));
    CHECK(std::string(decoded.begin(), decoded.end()) == "light work");
    for (const char* bad : {"bGlnaHQgd29yaw==", "bGlnaHQgd29yax", "b", "bGln\n", "b-ln", "bGlna"})
        CHECK_FALSE_MESSAGE(decode_base64(bad, decoded), bad);
}

TEST_CASE("a header is read, and written as it was") {
    const std::string text =
        kVersion + kShare + kBody + "-> other a b\n" + std::string(64, 'x') + "\n\n" + kMac;
    const ParsedHeader parsed = parse_header(text + "payload\n");
    CHECK(parsed.bytes == text.size());
    REQUIRE(parsed.header.stanzas.size() == 2);
    CHECK(parsed.header.stanzas[0].arguments ==
          std::vector<std::string>{"X25519", std::string(42, 'B') + "A"});
    CHECK(parsed.header.stanzas[1].body.size() == 48);
    CHECK(format(parsed.header) == text);
    CHECK(authenticated_text(parsed.header.stanzas) + kMac.substr(3) == text);
}

TEST_CASE("what is no header says why") {
    refused("", "does not start with age-encryption.org/v1");
    refused("age-encryption.org/v2\n", "does not start with");
    refused("age-encryption.org/v11\n", "another version");
    refused(kVersion, "cut off");
    refused(kVersion + kShare + kBody, "cut off");
    refused(kVersion + kMac, "no recipient");
    refused(kVersion + kShare + kBody + "--- " + std::string(10, 'D') + "\n",
            "line 4 of its header has no MAC");
    refused(kVersion + kShare + kBody + "---\n", "no MAC");
    refused(kVersion + kShare + kBody + "hello\n", "line 4 of its header starts neither");
    refused(kVersion + "-> \n" + kBody + kMac, "line 2 of its header has an empty argument");
    refused(kVersion + "-> X25519  a\n" + kBody + kMac, "empty argument");
    refused(kVersion + "-> X25519 \x01\n" + kBody + kMac, "line 2 of its header has a character");
    refused(kVersion + kShare + std::string(65, 'A') + "\n" + kMac,
            "line 3 of its header is too long");
    refused(kVersion + kShare + std::string(64, 'A') + "\n" + kMac, "not Base64");
    refused(kVersion + kShare + "AB\n" + kMac, "not Base64");
    refused(kVersion + kShare + "AA\r\n" + kMac, "not Base64");
    refused(kVersion + repeated(kShare + kBody, 1000) + kMac, "does not end within 64 KiB");
    refused(kVersion + std::string(100'000, 'x'), "does not end within 64 KiB");
}

TEST_CASE("the seeds are headers, and with any bit flipped they are still headers or refused") {
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(
             std::filesystem::path(AUTOLAUNCH_SOURCE_DIR) / "tests/fuzz/seeds/age_header")) {
        std::string bytes = read_file(entry.path());
        INFO(entry.path().string());
        CHECK(check_header_bytes(bytes));
        ++files;
        for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
            bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
            check_header_bytes(bytes);
            bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
        }
    }
    CHECK(files >= 3);
}

}  // namespace age_header_test
