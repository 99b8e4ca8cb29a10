#include "run_report/open_regular.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace autolaunch::launcher {

// A FIFO must not hold us, and a link may lead anywhere.
Opened open_regular(int folder, const std::string& name) {
    Opened opened;
    opened.file.reset(
        ::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat facts {};
    if (!opened.file) {
        opened.absent = errno == ENOENT;
        opened.wrong = errno == ELOOP  ? "is a symbolic link, which is not followed"
                       : opened.absent ? "is not there"
                                       : std::string("cannot be read: ") + std::strerror(errno);
    } else if (::fstat(opened.file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
        opened.file.reset();
        opened.wrong = "is not a regular file";
    }
    return opened;
}

std::optional<std::string> read_all(int file, std::size_t most, std::string& wrong) {
    std::string text;
    std::array<char, 65536> buffer;
    for (;;) {
        const ssize_t got = ::read(file, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 || text.size() > most) {
            wrong = got < 0 ? std::string("cannot be read: ") + std::strerror(errno)
                            : "is too large to be what it should be";
            return std::nullopt;
        }
        if (got == 0)
            return text;
        text.append(buffer.data(), static_cast<std::size_t>(got));
    }
}

}  // namespace autolaunch::launcher
