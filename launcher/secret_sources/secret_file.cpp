#include "secret_sources/secret_file.hpp"

#include "base/unique_fd.hpp"
#include "exit_codes/exit_error.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr mode_t kOthersRead = 07, kMayWrite = 022;
constexpr int kMostLinks = 8;

[[noreturn]] void refuse_secret(int code, const std::string& what, const std::string& why,
                                std::string hint = {}) {
    throw ExitError(code, ErrorCode::invalid_argument, what + ": " + why, std::move(hint));
}

// A name in single quotes for a shell, where it needs them.
std::string quoted(const std::string& path) {
    constexpr std::string_view kPlain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=@";
    if (path.find_first_not_of(kPlain) == std::string::npos)
        return path;
    std::string text = "'";
    for (const char c : path)
        text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + '\'';
}

const char* kind_of(mode_t mode) {
    return S_ISDIR(mode)                    ? "a folder"
           : S_ISFIFO(mode)                 ? "a pipe"
           : S_ISSOCK(mode)                 ? "a socket"
           : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
                                            : "no regular file";
}

[[noreturn]] void refuse_unreadable(const std::string& what, const std::string& path, int error) {
    refuse_secret(exit_code::kNoInput, what,
                  path + " cannot be read: " + std::generic_category().message(error),
                  "it must be there, and readable for you, on every node with ranks that get it");
}

// Where a link leads to that this user or root has made; empty: it is no link. By a descriptor, so
// that nobody can exchange it between the look and the reading.
std::string target_of_link(const std::string& what, const std::string& path) {
    const UniqueFd link(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat facts {};
    if (!link || ::fstat(link.get(), &facts) != 0)
        refuse_unreadable(what, path, errno);
    if (!S_ISLNK(facts.st_mode))
        return {};
    if (facts.st_uid != ::geteuid() && facts.st_uid != 0)
        refuse_secret(exit_code::kNotPermitted, what,
                      fmt::format("{} is a link of another user (uid {})", path, facts.st_uid),
                      "name the file itself");
    std::string target(4096, '\0');
    const ssize_t bytes = ::readlinkat(link.get(), "", target.data(), target.size());
    if (bytes <= 0)
        refuse_unreadable(what, path, bytes < 0 ? errno : ENOENT);
    target.resize(static_cast<std::size_t>(bytes));
    if (!target.starts_with('/'))
        target.insert(0, path.substr(0, path.rfind('/') + 1));
    return target;
}

// O_NONBLOCK: a pipe that nobody writes to is opened, looked at and refused.
UniqueFd open_secret(const std::string& what, const std::string& path) {
    std::string at = path;
    for (int links = 0; links < kMostLinks; ++links) {
        UniqueFd file(
            ::open(at.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
        if (file)
            return file;
        if (errno != ELOOP)
            refuse_unreadable(what, path, errno);
        std::string target = target_of_link(what, at);
        if (!target.empty())
            at = std::move(target);
    }
    refuse_unreadable(what, path, ELOOP);
}

void check_trust(const std::string& what, const std::string& path, const struct stat& facts) {
    if (!S_ISREG(facts.st_mode))
        refuse_secret(exit_code::kNotPermitted, what,
                      fmt::format("{} is {}, and no regular file", path, kind_of(facts.st_mode)),
                      "name a file that holds the secret and nothing else");
    if (facts.st_uid != ::geteuid() && facts.st_uid != 0)
        refuse_secret(exit_code::kNotPermitted, what,
                      fmt::format("{} belongs to another user (uid {})", path, facts.st_uid),
                      "it must be yours or root's: copy it to a file of your own");
    if ((facts.st_mode & (kOthersRead | kMayWrite)) != 0)
        refuse_secret(exit_code::kNotPermitted, what,
                      fmt::format("{} may be {} by {} (mode {:04o})", path,
                                  (facts.st_mode & kMayWrite) != 0 ? "written" : "read",
                                  (facts.st_mode & kOthersRead) != 0 ? "everybody" : "its group",
                                  facts.st_mode & 07777U),
                      "chmod 600 " + quoted(path) + "   (0640 where a group is to read it)");
}

}  // namespace

std::string with_home(const std::string& path,
                      const std::map<std::string, std::string>& environment) {
    const auto home = environment.find("HOME");
    if (!path.starts_with("~/") || home == environment.end() || home->second.empty())
        return path;
    return home->second + path.substr(1);
}

std::string read_secret_of_file(const std::string& what, const std::string& path) {
    const UniqueFd file = open_secret(what, path);
    struct stat facts {};
    if (::fstat(file.get(), &facts) != 0)
        refuse_secret(exit_code::kNoInput, what,
                      path + " cannot be looked at: " + std::generic_category().message(errno));
    check_trust(what, path, facts);
    std::string bytes(kLongestSecret + 1, '\0');
    std::size_t filled = 0;
    while (filled < bytes.size()) {
        const ssize_t got = ::read(file.get(), bytes.data() + filled, bytes.size() - filled);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            refuse_secret(exit_code::kNoInput, what,
                          path + " cannot be read: " + std::generic_category().message(errno));
        if (got == 0)
            break;
        filled += static_cast<std::size_t>(got);
    }
    bytes.resize(filled);
    if (filled > kLongestSecret)
        refuse_secret(exit_code::kBadData, what, path + " has more than 1 MiB",
                      "name a file that holds the secret and nothing else");
    if (bytes.find_first_not_of("\r\n") == std::string::npos)
        refuse_secret(exit_code::kBadData, what, path + " is empty",
                      "write the secret into it, or take the entry out of the spec");
    return bytes;
}

void check_secret_file(const std::string& what, const std::string& path) {
    static_cast<void>(read_secret_of_file(what, path));
}

}  // namespace autolaunch::launcher
