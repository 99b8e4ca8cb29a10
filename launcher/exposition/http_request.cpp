#include "exposition/http_request.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace autolaunch::launcher {
namespace {

bool is_named(std::string_view header, std::string_view name) {
    return header.size() > name.size() && header[name.size()] == ':' &&
           std::equal(name.begin(), name.end(), header.begin(), [](char a, char b) {
               return a == std::tolower(static_cast<unsigned char>(b));
           });
}

const char* words_of(int status) {
    switch (status) {
        case 200:
            return "OK";
        case 400:
            return "Bad Request";
        case 404:
            return "Not Found";
        case 405:
            return "Method Not Allowed";
        case 503:
            return "Service Unavailable";
        default:
            return "Error";
    }
}

}  // namespace

std::optional<HttpRequest> parse_http_request(std::string_view bytes) {
    std::size_t end = bytes.find("\r\n\r\n");
    end = std::min(end, bytes.find("\n\n"));  // who types it by hand
    if (end == bytes.npos)
        return bytes.size() > kMostRequestBytes ? std::optional(HttpRequest{}) : std::nullopt;
    HttpRequest request;
    const auto lines = split(bytes.substr(0, end), '\n');
    const auto words = split(trim(lines.front()), ' ');
    constexpr std::size_t kWords = 3;
    if (words.size() != kWords || !words[2].starts_with("HTTP/1.") || words[1].empty() ||
        words[1][0] != '/')
        return HttpRequest{};
    request.method = words[0];
    request.path = words[1].substr(0, words[1].find('?'));
    for (const std::string& line : lines)
        if (is_named(line, "accept"))
            request.accept += (request.accept.empty() ? "" : ",") +
                              std::string(trim(std::string_view(line).substr(line.find(':') + 1)));
    return request;
}

std::string http_answer(int status, std::string_view content_type, std::string_view body,
                        bool with_body) {
    std::string answer = fmt::format(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n"
        "X-Content-Type-Options: nosniff\r\n\r\n",
        status, words_of(status), content_type, body.size());
    return with_body ? answer.append(body) : answer;
}

}  // namespace autolaunch::launcher
