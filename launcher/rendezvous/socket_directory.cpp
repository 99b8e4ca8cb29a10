#include "rendezvous/socket_directory.hpp"

#include <autolaunch/error.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <vector>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kLongestParent = 64;  // leaves room for our names in the 107 bytes

std::vector<std::string> parents() {
    std::vector<std::string> found;
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    if (runtime != nullptr && runtime[0] == '/' && std::string(runtime).size() <= kLongestParent)
        found.emplace_back(runtime);
    found.emplace_back("/dev/shm");
    found.emplace_back("/tmp");
    return found;
}

}  // namespace

SocketDirectory::SocketDirectory() {
    int error = 0;
    for (const auto& parent : parents()) {
        std::string name = parent + "/autolaunch-" + std::to_string(::getuid()) + "-XXXXXX";
        if (::mkdtemp(name.data()) != nullptr) {  // 0700
            path_ = name;
            return;
        }
        error = errno;
    }
    throw SystemError(error, "create a folder for sockets in /tmp",
                      "XDG_RUNTIME_DIR, /dev/shm or /tmp must be writable");
}

SocketDirectory::~SocketDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

}  // namespace autolaunch::launcher
