// Secrets are masked by name, by shape and by what secret variables hold; all else stays.

#include "secrets/secrets.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace secrets_test {

using namespace autolaunch::launcher;

namespace {

// In pieces, so that no scanner of sources takes them for real ones.
const std::string kHex = "0123456789abcdef0123456789abcdef01234567";

}  // namespace

TEST_CASE("names of secrets") {
    for (const char* name : {"HF_TOKEN",
                             "HUGGING_FACE_HUB_TOKEN",
                             "WANDB_API_KEY",
                             "AWS_SECRET_ACCESS_KEY",
                             "DB_PASSWORD",
                             "PGPASSWORD",
                             "MYSQL_PWD",
                             "SSHPASS",
                             "--hf-token",
                             "--api-key",
                             "trainer.env.GITHUB_TOKEN",
                             "OPENAI_KEY",
                             "AUTOLAUNCH_JOB_KEY",
                             "AZURE_CLIENT_SECRET",
                             "SLURM_JWT",
                             "NPM_AUTH",
                             "X-Amz-Signature",
                             "apiKey",
                             "REDIS_PASS",
                             "GITHUB_PAT",
                             "hubToken",
                             "AccountKey",
                             "model.wandbKey",
                             "AZURE_STORAGE_CONNECTION_STRING"})
        CHECK_MESSAGE(names_secret(name), name);
    for (const char* name : {"",
                             "PATH",
                             "PWD",
                             "OLDPWD",
                             "HOME",
                             "TOKENIZERS_PARALLELISM",
                             "MAX_TOKENS",
                             "PAD_TOKEN",
                             "--eos-token",
                             "EOS_TOKEN_ID",
                             "rendezvous.secret_file",
                             "AWS_WEB_IDENTITY_TOKEN_FILE",
                             "SSH_AUTH_SOCK",
                             "SORT_KEY",
                             "--text-key",
                             "BYPASS",
                             "COMPASS",
                             "MONKEY",
                             "hotkey",
                             "padToken",
                             "tokenizer",
                             "AUTHOR",
                             "NCCL_DEBUG",
                             "MASTER_ADDR",
                             "--lr",
                             "KEY",
                             "PASSES",
                             "SIGNALS",
                             "-"})
        CHECK_MESSAGE(!names_secret(name), name);
}

TEST_CASE("tokens of well-known shapes") {
    const auto hides = [](const std::string& token) {
        const std::string masked = mask_secrets("a \"" + token + "\" b");
        return masked.starts_with("a \"") && masked.ends_with("***\" b") &&
               masked.find(token.substr(token.size() - 5)) == std::string::npos;
    };
    for (const std::string& token : std::vector<std::string>{
             "hf_SECRET123", "hf_" + std::string("abcdefghijklmnopqrstuvwxyzABCDEFGH"),
             "ghp_" + kHex.substr(0, 36), "gho_" + kHex.substr(0, 36), "github_pat_11ABC_" + kHex,
             "glpat-" + kHex.substr(0, 20), "sk-" + kHex, "sk-proj-" + kHex, "sk-ant-api03-" + kHex,
             "sk_live_" + kHex, "AKIA" + std::string("IOSFODNN7EXAMPLE"), "xoxb-" + kHex,
             "AIza" + kHex.substr(0, 35), "npm_" + kHex.substr(0, 36),
             "AGE-SECRET-KEY-1QQPQ" + kHex, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
             "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r",
             "https://hooks.slack.com/services/T000/B000/XXXX1234", "Bearer " + kHex})
        CHECK_MESSAGE(hides(token), token);
    CHECK(mask_secrets("postgres://me:pa55@db:5432/x and redis://:pw@h") ==
          "postgres://me:***@db:5432/x and redis://:***@h");
    CHECK(mask_secrets("https://x.blob.core.windows.net/c?sv=1&sig=abc%3D&se=2") ==
          "https://x.blob.core.windows.net/c?sv=1&sig=***&se=2");
    CHECK(mask_secrets("-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\nrest") ==
          "-----BEGIN PRIVATE KEY-----***-----END PRIVATE KEY-----\nrest");
    for (const char* plain :
         {"hf_transfer", "hf_hub_download", "sk-learn", "sklearn", "risk-averse-2", "ghp_", "eyJ",
          "http://node1:8080/x@y", "commit 0123456789abcdef0123456789abcdef01234567",
          "Bearer token missing", "Basic authentication", "-----BEGIN CERTIFICATE-----\nMII"})
        CHECK(mask_secrets(plain) == plain);
}

TEST_CASE("assignments to secret names, and what secret variables hold") {
    CHECK(mask_secrets("override trainer.env.DB_PASSWORD=abc: x") ==
          "override trainer.env.DB_PASSWORD=***: x");
    CHECK(mask_secrets("export WANDB_API_KEY='a b' LR=1") == "export WANDB_API_KEY='***' LR=1");
    CHECK(mask_secrets("export HF_TOKEN=$TOKEN PWD=/x TOKEN=") ==
          "export HF_TOKEN=$TOKEN PWD=/x TOKEN=");
    const auto known = secret_values({{"DB_PASSWORD", "hunter2"},
                                      {"API_KEY", "required"},
                                      {"JOB_KEY", "/run/key"},
                                      {"AUTH_TOKEN", "12"},
                                      {"LR", "ordinary7"}});
    CHECK(known == std::vector<std::string>{"hunter2"});
    CHECK(mask_secrets("found \"hunter2\", ordinary7, required", known) ==
          "found \"***\", ordinary7, required");
}

TEST_CASE("arguments of a program") {
    using Words = std::vector<std::string>;
    CHECK(mask_arguments({"train.py", "--api-key", "abc", "--lr", "1", "--token=abc"}) ==
          Words{"train.py", "--api-key", "***", "--lr", "1", "--token=***"});
    CHECK(mask_arguments({"x", "--token", "--flag", "--pad-token", "<pad>"}) ==
          Words{"x", "--token", "--flag", "--pad-token", "<pad>"});
    CHECK(mask_arguments({"/bin/sh", "-c", "train --password abc --lr 1"}) ==
          Words{"/bin/sh", "-c", "train --password *** --lr 1"});
}

}  // namespace secrets_test
