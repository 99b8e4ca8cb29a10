#pragma once
#include <autolaunch/export.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch {

/// A write failed because what it was to go to cannot take more: a full disk, a quota, the limit of
/// a file's size (ulimit -f). Trying again helps once somebody has made room.
AUTOLAUNCH_API bool is_want_of_room(int error) noexcept;

/// Why nothing can be written in this folder now, as "No space left on device"; empty when it can.
/// Finds out by a small file, which is gone at once: a quota shows in no statvfs(2).
AUTOLAUNCH_API std::string why_no_room(const std::filesystem::path& folder);

/// One limit of a user or of his group, in bytes or in files.
struct QuotaUse {
    enum class Of { bytes, files };
    Of of = Of::bytes;
    std::uint64_t used = 0;
    std::uint64_t soft = 0, hard = 0;  ///< 0: none. Beyond the soft one for some days at most

    bool operator==(const QuotaUse&) const = default;
};
/// Of this user and his group where an open file is, by the kernel; none where it has none, or does
/// not tell (RoomLeft::knows_quotas).
AUTOLAUNCH_API std::vector<QuotaUse> own_quotas(int fd);

/// How many bytes this user may still write where an open file is.
struct RoomLeft {
    std::int64_t bytes =
        0;  ///< what the file system has for users, or a quota's rest, if it is less
    /// Whether the quotas of the user and the group were asked: kernels before 5.14 do not tell
    /// those of an open file. A server's quotas (NFS) show in no such call.
    bool knows_quotas = false;
};
AUTOLAUNCH_API RoomLeft room_left(int fd) noexcept;

/// A program's words for a full disk, in C's, Python's, Java's and Rust's messages alike. Pure.
AUTOLAUNCH_API bool tells_want_of_room(std::string_view text);

}  // namespace autolaunch
