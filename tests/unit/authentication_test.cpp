// A manifest's MAC: what it is of, and that no change of the manifest gets past it.
#include "checkpoint/commit/authentication.hpp"
#include "base/hash.hpp"
#include "checkpoint/crypto/crypto.hpp"
#include "checkpoint/format/manifest_text.hpp"
#include "manifest_sample.hpp"
#include "need_crypto.hpp"

#include <autolaunch/checkpoint/manifest.hpp>
#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace authentication_test {

using namespace autolaunch;
using autolaunch::testing::need_crypto;
using nlohmann::ordered_json;

namespace {

const std::string kKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
// HKDF-SHA-256 of that key, by Python's hmac: the key of the MAC.
const std::string kMacKey = "12b396b7218352b0a20e222a7bd8f317af2cb10b12a92a13896325a0e10d26a7";
const std::string kMacStart = "\",\n\"manifest_hmac_sha256\":\"";
constexpr std::size_t kMacAt = 22 + 32 + 27;  // of its digits

AuthenticationKeys key_of(const std::string& text) {
    return AuthenticationKeys::parse(text, "the test");
}

Digest256 sha256_like(std::uint8_t seed) {
    Digest256 digest;
    digest.fill(seed);
    return digest;
}

// Encrypted, with SHA-256 of the blocks.
Manifest example() {
    Manifest manifest = autolaunch::testing::example();
    manifest.metric = 2.5;
    const auto first = manifest.files[0].block_digests, second = manifest.files[1].block_digests;
    manifest.files = {
        {"shard-1.safetensors.age",
         0,
         Manifest::kBlockBytes + 5,
         hash128_of(first),
         first,
         4'194'000,
         {sha256_like(1), sha256_like(2)}},
        {"shard-2.safetensors.age", 1, 8000, hash128_of(second), second, 7800, {sha256_like(3)}}};
    return manifest;
}

bool is_accepted(const std::string& text, const AuthenticationKeys& keys) {
    try {
        keys.require_authentic(text, "manifest.json");
        return true;
    } catch (const NotAuthentic& error) {
        CHECK(std::string(error.what()).starts_with("manifest.json "));
        return false;
    }
}

bool is_believed_without_a_key(const std::string& text) {
    try {
        Manifest::parse(text).require_complete();
        return true;
    } catch (const Error&) {
        return false;
    }
}

// Without the digest and the MAC.
ordered_json fields_of(const std::string& text) {
    ordered_json json = ordered_json::parse(text);
    json.erase("manifest_xxh3_128");
    json.erase("manifest_hmac_sha256");
    return json;
}

// As an attacker writes it: his fields, the MAC that was there, and a right digest.
std::string forged(const std::string& text, const ordered_json& fields) {
    return with_digest(kMacStart + text.substr(kMacAt, 64) + "\",\n" + fields.dump().substr(1));
}

// Another value of the same kind. A digest stays a digest.
void change(ordered_json& value) {
    if (value.is_number_float())
        value = value.get<double>() + 0.5;
    else if (value.is_number())
        value = value.get<std::int64_t>() + 1;
    else if (value.is_string() && value.get<std::string>().size() >= 32)
        value =
            (value.get<std::string>()[0] == '5' ? "6" : "5") + value.get<std::string>().substr(1);
    else
        value = value.get<std::string>() + "x";
}

std::string message_of(const std::string& text) {
    try {
        key_of(text);
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::invalid_argument);
        return error.what();
    }
    return "none";
}

}  // namespace

TEST_CASE("the MAC is HMAC-SHA-256 of what follows it, with a key by HKDF") {
    need_crypto();
    const std::string text = key_of(kKey).to_text(example());
    REQUIRE(text.substr(0, 22) == kManifestStart);
    REQUIRE(text.substr(22 + 32, 27) == kMacStart);
    std::vector<std::uint8_t> mac_key(32);
    REQUIRE(parse_hex(kMacKey, mac_key));
    CHECK(text.substr(kMacAt, 64) ==
          hex(crypto::hmac_sha256(mac_key, crypto::bytes_of(text).subspan(kMacAt + 64))));
    CHECK(Manifest::parse(text) == example());
    CHECK(is_accepted(text, key_of(kKey)));
    CHECK(AuthenticationKeys().to_text(example()) == example().to_text());
    CHECK(is_accepted(example().to_text(), AuthenticationKeys()));
}

