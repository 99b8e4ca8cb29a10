#include "rank_services/socket_directory.hpp"

#include "base/owned_folder.hpp"

#include <autolaunch/error.hpp>

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kLongestParent = 64;  // leaves room for our names in the 107 bytes

[[noreturn]] void throw_no_place(int error) {
    throw SystemError(error, "create a folder for sockets in /tmp",
                      "XDG_RUNTIME_DIR, /dev/shm or /tmp must be writable for you, and have the "
                      "sticky bit if it is for others");
}

LockedFolder make_folder() {
    int error = ENOENT;
    for (const auto& parent : SocketDirectory::places()) {
        try {
            return LockedFolder::make_unique(parent + "/" + SocketDirectory::name_prefix());
        } catch (const SystemError& refused) {
            error = refused.error_number();
        }
    }
    throw_no_place(error);
}

// The same name in another place, where keeper and guardian look for what to remove when the agent
// was killed; but nobody's folder that is there already.
LockedFolder make_again(const std::string& name) {
    for (const auto& parent : SocketDirectory::places()) {
        try {
            return LockedFolder(parent + "/" + name);
        } catch (const SystemError&) {  // the next one, or any name
        }
    }
    return make_folder();
}

}  // namespace

SocketDirectory::SocketDirectory() : folder_(make_folder()) {}

bool SocketDirectory::restore() {
    if (folder_.is_there())
        return false;
    folder_ = make_again(folder_.path().filename().string());
    return true;
}

std::vector<std::string> SocketDirectory::places() {
    const char* set = std::getenv("XDG_RUNTIME_DIR");
    const std::string runtime = set == nullptr ? "" : set;
    std::vector<std::string> found{"/dev/shm", "/tmp"};
    if (runtime.starts_with("/run/user/"))
        found = {"/tmp", "/dev/shm", runtime};
    else if (runtime.starts_with('/'))
        found.insert(found.begin(), runtime);
    std::erase_if(found, [](const std::string& parent) {
        return parent.size() > kLongestParent || !keeps_our_names(parent);
    });
    return found;
}

std::string SocketDirectory::name_prefix() {
    return "autolaunch-" + std::to_string(::geteuid()) + "-";
}

}  // namespace autolaunch::launcher
