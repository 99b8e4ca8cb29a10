#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace autolaunch::launcher {

/// Nanoseconds since 1970 of "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110) and of
/// "1994-11-06T08:49:37.123Z" (S3's listings). Nothing for other texts. Pure.
std::optional<std::int64_t> server_time_ns(std::string_view text);

}  // namespace autolaunch::launcher
