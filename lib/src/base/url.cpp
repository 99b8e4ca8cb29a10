#include "base/url.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace autolaunch {

namespace {

constexpr std::string_view kSchemeEnd = "://";

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return out;
}

bool is_web(std::string_view url) {
    const std::string scheme = scheme_of(url);
    return scheme == "http" || scheme == "https";
}

/// Where its path begins, or what follows the host.
std::size_t path_of(std::string_view url) {
    const std::size_t host = url.find(kSchemeEnd) + kSchemeEnd.size();
    return std::min(url.find_first_of("/?#", host), url.size());
}

int digit_of(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    const char low = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/// Of AWS, Google, Azure, CloudFront and those that are alike.
bool signs(std::string_view parameter) {
    static constexpr std::array<std::string_view, 20> kNames = {"awsaccesskeyid",
                                                                "expires",
                                                                "signature",
                                                                "key-pair-id",
                                                                "policy",
                                                                "googleaccessid",
                                                                "sig",
                                                                "se",
                                                                "st",
                                                                "sp",
                                                                "sv",
                                                                "sr",
                                                                "spr",
                                                                "skoid",
                                                                "sktid",
                                                                "skt",
                                                                "ske",
                                                                "sks",
                                                                "skv",
                                                                "token"};
    const std::string name = lower(parameter.substr(0, parameter.find('=')));
    return name.starts_with("x-amz-") || name.starts_with("x-goog-") || name.ends_with("_token") ||
           std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace

std::string scheme_of(std::string_view text) {
    const std::size_t end = text.find(kSchemeEnd);
    if (end == std::string_view::npos || end == 0)
        return {};
    const std::string scheme = lower(text.substr(0, end));
    const bool is_name = std::all_of(scheme.begin(), scheme.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
    });
    return is_name ? scheme : std::string();
}

bool is_url(std::string_view text) { return !scheme_of(text).empty(); }

std::string shown_url(std::string_view text) {
    if (!is_web(text))
        return std::string(text);
    const std::size_t path = path_of(text);
    const std::size_t host = text.find(kSchemeEnd) + kSchemeEnd.size();
    const std::size_t user = text.substr(0, path).rfind('@');
    const std::size_t end = std::min(text.find_first_of("?#", path), text.size());
    const std::size_t name = user == std::string_view::npos || user < host ? host : user + 1;
    const std::string shown =
        std::string(text.substr(0, host)) + std::string(text.substr(name, end - name));
    return end < text.size() ? shown + "?…" : shown;
}

std::string name_in_url(std::string_view url) {
    const bool is_of_web = is_web(url);
    url.remove_prefix(path_of(url));
    if (is_of_web)
        url = url.substr(0, url.find_first_of("?#"));
    const std::size_t slash = url.rfind('/');
    if (slash == std::string_view::npos)
        return {};
    url.remove_prefix(slash + 1);
    std::string name;
    for (std::size_t at = 0; at < url.size(); ++at) {
        const int high =
            is_of_web && url[at] == '%' && at + 2 < url.size() ? digit_of(url[at + 1]) : -1;
        const int low = high < 0 ? -1 : digit_of(url[at + 2]);
        if (low < 0) {
            name += url[at];
            continue;
        }
        name += static_cast<char>(high * 16 + low);
        at += 2;
    }
    return name;
}

std::string resolved_url(std::string_view url, std::string_view location) {
    if (is_url(location))
        return std::string(location);
    if (location.starts_with("//"))
        return scheme_of(url) + ':' + std::string(location);
    const std::size_t path = path_of(url);
    if (location.starts_with('/'))
        return std::string(url.substr(0, path)) + std::string(location);
    const std::size_t end = std::min(url.find_first_of("?#", path), url.size());
    const std::size_t slash = url.substr(0, end).rfind('/');
    if (slash == std::string_view::npos || slash < path)
        return std::string(url.substr(0, path)) + '/' + std::string(location);
    return std::string(url.substr(0, slash + 1)) + std::string(location);
}

std::string lasting_query(std::string_view url) {
    if (!is_web(url))
        return {};
    url = url.substr(0, url.find('#'));
    const std::size_t begin = url.find('?');
    if (begin == std::string_view::npos)
        return {};
    std::vector<std::string> kept;
    for (const std::string& parameter : split(url.substr(begin + 1), '&'))
        if (!parameter.empty() && !signs(parameter))
            kept.push_back(parameter);
    return join(kept, "&");
}

}  // namespace autolaunch
