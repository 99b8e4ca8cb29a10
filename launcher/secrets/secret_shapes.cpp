#include "secrets/secret_shapes.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace autolaunch::launcher {

namespace {

bool is_alnum(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x80 && std::isalnum(byte) != 0;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

/// A secret at the front of a text.
struct SecretShape {
    std::size_t shown = 0;
    std::size_t hidden = 0;  ///< 0: there is none
};

/// A token's first bytes, and what follows them.
struct Prefix {
    std::string_view text;
    std::string_view also;     ///< besides letters and digits
    std::size_t least = 0;     ///< bytes that follow
    bool unlike_words = true;  ///< a digit, and either an upper-case letter or many bytes
};

// Names of libraries and files begin alike (hf_transfer, sk-learn): a token looks unlike words.
constexpr std::array<Prefix, 34> kPrefixes = {{
    {"hf_", "", 8},          {"hf_oauth_", "_-", 8},
    {"ghp_", "", 10},        {"gho_", "", 10},
    {"ghu_", "", 10},        {"ghs_", "", 10},
    {"ghr_", "", 10},        {"github_pat_", "_", 10},
    {"glpat-", "_-.", 10},   {"glrt-", "_-.", 10},
    {"gldt-", "_-.", 10},    {"sk-", "_-", 10},
    {"sk_live_", "_", 8},    {"sk_test_", "_", 8},
    {"rk_live_", "_", 8},    {"AKIA", "", 16, false},
    {"ASIA", "", 16, false}, {"xoxb-", "-", 8},
    {"xoxa-", "-", 8},       {"xoxp-", "-", 8},
    {"xoxo-", "-", 8},       {"xoxr-", "-", 8},
    {"xoxs-", "-", 8},       {"xapp-", "-", 8},
    {"AIza", "_-", 30},      {"ya29.", "_-.", 20},
    {"npm_", "", 20},        {"pypi-", "_-", 30},
    {"dckr_pat_", "_-", 10}, {"nvapi-", "_-", 10},
    {"gsk_", "", 20},        {"dop_v1_", "", 20},
    {"wandb_v1_", "_-", 10}, {"AGE-SECRET-KEY-1", "", 20, false},
}};

constexpr std::size_t kPlainlyRandom = 20;

bool is_unlike_words(std::string_view tail) {
    const bool digit = std::any_of(tail.begin(), tail.end(), is_digit);
    const bool upper = std::any_of(tail.begin(), tail.end(), is_upper);
    return (digit && (upper || tail.size() >= 10)) || (upper && tail.size() >= kPlainlyRandom) ||
           tail.size() >= 30;
}

std::size_t length_of(std::string_view text, std::string_view also) {
    const auto end = std::find_if(text.begin(), text.end(), [&](char c) {
        return !is_alnum(c) && also.find(c) == std::string_view::npos;
    });
    return static_cast<std::size_t>(end - text.begin());
}

SecretShape with_prefix(std::string_view text) {
    SecretShape found;
    for (const Prefix& prefix : kPrefixes) {
        if (!text.starts_with(prefix.text))
            continue;
        const std::string_view rest = text.substr(prefix.text.size());
        const std::size_t length = length_of(rest, prefix.also);
        if (length >= prefix.least &&
            (!prefix.unlike_words || is_unlike_words(rest.substr(0, length))))
            found = {prefix.text.size(), length};
    }
    return found;
}

/// header.payload.signature, each in base64url; the first two are JSON objects.
SecretShape json_web_token(std::string_view text) {
    if (!text.starts_with("eyJ"))
        return {};
    const std::size_t header = length_of(text, "_-");
    if (header < 8 || header >= text.size() || text[header] != '.')
        return {};
    const std::size_t all = length_of(text, "_-.");
    return all < header + 8 ? SecretShape{} : SecretShape{3, all - 3};
}

/// Of ssh, TLS and PGP: up to the end's line, to a quotation mark, or to the text's end.
SecretShape private_key(std::string_view text) {
    constexpr std::string_view kBegin = "-----BEGIN ", kKey = "PRIVATE KEY", kEnd = "-----END ";
    constexpr std::size_t kLongestTitle = 60;
    if (!text.starts_with(kBegin))
        return {};
    const std::size_t title = text.substr(0, kLongestTitle).find(kKey);
    const std::size_t dashes = title == text.npos ? text.npos : text.find("-----", title);
    if (dashes == text.npos)
        return {};
    const std::size_t body = dashes + 5;
    const std::size_t end = std::min(text.find(kEnd, body), text.find('"', body));
    return {body, std::min(end, text.size()) - body};
}

/// The password of ://user:password@host.
SecretShape url_password(std::string_view text) {
    constexpr std::string_view kStart = "://";
    if (!text.starts_with(kStart))
        return {};
    const std::size_t end =
        std::min(text.find_first_of("/?# \t\n\"'<>", kStart.size()), text.size());
    const std::size_t at = text.substr(0, end).rfind('@');
    const std::size_t colon = text.find(':', kStart.size());
    if (at == text.npos || colon == text.npos || colon + 1 >= at)
        return {};
    return {colon + 1, at - colon - 1};
}

constexpr std::array<std::string_view, 3> kWebhooks = {
    "hooks.slack.com/services/", "discord.com/api/webhooks/", "discordapp.com/api/webhooks/"};

/// Where the path of an address is what proves who calls.
SecretShape webhook(std::string_view text) {
    for (const std::string_view start : kWebhooks)
        if (text.starts_with(start)) {
            const std::size_t length = length_of(text.substr(start.size()), "_-/");
            return length < 8 ? SecretShape{} : SecretShape{start.size(), length};
        }
    return {};
}

constexpr std::array<std::string_view, 3> kAuthorizations = {"Bearer ", "bearer ", "Basic "};

/// Of an HTTP header.
SecretShape authorization(std::string_view text) {
    for (const std::string_view start : kAuthorizations)
        if (text.starts_with(start)) {
            const std::string_view rest = text.substr(start.size());
            const std::size_t length = length_of(rest, "._~+/=-");
            const std::string_view token = rest.substr(0, length);
            if (length >= 8 && (is_unlike_words(token) || token.ends_with('=')))
                return {start.size(), length};
        }
    return {};
}

/// Pairs of bytes that begin a shape. Most begin none, and a plan is masked at each launch.
class Beginnings {
public:
    constexpr Beginnings() {
        for (const Prefix& prefix : kPrefixes)
            add(prefix.text);
        for (const std::string_view start : {"eyJ", "--", "://"})
            add(start);
        for (const std::string_view start : kWebhooks)
            add(start);
        for (const std::string_view start : kAuthorizations)
            add(start);
    }
    bool has(char first, char second) const {
        return ((first | second) & 0x80) == 0 && known_[index(first, second)];
    }

private:
    static constexpr std::size_t index(char first, char second) {
        return static_cast<std::size_t>(first) * 128 + static_cast<std::size_t>(second);
    }
    constexpr void add(std::string_view start) { known_[index(start[0], start[1])] = true; }
    std::array<bool, std::size_t{128} * 128> known_{};
};

constexpr Beginnings kBeginnings;

/// One that begins where `text` does; `before` is the byte in front.
SecretShape shape_of(std::string_view text, char before) {
    if (const SecretShape found = url_password(text); found.hidden > 0)
        return found;
    if (is_alnum(before) || before == '_')
        return {};
    for (const auto look : {with_prefix, json_web_token, private_key, webhook, authorization})
        if (const SecretShape found = look(text); found.hidden > 0)
            return found;
    return {};
}

}  // namespace

SecretPlace find_secret(std::string_view text, std::size_t from) {
    for (std::size_t at = from; at + 1 < text.size(); ++at) {
        if (!kBeginnings.has(text[at], text[at + 1]))
            continue;
        const SecretShape found = shape_of(text.substr(at), at > 0 ? text[at - 1] : '\0');
        if (found.hidden > 0)
            return {at + found.shown, found.hidden};
    }
    return {};
}

}  // namespace autolaunch::launcher
