#pragma once
#include <autolaunch/digest.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// What is known of the copies of an entry's files, a line each:
/// "BYTES MTIME DIGEST PATH\n", the path escaped. What is behind the last line end was cut off when
/// its writer was killed, and does not count. The newest line of a path counts.
struct CopiedFile {
    std::int64_t bytes = 0, mtime_ns = 0;
    Digest128 digest = {};
    bool operator==(const CopiedFile&) const = default;
};
std::string journal_line(const std::string& path, const CopiedFile& file);
/// Lines that make no sense are left out. Pure.
std::map<std::string, CopiedFile> parse_journal(std::string_view text);

}  // namespace autolaunch::launcher
