// Identity tokens and their issuers' keys: those of tests/data/oidc, which Python's cryptography
// has signed, good ones and hostile ones of every known kind; and the same with each byte changed.

#include "oidc/identity_token.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "need_crypto.hpp"
#include "oidc/base64url.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <random>
#include <string>
#include <vector>

namespace identity_token_test {

using namespace autolaunch;
using namespace autolaunch::launcher::oidc;
using autolaunch::testing::need_crypto;
using std::chrono::seconds;

namespace {

constexpr const char* kData = AUTOLAUNCH_SOURCE_DIR "/tests/data/oidc/";

// What make_tokens.py takes for now.
TokenRules rules() {
    return {"https://login.example.org/realms/hpc", "autolaunch", "n-0S6_WzA2Mj",
            std::chrono::system_clock::from_time_t(1795866582)};
}

const std::vector<SigningKey>& keys() {
    static const std::vector<SigningKey> kKeys =
        parse_key_set(read_file(std::string(kData) + "keys.json"));
    return kKeys;
}

struct Case {
    std::string name, expected, token;
};
std::vector<Case> cases() {
    std::vector<Case> read;
    for (const std::string& line : split(read_file(std::string(kData) + "tokens.tsv"), '\n')) {
        const auto parts = split(line, '\t');
        if (parts.size() == 3)
            read.push_back({parts[0], parts[1], parts[2]});
    }
    return read;
}

// "ok", or why not.
std::string verdict(const std::string& token, const TokenRules& by = rules()) {
    try {
        const VerifiedToken verified = verify_identity_token(token, keys(), by);
        return verified.subject == "ann" ? "ok" : "of " + verified.subject;
    } catch (const Error& error) {
        return error.what();
    }
}

std::string why_no_keys(const std::string& json) {
    try {
        return std::to_string(parse_key_set(json).size()) + " keys";
    } catch (const Error& error) {
        return error.what();
    }
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("good tokens are taken, and hostile ones are refused for what they are") {
    need_crypto();
    const auto all = cases();
    REQUIRE(all.size() > 100);
    for (const Case& one : all) {
        const std::string said = verdict(one.token);
        CHECK_MESSAGE((one.expected == "ok" ? said == "ok" : has(said, one.expected)), one.name,
                      ": expected \"", one.expected, "\", got \"", said, "\"");
    }
}

TEST_CASE("what is too large is not looked at") {
    const std::string good = cases().front().token;
    CHECK(has(verdict(good + std::string(64 << 10, 'x')), "more than 64 KiB"));
    CHECK(has(verdict(std::string(1 << 20, '.')), "more than 64 KiB"));
    CHECK(has(verdict(""), "there is none"));
}

TEST_CASE("a refusal quotes nothing of a token") {
    need_crypto();
    for (const Case& one : cases()) {
        const std::string said = verdict(one.token);
        for (const char* quoted : {"evil", "dev/null", "UNION", "ann"})
            CHECK_FALSE_MESSAGE((one.expected != "ok" && has(said, quoted)), one.name, ": ", said);
    }
}

TEST_CASE("what is expected of a token is the caller's, and differs") {
    need_crypto();
    const std::string good = cases().front().token;
    TokenRules other = rules();
    other.nonce.reset();
    CHECK(verdict(good, other) == "ok");
    other.client_id = "vault";
    CHECK(has(verdict(good, other), "for somebody else"));
    other = rules();
    other.now += seconds(301);
    CHECK(verdict(good, other) == "ok");
    other.skew = seconds(0);
    CHECK(has(verdict(good, other), "it is over"));
    other.now = rules().now + std::chrono::hours(1);
    other.skew = std::chrono::hours(24);  // nobody's clock is so wrong
    CHECK(has(verdict(good, other), "it is over"));
    other = rules();
    other.issuer.clear();
    CHECK(has(verdict(good, other), "is checked for an issuer and a client"));
}

TEST_CASE("no changed byte of a good token is taken") {
    need_crypto();
    const std::string good = cases().front().token;
    std::mt19937 random(7);
    for (std::size_t at = 0; at < good.size(); at += 1 + random() % 7) {
        std::string changed = good;
        changed[at] = static_cast<char>(changed[at] ^ (1 << (random() % 7)));
        CHECK_MESSAGE(verdict(changed) != "ok", at);
        CHECK_MESSAGE(verdict(good.substr(0, at)) != "ok", at);
    }
}

TEST_CASE("of a key set only what checks a signature is kept, and what is ambiguous is refused") {
    CHECK(keys().size() == 3);
    CHECK(keys()[0].id == "rsa-1");
    CHECK(keys()[1].algorithm == "PS256");
    for (const SigningKey& key : keys())
        CHECK(key.id != "for-encryption");
    const std::string ec =
        R"("kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM")";
    CHECK(why_no_keys("{\"keys\":[{" + ec + "}]}") == "1 keys");
    CHECK(has(why_no_keys("{\"keys\":[{" + ec + ",\"kid\":\"a\"},{" + ec + ",\"kid\":\"a\"}]}"),
              "two keys of one id"));
    CHECK(has(why_no_keys("{\"keys\":[{" + ec + ",\"kty\":\"RSA\"}]}"), "twice"));
    CHECK(has(why_no_keys("{\"keys\":[],\"keys\":[]}"), "twice"));
    for (const std::string& none :
         {std::string("{\"keys\":[]}"), "{\"keys\":[{" + ec + ",\"use\":\"enc\"}]}",
          "{\"keys\":[{" + ec + ",\"key_ops\":[\"sign\"]}]}",
          std::string(R"({"keys":[{"kty":"oct","k":"AAAA"}]})"),
          std::string(R"({"keys":[7,null,"x",[]]})"),
          std::string(R"({"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]})"),
          std::string(R"({"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]})")})
        CHECK(has(why_no_keys(none), "has no key that checks"));
    const std::string n(342, 'x');  // 2048 bits
    const auto rsa = [&](const std::string& exponent) {
        return why_no_keys("{\"keys\":[{\"kty\":\"RSA\",\"n\":\"_" + n.substr(2) + "w\",\"e\":\"" +
                           exponent + "\"}]}");
    };
    CHECK(rsa("AQAB") == "1 keys");
    for (const char* exponent : {"AQ", "AAE", "Ag", "AQAA", ""})
        CHECK(has(rsa(exponent), "has no key that checks"));
    for (const char* no_set :
         {"", "[]", "{}", "{\"keys\":{}}", "{\"keys\":[", "null", "{\"keys\":1}"})
        CHECK(why_no_keys(no_set).starts_with("the issuer's key set "));
    CHECK(has(why_no_keys(std::string(300 << 10, ' ')), "more than 256 KiB"));
    std::string many;
    for (int i = 0; i < 101; ++i)
        many += (i == 0 ? "" : ",") + ("{" + ec) + "}";
    CHECK(has(why_no_keys("{\"keys\":[" + many + "]}"), "more than 100"));
}

TEST_CASE("base64url has one text for each content") {
    const auto text = [](const char* encoded) -> std::string {
        const auto bytes = decode_base64url(encoded);
        return bytes ? std::string(bytes->begin(), bytes->end()) : "no";
    };
    CHECK(text("") == "");
    CHECK(text("Zg") == "f");
    CHECK(text("Zm8") == "fo");
    CHECK(text("Zm9v") == "foo");
    CHECK(text("Zm9vYmE") == "fooba");
    CHECK(text("_-8") == "\xff\xef");
    for (const char* wrong : {"Z", "Zh", "Zm9", "Zm8=", "Zm 8", "Zm8\n", "+/8", "Zm9vY"})
        CHECK_MESSAGE(text(wrong) == "no", wrong);
}

}  // namespace identity_token_test
