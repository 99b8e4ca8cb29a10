#pragma once
#include <autolaunch/error.hpp>

#include <string>

namespace autolaunch::launcher {

namespace http_status {
inline constexpr int kOk = 200, kPartial = 206, kUnauthorized = 401, kForbidden = 403,
                     kNotFound = 404, kGone = 410, kOtherVersion = 412, kNoRange = 416;
}

// What goes wrong with a server, as docs/guides/data.md has it. `shown` is how the source is
// printed.

/// 66: bytes of another version.
[[noreturn]] void remote_changed(const std::string& shown);
/// 66.
[[noreturn]] void remote_missing(const std::string& shown, std::string hint);
/// 65: it can be no file here.
[[noreturn]] void remote_unusable(const std::string& what, std::string hint);
/// 65: what has come is not what the server says that it has.
[[noreturn]] void remote_damaged(const std::string& shown, const std::string& checksum,
                                 const std::string& ours, const std::string& theirs);
/// 77: it does not let us; `who` is what proves who asks.
[[noreturn]] void remote_forbids(const std::string& what, const std::string& who,
                                 const std::string& hint);
/// 69.
[[noreturn]] void remote_away(const std::string& what, std::string hint);
/// The one of these that an error of the S3 client, or of libcurl, is. `doing`: "read", "write".
[[noreturn]] void translate_remote(const std::string& shown, const Error& error,
                                   const std::string& who, const char* doing = "read");

}  // namespace autolaunch::launcher
