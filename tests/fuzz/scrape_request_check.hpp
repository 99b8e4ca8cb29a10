#pragma once
#include "exposition/http_request.hpp"
#include "exposition/metric.hpp"
#include "require.hpp"

#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// What has come of a request to /metrics, as anything: nothing yet, none, or a request, which more
/// bytes do not change. Aborts where that is not so. Whether it is one.
inline bool check_scrape_bytes(std::string_view bytes) {
    using fuzz::require;
    const auto request = parse_http_request(bytes);
    if (!request) {
        require(bytes.size() <= kMostRequestBytes);
        return false;
    }
    const bool is_one = !request->path.empty();
    require(is_one || request->method.empty());
    if (is_one && bytes.size() <= kMostRequestBytes) {
        const auto more = parse_http_request(std::string(bytes) + "x\r\nAccept: y\r\n\r\n");
        require(more && more->method == request->method && more->path == request->path &&
                more->accept == request->accept);
    }
    require(request->path.find_first_of("? \n") == std::string::npos &&
            request->accept.find('\n') == std::string::npos);
    const MetricFormat format = format_wanted(request->accept);
    const std::string answer = http_answer(200, content_type(format), "body", true);
    require(answer.ends_with("\r\n\r\nbody"));
    return is_one && !request->method.empty();
}

}  // namespace autolaunch::launcher
