#pragma once
#include "hand_over/shared_file.hpp"

#include <autolaunch/error.hpp>

#include <cstdlib>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// A list of files that another mover sends: one that reads the same when it is written again, and
/// whose chunks are all of each file's; or refused. Aborts where that is not so. Whether it is one.
inline bool check_hand_over_list(std::string_view bytes) {
    std::vector<SharedFile> files;
    try {
        files = parse_manifest(std::string(bytes));
    } catch (const Error& error) {
        if (error.code() != ErrorCode::corrupt)
            std::abort();
        return false;
    }
    if (parse_manifest(as_manifest(files)) != files)
        std::abort();
    for (const SharedFile& file : files) {
        const std::size_t last = chunks_of(file) - 1;
        const auto covered =
            chunk_offset(file, last) + static_cast<std::int64_t>(chunk_bytes(file, last));
        if (covered != file.bytes || chunk_bytes(file, last) == 0)
            std::abort();
        constexpr std::int64_t kFew = std::int64_t{1} << 32;
        if (file.bytes <= kFew && wanted_bytes(file) > file.bytes)
            std::abort();
    }
    return true;
}

}  // namespace autolaunch::launcher
