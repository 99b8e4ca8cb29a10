#include "base/unique_fd.hpp"
#include "checkpoint/commit/authentication.hpp"
#include "checkpoints/commands.hpp"
#include "checkpoints/open_checkpoint.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cerrno>

namespace autolaunch::launcher {

// It never replaces a file: that may be the only copy of a key.
CheckpointOutcome make_authentication_key(const CheckpointRequest& request) {
    const std::string& path = request.paths.at(0);
    const auto line = AuthenticationKeys::new_key_line();
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd)
        throw SystemError(errno, "make the key file " + path, "name a file that is not there yet");
    const ssize_t written = ::write(fd.get(), line.data(), line.size());
    if (written != static_cast<ssize_t>(line.size()) || ::fsync(fd.get()) != 0) {
        const int error =
            written < 0 || written == static_cast<ssize_t>(line.size()) ? errno : ENOSPC;
        ::unlink(path.c_str());
        throw SystemError(error, "write " + path);
    }
    if (request.json)
        return {made_json("keygen", {{"path", path}}), 0};
    return {
        fmt::format(
            "{} has a new key: whoever writes these checkpoints, or must trust them, needs it\n",
            shown(path)),
        0};
}

}  // namespace autolaunch::launcher
