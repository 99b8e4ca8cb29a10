#include "base/room_on_disk.hpp"

#include "base/hash.hpp"
#include "base/unique_fd.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>

namespace autolaunch {

bool is_want_of_room(int error) noexcept {
    return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

std::string why_no_room(const std::filesystem::path& folder) {
    const std::filesystem::path path = folder / (".autolaunch-room-" + random_hex(8));
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd)
        return std::strerror(errno);
    std::array<char, 4096> block;
    block.fill('.');
    int error = 0;
    const ssize_t written = ::write(fd.get(), block.data(), block.size());
    if (written != static_cast<ssize_t>(block.size()))
        error = written < 0 ? errno : ENOSPC;
    // A network file system tells it now. Not by fsync: others wait for our answer.
    else if (::close(fd.release()) != 0)
        error = errno;
    ::unlink(path.c_str());
    return error == 0 ? "" : std::strerror(error);
}

bool tells_want_of_room(std::string_view text) {
    constexpr std::string_view kWords[] = {"No space left on device",
                                           "Disk quota exceeded",
                                           "ENOSPC",
                                           "EDQUOT",
                                           "[Errno 28]",
                                           "[Errno 122]",
                                           "File too large",
                                           "os error 28"};
    return std::any_of(std::begin(kWords), std::end(kWords), [&](std::string_view words) {
        return text.find(words) != std::string_view::npos;
    });
}

}  // namespace autolaunch
