#include "stage_cache/shared_place.hpp"

#include "base/network_file_system.hpp"
#include "base/user_database.hpp"
#include "exit_codes/exit_error.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH, kShownMode = 07777;

[[noreturn]] void not_believed(const std::string& what) {
    throw Error(ErrorCode::mismatch, what,
                "every folder on the way has to be root's or the owner's, and nobody else's to "
                "write to");
}

}  // namespace

SharedPlace shared_place(const fs::path& folder, const std::string& owner) {
    const UserNumber number = number_of_user(owner);
    if (number.answer == DatabaseAnswer::exists)
        return {folder, number.uid};
    throw ExitError(exit_code::kUnavailable, ErrorCode::system,
                    "storage_management.shared_cache_owner: " +
                        std::string(number.answer == DatabaseAnswer::none
                                        ? "this node knows no user "
                                        : "no database says within 10 s who is ") +
                        owner,
                    "getent passwd has to know him on every node");
}

void check_way(const fs::path& way, uid_t owner) {
    for (fs::path at = way;; at = at.parent_path()) {
        struct stat facts {};
        if (::lstat(at.c_str(), &facts) != 0)
            throw SystemError(errno, "look at " + at.string());
        if (facts.st_uid != 0 && facts.st_uid != owner)
            not_believed(fmt::format("{} belongs to user {}", at.string(), facts.st_uid));
        if ((facts.st_mode & kOthersWrite) != 0 && (facts.st_mode & S_ISVTX) == 0)
            not_believed(fmt::format("{} may be written by others than its owner (mode {:04o})",
                                     at.string(), facts.st_mode & kShownMode));
        if (!at.has_relative_path())
            return;
    }
}

std::string why_not_believed(const struct stat& facts, uid_t owner) {
    if (facts.st_uid != owner)
        return fmt::format("belongs to user {}, and not to user {}", facts.st_uid, owner);
    if ((facts.st_mode & kOthersWrite) != 0)
        return fmt::format("may be written by others than its owner (mode {:04o})",
                           facts.st_mode & kShownMode);
    return {};
}

std::optional<fs::path> shared_path(const SharedPlace& place) {
    const fs::path asked = place.folder.has_filename() ? place.folder : place.folder.parent_path();
    if (!asked.is_absolute() || !asked.has_relative_path())
        throw Error(ErrorCode::invalid_argument,
                    '"' + place.folder.string() + "\" is no absolute path of a folder",
                    "storage_management.shared_cache: /local/datasets");
    std::error_code error;
    const fs::path way = fs::canonical(asked.parent_path(), error);
    if (error == std::errc::no_such_file_or_directory)
        return std::nullopt;
    if (error)
        throw SystemError(error.value(), "look at " + asked.parent_path().string());
    return way / asked.filename();
}

std::optional<SharedFolder> open_shared(const SharedPlace& place) {
    const auto path = shared_path(place);
    if (!path)
        return std::nullopt;
    SharedFolder folder{.fd = {}, .path = *path};
    folder.fd.reset(::open(folder.path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder.fd && errno == ENOENT)
        return std::nullopt;
    if (!folder.fd && (errno == ELOOP || errno == ENOTDIR))
        not_believed(folder.path.string() + " is no folder, or a link");
    struct stat facts {};
    if (!folder.fd || ::fstat(folder.fd.get(), &facts) != 0)
        throw SystemError(errno, "open " + folder.path.string());
    if (const std::string why = why_not_believed(facts, place.owner); !why.empty())
        not_believed(folder.path.string() + ' ' + why);
    check_way(path->parent_path(), place.owner);
    if (is_network_file_system(folder.path))
        throw Error(ErrorCode::invalid_argument,
                    folder.path.string() + " is on a file system of a network",
                    "storage_management.shared_cache is a folder on each node's own disk");
    return folder;
}

}  // namespace autolaunch::launcher
