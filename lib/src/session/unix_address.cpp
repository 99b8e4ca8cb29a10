#include "session/unix_address.hpp"

#include "base/file_io.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

namespace autolaunch {

UnixAddress::UnixAddress(const std::filesystem::path& path) : path_(path.string()) {
    if (path_.size() < sizeof(sockaddr_un::sun_path))
        return;
    directory_ = open_file(path.parent_path(), O_PATH | O_DIRECTORY);
    path_ = "/proc/self/fd/" + std::to_string(directory_.get()) + "/" + path.filename().string();
}

UniqueFd connect_to_unix(const std::filesystem::path& path, Deadline deadline) {
    constexpr std::chrono::milliseconds kPause{5};
    const UnixAddress address(path);
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    if (address.path().size() >= sizeof name.sun_path)
        return UniqueFd();
    std::copy(address.path().begin(), address.path().end(), name.sun_path);
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    while (socket &&
           ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
        const bool queue_is_full = errno == EAGAIN || errno == EINTR;
        if (!queue_is_full || deadline.passed())
            return UniqueFd();
        std::this_thread::sleep_for(kPause);
    }
    return socket;
}

}  // namespace autolaunch
