#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// As much of HTTP as a scrape needs.
struct HttpRequest {
    std::string method, path;  ///< without what follows a "?"
    std::string accept = {};
};
inline constexpr std::size_t kMostRequestBytes = 8U << 10;

/// What has come so far: nothing while its end has not; a request that is none has no method. Pure.
std::optional<HttpRequest> parse_http_request(std::string_view bytes);

/// The whole answer, after which the connection is closed. Pure.
std::string http_answer(int status, std::string_view content_type, std::string_view body,
                        bool with_body);

}  // namespace autolaunch::launcher
