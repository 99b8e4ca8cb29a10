#pragma once
#include "base/file_io.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

namespace autolaunch {

/// A file with this content, in the place of what has the name. Whoever reads meanwhile finds all
/// of it, or what was there before: other processes of the test do.
inline void write_file(const std::filesystem::path& path, std::string_view content,
                       mode_t mode = 0644) {
    const std::string temporary = path.string() + ".new" + std::to_string(::getpid());
    {
        const UniqueFd fd = open_file(temporary, O_WRONLY | O_CREAT | O_EXCL, mode);
        write_all(fd.get(), content, temporary);
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0)
        throw SystemError(errno, "rename " + temporary);
}

}  // namespace autolaunch
