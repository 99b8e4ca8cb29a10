#include "base/file_io.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace autolaunch {

UniqueFd open_file(const std::filesystem::path& path, int flags, mode_t mode) {
    UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, mode));
    if (!fd) {
        const bool writes = (flags & O_ACCMODE) != O_RDONLY;
        throw SystemError(errno, "open " + path.string() + (writes ? " for writing" : ""));
    }
    return fd;
}

void close_on_exec(int fd) noexcept { ::fcntl(fd, F_SETFD, FD_CLOEXEC); }

void write_all(int fd, std::string_view bytes, std::string_view what) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(fd, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            throw SystemError(errno, "write " + std::string(what));
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
}

std::string read_file(const std::filesystem::path& path) {
    const UniqueFd fd = open_file(path, O_RDONLY);
    std::string content;
    std::array<char, 65536> buffer;
    for (;;) {
        const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            throw SystemError(errno, "read " + path.string());
        if (got == 0)
            return content;
        content.append(buffer.data(), static_cast<std::size_t>(got));
    }
}

void sync_directory(const std::filesystem::path& path) {
    const UniqueFd fd = open_file(path.empty() ? "." : path, O_RDONLY | O_DIRECTORY);
    if (::fsync(fd.get()) != 0)
        throw SystemError(errno, "fsync " + path.string());
}

void write_file_durably(const std::filesystem::path& path, std::string_view bytes, mode_t mode) {
    std::filesystem::path temporary = path;
    temporary += ".tmp" + std::to_string(::getpid());
    {
        ::unlink(temporary.c_str());  // of a process that had our number
        const UniqueFd fd = open_file(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
        write_all(fd.get(), bytes, temporary.string());
        if (::fsync(fd.get()) != 0)
            throw SystemError(errno, "fsync " + temporary.string());
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0)
        throw SystemError(errno, "rename " + temporary.string());
    sync_directory(path.parent_path());
}

}  // namespace autolaunch
