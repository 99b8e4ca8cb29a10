#include "base/unique_fd.hpp"
#include "checkpoint/commit/authentication.hpp"
#include "checkpoints/commands.hpp"
#include "checkpoints/open_checkpoint.hpp"
#include "exit_codes/exit_error.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <string_view>

namespace autolaunch::launcher {

namespace {

CheckpointOutcome make_signing_key(const CheckpointRequest& request) {
    const std::string& path = request.paths.at(0);
    std::string open;
    const auto secret = crypto::pem_of_new_signing_key(open);
    write_new_file(path, crypto::as_text(secret), 0600);
    write_new_file(path + ".pub", open, 0644);
    if (request.json)
        return {made_json("keygen", {{"path", path}, {"public_key", path + ".pub"}}), 0};
    return {fmt::format("{} has a new key that signs, and {} the one that verifies: give that to "
                        "whoever must know who saved a checkpoint\n",
                        shown(path), shown(path + ".pub")),
            0};
}

}  // namespace

void write_new_file(const std::string& path, std::string_view text, mode_t mode) {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (!fd)
        throw SystemError(errno, "make the key file " + path, "name a file that is not there yet");
    const ssize_t written = ::write(fd.get(), text.data(), text.size());
    if (written != static_cast<ssize_t>(text.size()) || ::fsync(fd.get()) != 0) {
        const int error =
            written < 0 || written == static_cast<ssize_t>(text.size()) ? errno : ENOSPC;
        ::unlink(path.c_str());
        throw SystemError(error, "write " + path);
    }
}

CheckpointOutcome make_key(const CheckpointRequest& request) {
    if (request.signing && !request.vault_transit.empty())
        throw UsageError("--signing and --vault-transit are keys of two kinds", "give either");
    if (request.signing)
        return make_signing_key(request);
    if (!request.vault_transit.empty())
        return make_wrapped_identity(request);
    const std::string& path = request.paths.at(0);
    const auto line = AuthenticationKeys::new_key_line();
    write_new_file(path, crypto::as_text(line), 0600);
    if (request.json)
        return {made_json("keygen", {{"path", path}}), 0};
    return {
        fmt::format(
            "{} has a new key: whoever writes these checkpoints, or must trust them, needs it\n",
            shown(path)),
        0};
}

}  // namespace autolaunch::launcher
