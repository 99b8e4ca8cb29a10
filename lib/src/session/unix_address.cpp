#include "session/unix_address.hpp"

#include "base/file_io.hpp"

#include <fcntl.h>
#include <sys/un.h>

namespace autolaunch {

UnixAddress::UnixAddress(const std::filesystem::path& path) : path_(path.string()) {
    if (path_.size() < sizeof(sockaddr_un::sun_path)) return;
    directory_ = open_file(path.parent_path(), O_PATH | O_DIRECTORY);
    path_ = "/proc/self/fd/" + std::to_string(directory_.get()) + "/" + path.filename().string();
}

}  // namespace autolaunch
