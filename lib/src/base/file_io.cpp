#include "base/file_io.hpp"

#include "base/deadline.hpp"
#include "base/read_at_most.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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

namespace {

constexpr std::size_t kMostFileBytes = std::size_t{1} << 30;

// The end of an anonymous pipe is an end; a named one may only wait for its writer.
bool is_named_pipe(int fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0 || !S_ISFIFO(status.st_mode))
        return false;
    std::array<char, 8> target{};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
    return length > 0 && std::string_view(target.data(), 5) != "pipe:";
}

// Whether there is something to read, or the end, by the deadline.
bool is_readable(int fd, std::chrono::milliseconds patience, const std::filesystem::path& path) {
    const Deadline deadline = Deadline::after(patience);
    for (;;) {
        pollfd wait = {fd, POLLIN, 0};
        const int ready = ::poll(&wait, 1, deadline.poll_timeout_ms());
        if (ready < 0 && errno != EINTR)
            throw SystemError(errno, "wait for " + path.string());
        if (ready > 0)
            return true;
        if (ready == 0 && deadline.passed())
            return false;
    }
}

[[noreturn]] void refuse_silence(const std::filesystem::path& path, bool nobody,
                                 std::chrono::milliseconds waited) {
    const std::string time = std::to_string(waited.count() / 1000) + " s";
    throw SystemError(ENODATA, "read " + path.string(),
                      nobody ? "it is a pipe, and nobody opened it to write for " + time
                             : "it is no regular file, and nothing came for " + time +
                                   "; write it to a file first");
}

// Opened with O_NONBLOCK: without, open(2) itself waits for a pipe's writer.
std::string read_open(int fd, const std::filesystem::path& path, std::size_t bytes,
                      ReadPatience patience) {
    bool has_writer = !is_named_pipe(fd);
    std::string content;
    std::array<char, 65536> buffer;
    while (content.size() <= bytes) {
        const std::size_t wanted = std::min(buffer.size(), bytes + 1 - content.size());
        const ssize_t got = ::read(fd, buffer.data(), wanted);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno != EAGAIN)
            throw SystemError(errno, "read " + path.string());
        if (got == 0 && has_writer)
            break;
        has_writer = has_writer || got != 0;
        if (got > 0)
            content.append(buffer.data(), static_cast<std::size_t>(got));
        else if (!is_readable(fd, has_writer ? patience.silence : patience.writer, path))
            refuse_silence(path, !has_writer, has_writer ? patience.silence : patience.writer);
        else
            has_writer = true;
    }
    return content;
}

}  // namespace

std::string read_at_most(const std::filesystem::path& path, std::size_t bytes,
                         ReadPatience patience) {
    const UniqueFd fd = open_file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    return read_open(fd.get(), path, bytes, patience);
}

std::string read_regular_file(const std::filesystem::path& path, std::size_t bytes) {
    const UniqueFd fd = open_file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0)
        throw SystemError(errno, "look at " + path.string());
    if (!S_ISREG(status.st_mode))
        throw Error(ErrorCode::invalid_argument, path.string() + " is no regular file");
    std::string content = read_open(fd.get(), path, bytes, {});
    if (content.size() > bytes)
        throw Error(ErrorCode::invalid_argument,
                    path.string() + " has more than " + std::to_string(bytes >> 20) + " MiB");
    return content;
}

std::string read_file(const std::filesystem::path& path) {
    std::string content = read_at_most(path, kMostFileBytes);
    if (content.size() > kMostFileBytes)
        throw SystemError(EFBIG, "read " + path.string(), "more than 1 GiB");
    return content;
}

void sync_directory(const std::filesystem::path& path) {
    const UniqueFd fd = open_file(path.empty() ? "." : path, O_RDONLY | O_DIRECTORY);
    if (::fsync(fd.get()) != 0)
        throw SystemError(errno, "fsync " + path.string());
}

}  // namespace autolaunch