TEST_CASE("a manifest without a MAC, or with another key's, is refused before it is read") {
    const AuthenticationKeys mine = key_of(kKey), other = key_of(std::string(64, '7'));
    const std::string text = mine.to_text(example());
    CHECK_FALSE(is_accepted(example().to_text(), mine));
    CHECK_FALSE(is_accepted(text, other));
    CHECK_FALSE(is_accepted("", mine));
    CHECK_FALSE(is_accepted("{", mine));
    CHECK_FALSE(is_accepted(std::string(1000, '{'), mine));
    for (std::size_t length = 0; length < text.size(); ++length)
        REQUIRE_FALSE(is_accepted(text.substr(0, length), mine));
    std::string capitals = text;
    for (std::size_t i = kMacAt; i < kMacAt + 64; ++i)
        capitals[i] = static_cast<char>(std::toupper(capitals[i]));
    CHECK_FALSE(is_accepted(capitals, mine));
    Manifest older = example();
    older.step = 1100;
    const std::string before = mine.to_text(older);
    CHECK_FALSE(is_accepted(
        with_digest(kMacStart + before.substr(kMacAt, 64) + text.substr(kMacAt + 64)), mine));
}

TEST_CASE("every byte of the text is covered") {
    const AuthenticationKeys mine = key_of(kKey);
    const std::string text = mine.to_text(example());
    for (std::size_t at = 0; at < text.size(); ++at)
        for (const int bit : {0, 5}) {
            std::string changed = text;
            changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
            // What stands before the MAC is fixed, or the digest, which the reader compares.
            REQUIRE_FALSE((is_accepted(changed, mine) && is_believed_without_a_key(changed)));
            if (at >= kMacAt)
                REQUIRE_FALSE(is_accepted(changed, mine));
        }
}

TEST_CASE("no field can be changed, taken out or added, with the digest made anew") {
    const AuthenticationKeys mine = key_of(kKey);
    const std::string text = mine.to_text(example());
    const ordered_json fields = fields_of(text);
    CHECK(is_believed_without_a_key(forged(text, fields)));
    int believed = 0, tried = 0;
    const auto attempt = [&](const ordered_json& changed, const std::string& what) {
        INFO(what);
        const std::string forgery = forged(text, changed);
        CHECK_FALSE(is_accepted(forgery, mine));
        ++tried;
        if (is_believed_without_a_key(forgery))
            ++believed;
    };
    const ordered_json flat = fields.flatten();
    for (const auto& [pointer, value] : flat.items()) {
        ordered_json changed = fields, without = fields;
        const ordered_json::json_pointer place(pointer);
        if (!value.is_structured() && !value.is_null()) {
            change(changed[place]);
            attempt(changed, "changed " + pointer);
        }
        if (without[place.parent_pointer()].is_object()) {
            without[place.parent_pointer()].erase(place.back());
            attempt(without, "without " + pointer);
        }
    }
    ordered_json swapped = fields;
    std::swap(swapped["files"][0]["sha256"][0], swapped["files"][0]["sha256"][1]);
    attempt(swapped, "two blocks change places");
    ordered_json more = fields;
    more["tensors"].push_back(
        {{"name", "new"}, {"dtype", "U8"}, {"shape", {0}}, {"pieces", ordered_json::array()}});
    attempt(more, "a tensor more");
    ordered_json unknown = fields;
    unknown["unknown"] = 1;
    attempt(unknown, "a field more");
    // So the MAC alone stops these.
    CHECK(tried > 60);
    CHECK(believed >= 20);
}

TEST_CASE("any of several keys is accepted, and the first one signs") {
    const std::string old_key(64, '7');
    const AuthenticationKeys both = key_of("# new\n" + kKey + "\r\n\n  " + old_key + "\n");
    CHECK(is_accepted(key_of(old_key).to_text(example()), both));
    CHECK(is_accepted(both.to_text(example()), key_of(kKey)));
    CHECK_FALSE(is_accepted(both.to_text(example()), key_of(old_key)));
}

