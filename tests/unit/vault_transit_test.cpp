// Vault's transit engine: names of its keys, and what is in its answers.

#include "checkpoint/age/age_keys.hpp"
#include "exit_codes/exit_error.hpp"
#include "vault/transit_key.hpp"
#include "vault/vault_answer.hpp"
#include "vault/wrapped_identity.hpp"

#include <doctest/doctest.h>

#include <string>

namespace vault_transit_test {

using namespace autolaunch;
using namespace autolaunch::launcher;

TEST_CASE("keys of transit") {
    CHECK(transit_key_from("transit/run-7") == TransitKey{"transit", "run-7"});
    CHECK(transit_key_from("team/a/transit/k.1") == TransitKey{"team/a/transit", "k.1"});
    CHECK(transit_key_from("transit/run-7")->to_text() == "transit/run-7");
    for (const char* wrong : {"", "transit", "/transit/k", "transit/", "transit//k", "../transit/k",
                              "transit/..", "transit/./k", "transit/k?x=1", "transit/k k",
                              "transit/%2e%2e", "transit/k#1", "transit\\k/a"})
        CHECK_MESSAGE(!transit_key_from(wrong), wrong);
}

TEST_CASE("ciphertexts of transit") {
    for (const char* right : {"vault:v1:YWJj", "vault:v12:YWJj/+8="})
        CHECK_MESSAGE(is_vault_ciphertext(right), right);
    for (const char* wrong :
         {"", "vault:v1:", "vault:v:YWJj", "vault:1:YWJj", "vault:v1:YW Jj", "vault:vx:YWJj",
          "YWJj", "vault:v1", "vault:v1:YWJj\n", "vault:v1:a\""})
        CHECK_MESSAGE(!is_vault_ciphertext(wrong), wrong);
}

TEST_CASE("what transit answers") {
    const auto plain_of = [](const std::string& coded) {
        const auto plain = vault_plaintext_in(R"({"data":{"plaintext":")" + coded + "\"}}");
        return plain ? std::string(crypto::as_text(*plain)) : std::string("nothing");
    };
    CHECK(plain_of("YWJj") == "abc");
    CHECK(plain_of("YWJjZA==") == "abcd");
    CHECK(plain_of("YWJjZGU=") == "abcde");
    CHECK(plain_of("").empty());
    for (const char* wrong : {"YWJjZA", "YWJjZ===", "YW Jj", "=YWJ", "YWJjZB=="})
        CHECK_MESSAGE(plain_of(wrong) == "nothing", wrong);
    for (const char* wrong : {"", "[]", "{}", "null", R"({"data":7})", R"({"data":{}})",
                              R"({"data":{"plaintext":7,"ciphertext":7}})", "<html>"}) {
        CHECK_MESSAGE(!vault_plaintext_in(wrong), wrong);
        CHECK_MESSAGE(!vault_ciphertext_in(wrong), wrong);
        CHECK_MESSAGE(!vault_has_no_key(wrong), wrong);
    }
    CHECK(vault_ciphertext_in(R"({"data":{"ciphertext":"vault:v1:YWJj"}})") == "vault:v1:YWJj");
    CHECK(!vault_ciphertext_in(R"({"data":{"ciphertext":"vault:v1:\n"}})"));
    CHECK(vault_has_no_key(R"({"errors":["encryption key not found"]})"));
    CHECK(!vault_has_no_key(R"({"errors":["invalid ciphertext"]})"));
    CHECK(!vault_has_no_key(R"({"errors":[7]})"));
}

TEST_CASE("the file of a wrapped identity") {
    const std::string recipient = age::Identity::generate().recipient().to_text();
    const WrappedIdentity wrapped{{"transit", "run-7"}, recipient, "vault:v1:YWJj"};
    const std::string text = to_text(wrapped);
    CHECK(age::looks_wrapped("\n " + text));
    CHECK(!age::looks_wrapped("# a comment\nAGE-SECRET-KEY-1"));
    CHECK(parse_wrapped_identity(text, "x") == wrapped);
    for (const char* word : {"identity 1", "transit/run-7", "age1", "vault:v1:", "}"}) {
        std::string other = text;
        other.replace(other.find(word), std::string_view(word).size(), "?");
        CHECK_THROWS_AS(parse_wrapped_identity(other, "x"), ExitError);
    }
    for (const std::string wrong : {"", "{}", "[]", "null"})
        CHECK_THROWS_AS(parse_wrapped_identity(wrong, "x"), ExitError);
    CHECK_THROWS_AS(parse_wrapped_identity(std::string(100'000, '['), "x"), ExitError);
}

}  // namespace vault_transit_test
