#include "secrets/secrets.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

namespace autolaunch::launcher {

namespace {

using Words = std::span<const std::string_view>;

bool is_one_of(std::string_view word, Words words) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

bool contains_one_of(std::string_view text, Words words) {
    return std::any_of(words.begin(), words.end(),
                       [&](std::string_view w) { return text.find(w) != std::string_view::npos; });
}

/// In upper case, cut at everything that is no letter and no digit.
std::vector<std::string> words_of(std::string_view name) {
    std::vector<std::string> words(1);
    for (const char c : name) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x80 && std::isalnum(byte) != 0)
            words.back() += static_cast<char>(std::toupper(byte));
        else if (!words.back().empty())
            words.emplace_back();
    }
    if (words.back().empty() && words.size() > 1)
        words.pop_back();
    return words;
}

/// Such a name is of where or what a secret is.
constexpr std::array<std::string_view, 27> kAboutSecrets = {
    "FILE",    "FILES",   "PATH", "PATHS", "DIR",  "DIRECTORY", "FOLDER", "SOCK",        "SOCKET",
    "NAME",    "NAMES",   "ID",   "COUNT", "LEN",  "LENGTH",    "SIZE",   "TTL",         "TIMEOUT",
    "COMMAND", "ENABLED", "TYPE", "MODE",  "HOST", "PORT",      "HELPER", "PARALLELISM", "MANAGER"};
/// Wherever they stand, also within words and across separators.
constexpr std::array<std::string_view, 12> kAlways = {
    "PASSWORD",  "PASSWD",     "PASSPHRASE", "SECRET",  "CREDENTIAL",  "APIKEY",
    "ACCESSKEY", "PRIVATEKEY", "AUTHTOKEN",  "AUTHKEY", "ACCESSTOKEN", "CONNECTIONSTRING"};
constexpr std::array<std::string_view, 7> kAlone = {"TOKEN",   "PASS",   "JWT",          "BEARER",
                                                    "SSHPASS", "COOKIE", "AUTHORIZATION"};
/// With something in front of them: PWD is a folder.
constexpr std::array<std::string_view, 5> kLast = {"PWD", "AUTH", "PAT", "SIG", "SIGNATURE"};
/// PAD_TOKEN and its like are words of a language model.
constexpr std::array<std::string_view, 21> kModelTokens = {
    "PAD",  "BOS",   "EOS",   "UNK", "SEP",  "CLS", "MASK", "IMAGE", "VIDEO", "AUDIO", "SPECIAL",
    "STOP", "START", "BEGIN", "END", "NEXT", "PER", "NEW",  "FIRST", "LAST",  "EACH"};
/// What KEY is a secret's after; a dataset has keys too.
constexpr std::array<std::string_view, 34> kKeyOf = {
    "API",        "ACCESS",  "SECRET",  "PRIVATE", "AUTH",    "JOB",    "SIGNING",
    "ENCRYPTION", "MASTER",  "SESSION", "ACCOUNT", "STORAGE", "SSH",    "DEPLOY",
    "LICENSE",    "SERVICE", "CLIENT",  "SHARED",  "HMAC",    "OPENAI", "ANTHROPIC",
    "WANDB",      "HF",      "AWS",     "AZURE",   "GCP",     "GOOGLE", "COMET",
    "NEPTUNE",    "MLFLOW",  "NGC",     "SLACK",   "GITHUB",  "GITLAB"};

// "hubToken" and "AccountKey" as hub_token and account_key.
void part_last_word(std::vector<std::string>& words) {
    for (const std::string_view end : {"TOKEN", "KEY"}) {
        std::string& last = words.back();
        if (last.size() <= end.size() || !last.ends_with(end))
            continue;
        last.resize(last.size() - end.size());
        words.emplace_back(end);
        return;
    }
}

}  // namespace

bool names_secret(std::string_view name) {
    if (const std::size_t dot = name.rfind('.'); dot != std::string_view::npos)
        name.remove_prefix(dot + 1);
    std::vector<std::string> words = words_of(name);
    part_last_word(words);
    const std::string& last = words.back();
    if (is_one_of(last, kAboutSecrets))
        return false;
    std::string joined;
    for (const std::string& word : words)
        joined += word;
    if (contains_one_of(joined, kAlways))
        return true;
    std::string_view before;
    if (words.size() > 1)
        before = words[words.size() - 2];
    if (last == "TOKEN" && is_one_of(before, kModelTokens))
        return false;
    if (last == "KEY")
        return is_one_of(before, kKeyOf);
    return is_one_of(last, kAlone) || (!before.empty() && is_one_of(last, kLast));
}

}  // namespace autolaunch::launcher
