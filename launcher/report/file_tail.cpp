#include "report/file_tail.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace autolaunch::launcher {

namespace {

// What a terminal would show of it in the end.
std::string last_state(const std::string& line) {
    const std::size_t end = line.find_last_not_of('\r');
    if (end == std::string::npos)
        return {};
    const std::size_t overwritten = line.rfind('\r', end);
    const std::size_t begin = overwritten == std::string::npos ? 0 : overwritten + 1;
    return line.substr(begin, end + 1 - begin);
}

std::string read_end(int fd, off_t size, std::size_t bytes) {
    std::string content(std::min<std::size_t>(bytes, static_cast<std::size_t>(size)), '\0');
    const off_t begin = size - static_cast<off_t>(content.size());
    std::size_t filled = 0;
    while (filled < content.size()) {
        const ssize_t got = ::pread(fd, content.data() + filled, content.size() - filled,
                                    begin + static_cast<off_t>(filled));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        filled += static_cast<std::size_t>(got);
    }
    content.resize(filled);
    return content;
}

}  // namespace

std::vector<std::string> file_tail(const std::filesystem::path& path, std::size_t lines,
                                   std::size_t bytes) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode))
        return {};
    std::vector<std::string> tail = split(read_end(fd.get(), status.st_size, bytes), '\n');
    for (auto& line : tail)
        line = last_state(line);
    while (!tail.empty() && trim(tail.back()).empty())
        tail.pop_back();
    const bool first_is_cut = static_cast<std::size_t>(status.st_size) > bytes;
    if (first_is_cut && tail.size() > 1)
        tail.erase(tail.begin());
    if (tail.size() > lines)
        tail.erase(tail.begin(), tail.end() - static_cast<std::ptrdiff_t>(lines));
    return tail;
}

}  // namespace autolaunch::launcher
