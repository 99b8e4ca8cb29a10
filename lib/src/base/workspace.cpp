#include "base/workspace.hpp"

#include "base/refuse.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kMode = "mode=", kGroup = "group=", kOpenParents = "open-parents";
constexpr const char* kVariable = "AUTOLAUNCH_WORKSPACE";

Workspace& of_this_process() {
    static Workspace the_one;
    return the_one;
}

}  // namespace

const Workspace& workspace() { return of_this_process(); }

void set_workspace(const Workspace& workspace) { of_this_process() = workspace; }

std::string mode_text(mode_t mode) {
    char text[8] = {};
    std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode & 07777U));
    return text;
}

std::optional<mode_t> folder_mode_from(std::string_view text) {
    if (text.starts_with("0o"))
        text.remove_prefix(2);
    if (text.size() < 3 || text.size() > 5)
        return std::nullopt;
    mode_t mode = 0;
    for (const char digit : text) {
        if (digit < '0' || digit > '7')
            return std::nullopt;
        mode = mode * 8 + static_cast<mode_t>(digit - '0');
    }
    constexpr mode_t kMay = S_ISGID | S_IRWXU | S_IRWXG | S_IROTH | S_IXOTH;
    if ((mode & S_IRWXU) != S_IRWXU || (mode & ~kMay) != 0)
        return std::nullopt;
    return mode;
}

std::string to_text(const Workspace& workspace) {
    std::string text = std::string(kMode) + mode_text(workspace.folder);
    if (workspace.group)
        text += ',' + std::string(kGroup) + std::to_string(*workspace.group);
    if (workspace.open_parents)
        text += ',' + std::string(kOpenParents);
    return text;
}

Workspace workspace_from(std::string_view text) {
    Workspace found{.exact = true};
    for (const std::string& part : split(std::string(text), ',')) {
        const std::string_view word = part;
        long long group = 0;
        if (word == kOpenParents) {
            found.open_parents = true;
        } else if (const auto mode = word.starts_with(kMode)
                                         ? folder_mode_from(word.substr(kMode.size()))
                                         : std::nullopt) {
            found.folder = *mode;
        } else if (word.starts_with(kGroup) && parse_integer(part.substr(kGroup.size()), group) &&
                   group >= 0 && group < static_cast<long long>(UINT32_MAX)) {
            found.group = static_cast<gid_t>(group);
        } else {
            refuse(
                std::string(kVariable) + "=" + std::string(text) + " cannot be read: " + part,
                "write it as mode=0750,group=2001,open-parents, each of them where it is wanted");
        }
    }
    return found;
}

Workspace workspace_of_environment() {
    const char* text = std::getenv(kVariable);
    return text == nullptr || *text == '\0' ? Workspace{} : workspace_from(text);
}

void finish_file(int fd, const fs::path& path, mode_t mode, const Workspace& workspace) {
    if (workspace.exact && ::fchmod(fd, mode) != 0)
        throw SystemError(errno, "give " + path.string() + " the mode " + mode_text(mode));
}

// The group first: chown(2) may take the setgid bit away.
void finish_folder(int fd, const fs::path& path, const Workspace& workspace) {
    mode_t mode = workspace.folder;
    if (workspace.group) {
        mode |= S_ISGID;
        if (::fchown(fd, static_cast<uid_t>(-1), *workspace.group) != 0) {
            const int error = errno;
            if (error == EPERM)
                refuse("you cannot give " + path.string() + " to the group " +
                           std::to_string(*workspace.group) + ", which is none of yours (id -G)",
                       "name a group of yours in workspace.group, or have yourself added to it");
            throw SystemError(error, "give " + path.string() + " to the group " +
                                         std::to_string(*workspace.group));
        }
    }
    finish_file(fd, path, mode, workspace);
}

bool make_one_folder(const fs::path& path, const Workspace& workspace) {
    if (::mkdir(path.c_str(), workspace.folder & 0777) != 0) {
        int error = errno;
        if (error == EEXIST) {
            struct stat there {};  // a server that is gone says no more than that
            const bool is_seen = ::stat(path.c_str(), &there) == 0;
            if (is_seen && S_ISDIR(there.st_mode))
                return false;
            error = is_seen || errno == ENOENT ? ENOTDIR : errno;
        }
        throw SystemError(error, "create the folder " + path.string());
    }
    if (!workspace.exact)
        return true;
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd)
        throw SystemError(errno, "open the folder " + path.string());
    try {
        finish_folder(fd.get(), path, workspace);
    } catch (...) {
        ::rmdir(path.c_str());
        throw;
    }
    return true;
}

namespace {

// From the root down. Where only its owner can pass, what is below is reached by nobody else: the
// world's right to write there is none. An ACL that lets somebody pass shows in the group's bits.
void look_through(const fs::path& path) {
    bool closed = false;
    fs::path folder;
    for (const fs::path& part : path) {
        folder /= part;
        struct stat facts {};
        if (closed || ::stat(folder.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode))
            return;  // who cannot look at it cannot write there
        if ((facts.st_mode & S_IWOTH) != 0 && (facts.st_mode & S_ISVTX) == 0)
            refuse("everybody may write to the folder " + folder.string() + " (mode " +
                       mode_text(facts.st_mode) + "), and replace what is below it",
                   "chmod +t " + folder.string() + ", or chmod o-w, or name a folder elsewhere; " +
                       "where nobody else uses this machine, workspace.open_parents: true");
        closed = (facts.st_mode & (S_IXGRP | S_IXOTH)) == 0 &&
                 (facts.st_uid == ::geteuid() || facts.st_uid == 0);
    }
}

}  // namespace

void refuse_open_parents(const fs::path& path, const Workspace& workspace) {
    if (workspace.open_parents)
        return;
    std::error_code error;
    const fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
    if (!error)
        look_through(whole.parent_path());
}

}  // namespace autolaunch
