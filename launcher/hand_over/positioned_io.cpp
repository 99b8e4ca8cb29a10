#include "hand_over/positioned_io.hpp"

#include <unistd.h>

#include <cerrno>

namespace autolaunch::launcher {

bool write_at(int fd, std::string_view bytes, off_t at) {
    while (!bytes.empty()) {
        const ssize_t count = ::pwrite(fd, bytes.data(), bytes.size(), at);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        bytes.remove_prefix(static_cast<std::size_t>(count));
        at += count;
    }
    return true;
}

bool read_at(int fd, std::string& bytes, off_t at) {
    for (std::size_t done = 0; done < bytes.size();) {
        const ssize_t count =
            ::pread(fd, bytes.data() + done, bytes.size() - done, at + static_cast<off_t>(done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count == 0)
            errno = 0;
        if (count <= 0)
            return false;
        done += static_cast<std::size_t>(count);
    }
    return true;
}

}  // namespace autolaunch::launcher
