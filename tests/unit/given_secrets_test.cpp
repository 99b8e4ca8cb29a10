// Secrets of a spec: how they are written, who gets them, and what may be done with a value.

#include "exit_codes/exit_error.hpp"
#include "job_secrets/secret_messages.hpp"
#include "job_secrets/secret_values.hpp"
#include "plan/rank_secrets.hpp"
#include "site/site_vault.hpp"
#include "spec/secret_words.hpp"
#include "vault/vault_access.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace given_secrets_test {

using namespace autolaunch;
using namespace autolaunch::launcher;

namespace {

SecretSpec for_ranks(const std::string& name, const std::string& ranks) {
    SecretSpec secret;
    secret.name = name;
    secret.ranks = ranks;
    return secret;
}

int code_of_variable(std::string bytes) {
    try {
        as_variable(for_ranks("T", "all"), std::move(bytes));
        return 0;
    } catch (const ExitError& error) {
        return error.exit_code();
    }
}

}  // namespace

TEST_CASE("addresses in Vault") {
    std::string path, key;
    CHECK(split_vault_address("kv/team/hub#token", path, key));
    CHECK(path == "kv/team/hub");
    CHECK(key == "token");
    CHECK(split_vault_address("/kv/a#b#c", path, key));
    CHECK(path == "kv/a");
    CHECK(key == "b#c");
    for (const char* wrong :
         {"", "kv/a", "kv/a#", "#key", "kv#key", "kv//a#key", "kv/../sys#key", "kv/./a#key",
          "kv/a b#key", "kv/a?list=true#key", "kv/%2e%2e/sys#key", "kv/a/#key"})
        CHECK_MESSAGE(!split_vault_address(wrong, path, key), wrong);
}

TEST_CASE("a token goes over TLS, or stays on the machine") {
    for (const char* safe : {"https://vault.example:8200", "https://10.0.0.1", "http://localhost",
                             "http://127.0.0.1:8200/", "http://[::1]:8200"})
        CHECK_MESSAGE(is_safe_vault_address(safe), safe);
    for (const char* open :
         {"", "vault.example", "http://vault.example:8200", "http://127.0.0.1.evil.example",
          "http://127.evil.example", "http://127.0.0.1@evil.example", "http://localhost:1@evil",
          "http://localhost\\@evil.example", "https://user@", "https:///", "https:// a",
          "ftp://localhost", "http://[::1", "file:///etc/passwd", "http://localhost.evil.example"})
        CHECK_MESSAGE(!is_safe_vault_address(open), open);
}

TEST_CASE("the environment's word on Vault comes first") {
    const VaultSpec site{.address = "https://site:8200",
                         .vault_namespace = "ops",
                         .method = "jwt",
                         .mount = "cluster",
                         .role = "trainers",
                         .file = "~/jwt"};
    const VaultAccess own = vault_access("x", site, {{"HOME", "/home/amy"}});
    CHECK(own.address == "https://site:8200");
    CHECK(own.mount == "cluster");
    CHECK(own.file == "/home/amy/jwt");
    const VaultAccess given = vault_access(
        "x", site, {{"HOME", "/h"}, {"VAULT_ADDR", "https://mine/"}, {"VAULT_TOKEN", "t"}});
    CHECK(given.address == "https://mine");
    CHECK(given.method == "token");
    CHECK(given.token == "t");
    CHECK(vault_access("x", {}, {{"HOME", "/h"}, {"VAULT_ADDR", "https://v"}}).file ==
          "/h/.vault-token");
    CHECK_THROWS_AS(vault_access("x", {}, {}), ExitError);
    CHECK_THROWS_AS(vault_access("x", {.address = "https://v?a=b"}, {}), ExitError);
    CHECK_THROWS_AS(vault_access("x", {.address = "https://v", .method = "ldap"}, {}), ExitError);
    CHECK_THROWS_AS(vault_access("x", {.address = "https://v", .method = "approle"}, {}),
                    ExitError);
}

TEST_CASE("who gets a secret") {
    JobSpec spec;
    spec.given_secrets = {for_ranks("ALL", "all"), for_ranks("SOME", "0,2-3")};
    spec.given_secrets.push_back(for_ranks("READER", "all"));
    spec.given_secrets.back().programs = {"reader"};
    CHECK(secrets_of_rank(spec, 0, "writer") == std::vector<std::string>{"ALL", "SOME"});
    CHECK(secrets_of_rank(spec, 1, "reader") == std::vector<std::string>{"ALL", "READER"});
    CHECK_THROWS_AS(check_secrets(spec, 3), Error);  // there is no rank 3
    CHECK_THROWS_AS(check_secrets(spec, 4), Error);  // nor a reader
    spec.role = "reader";
    check_secrets(spec, 4);
    spec.given_secrets = {for_ranks("MASTER_ADDR", "all")};
    CHECK_THROWS_AS(check_secrets(spec, 4), Error);
    spec.given_secrets = {for_ranks("KEY", "all")};
    CHECK(is_given_as_secret(spec, "KEY"));
    CHECK(!is_given_as_secret(spec, "KEY_FILE"));
    spec.given_secrets[0].as = SecretSpec::As::file;
    CHECK(is_given_as_secret(spec, "KEY_FILE"));
}

TEST_CASE("a variable has no line end, no NUL, and no more than the kernel takes") {
    CHECK(as_variable(for_ranks("T", "all"), "abc\n") == "abc");
    CHECK(as_variable(for_ranks("T", "all"), "abc\r\n") == "abc");
    CHECK(as_variable(for_ranks("T", "all"), "a\nb\n\n") == "a\nb\n");
    CHECK(code_of_variable(std::string("a\0b", 3)) == 65);
    CHECK(code_of_variable(std::string((128 << 10) - 3, 'x')) == 0);
    CHECK(code_of_variable(std::string((128 << 10) - 2, 'x')) == 65);
    SecretSpec file = for_ranks("T", "all");
    file.as = SecretSpec::As::file;
    CHECK(as_given(file, "abc\n") == "abc\n");
}

TEST_CASE("what is masked of a value") {
    std::vector<std::string> masks;
    add_masks("short", masks);
    CHECK(masks.empty());
    CHECK(is_too_short_to_mask("12345\n"));
    CHECK(!is_too_short_to_mask("123456"));
    add_masks("letmein\n", masks);
    add_masks("BEGIN KEY\nabc\n  the second line \nEND KEY\n", masks);
    add_masks("letmein", masks);
    CHECK(masks == std::vector<std::string>{"BEGIN KEY\nabc\n  the second line \nEND KEY",
                                            "the second line", "BEGIN KEY", "letmein"});
}

TEST_CASE("messages about secrets") {
    const std::vector<SecretAnswer> answers = {{"A", std::string("x\0y", 3), 0, "", ""},
                                               {"B", "", 69, "no", "try"}};
    CHECK(decode_answers(encode_answers(answers)) == answers);
    CHECK(decode_names(encode_names({"A", "B"})) == std::vector<std::string>{"A", "B"});
    const std::string bytes = encode_answers(answers);
    for (std::size_t size = 0; size < bytes.size(); ++size)
        CHECK_THROWS_AS(decode_answers(std::string_view(bytes).substr(0, size)), Error);
    CHECK_THROWS_AS(decode_answers(bytes + "x"), Error);
}

}  // namespace given_secrets_test