TEST_CASE("a key that is none is refused without being quoted") {
    CHECK(message_of("") == "the test has no key in it");
    CHECK(message_of("# nothing\n\n") == "the test has no key in it");
    CHECK(message_of("# one\n" + kKey.substr(1)) == "the test, line 2: not an authentication key");
    CHECK(message_of(kKey + "00") == "the test, line 1: not an authentication key");
    CHECK(message_of("ABCD" + kKey.substr(4)) == "the test, line 1: not an authentication key");
    CHECK(message_of(kKey + "\nAGE-SECRET-KEY-1") == "the test, line 2: not an authentication key");
    const auto line = AuthenticationKeys::new_key_line(),
               another = AuthenticationKeys::new_key_line();
    CHECK(crypto::as_text(line).size() == 65);
    CHECK(line != another);
    CHECK(is_accepted(key_of(std::string(crypto::as_text(line))).to_text(example()),
                      key_of(std::string(crypto::as_text(line)))));
}

TEST_CASE("nothing is signed whose content is not covered") {
    Manifest manifest = example();
    manifest.files[1].block_sha256.clear();
    try {
        key_of(kKey).to_text(manifest);
        FAIL("it was signed");
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::mismatch);
        CHECK(std::string(error.what()) == "rank 1 gave no SHA-256 of shard-2.safetensors.age");
    }
}

TEST_CASE("Ed25519 as RFC 8032 has it") {
    need_crypto();
    // 7.1, TEST 2.
    const auto key = crypto::SigningKey::parse(
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb\n", "the RFC");
    CHECK(key.public_text() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
    CHECK(hex(key.sign("\x72")) ==
          "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
          "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00");
}

TEST_CASE("keys as openssl writes them") {
    need_crypto();
    // RFC 8410, 10.3 and 10.1.
    const auto key = crypto::SigningKey::parse(
        "-----BEGIN PRIVATE KEY-----\n"
        "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n"
        "-----END PRIVATE KEY-----\n",
        "the RFC");
    const auto open = crypto::parse_public_key(
        "-----BEGIN PUBLIC KEY-----\n"
        "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
        "-----END PUBLIC KEY-----\n",
        "the RFC");
    CHECK(key.public_text() == hex(open));
    CHECK(crypto::parse_public_key(key.public_text(), "digits") == open);
    std::string public_pem;
    const auto made = crypto::pem_of_new_signing_key(public_pem);
    CHECK(crypto::SigningKey::parse(crypto::as_text(made), "made").public_text() ==
          hex(crypto::parse_public_key(public_pem, "made")));
    for (const char* wrong :
         {"", "abc", "-----BEGIN PRIVATE KEY-----\nMC4C\n-----END PRIVATE KEY-----\n"})
        CHECK_THROWS_AS(crypto::SigningKey::parse(wrong, "a file"), Error);
    CHECK_THROWS_AS(crypto::parse_public_key(crypto::as_text(made), "a secret key"), Error);
}

TEST_CASE("a signature is of the whole manifest, with and without a MAC") {
    need_crypto();
    const auto key = crypto::SigningKey::parse(kKey, "the test");
    const auto open = crypto::parse_public_key(key.public_text(), "the test");
    auto stranger = open;
    stranger[0] ^= 1;
    Manifest manifest = example();
    manifest.lineage = R"({"job":"4711","user":"amy"})";
    CHECK(signature_of(manifest.to_text(), open) == Signed::no);
    for (const auto& keys : {AuthenticationKeys(), key_of(kKey)}) {
        const std::string text = keys.to_text(manifest, key);
        CHECK(Manifest::parse(text) == manifest);
        CHECK(signature_of(text, open) == Signed::by_key);
        keys.require_authentic(text, "the test");
        // Changed by somebody who can compute the digest.
        std::string changed(body_of_manifest(text));
        changed.replace(changed.find("4711"), 4, "4712");
        CHECK(signature_of(with_digest(changed), open) == Signed::otherwise);
        // Taken out by him.
        std::string bare(body_of_manifest(text));
        const std::size_t at = bare.find("\",\n\"manifest_ed25519\":\"");
        bare.erase(at, 23 + 128);
        CHECK(signature_of(with_digest(bare), open) == Signed::no);
    }
}

TEST_CASE("what is signed has the SHA-256 of its blocks") {
    need_crypto();
    const auto key = crypto::SigningKey::parse(kKey, "the test");
    CHECK_THROWS_AS(AuthenticationKeys().to_text(autolaunch::testing::example(), key), Error);
}

}  // namespace authentication_test
