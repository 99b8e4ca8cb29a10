#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

// Small readers for sysfs and procfs, for this folder and doctor. None throws for a file that is
// missing or odd: the kernel leaves files out by architecture, version and container, and a missing
// fact is an ordinary answer.

/// First 16 KiB of the file, trimmed; nothing if it cannot be read.
std::optional<std::string> read_small(const std::string& path);
std::optional<long long> read_number(const std::string& path);
/// All of a table that the kernel gives out in pieces, such as /proc/net/route; its first 256 KiB
/// at most, by lines.
std::vector<std::string> read_table(const std::string& path);
/// "0-3,8" -> {0,1,2,3,8}, sorted and unique. Nothing if malformed or beyond 65536 numbers.
std::optional<std::vector<int>> parse_list(std::string_view text);
std::optional<std::vector<int>> read_list(const std::string& path);
/// Names in a directory without "." and "..", sorted; empty if it cannot be read.
std::vector<std::string> list_directory(const std::string& path);
/// "Key:   value" lines.
std::map<std::string, std::string> read_fields(const std::string& path);
/// "key 123" lines of the amdgpu driver; lines that are not of this form are left out.
std::map<std::string, std::uint64_t> read_properties(const std::string& path);
/// Where a link points, as it is written; empty if it is none.
std::string read_link(const std::string& path);
bool exists(const std::string& path);

}  // namespace autolaunch::launcher
