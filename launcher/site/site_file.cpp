#include "site/site_file.hpp"

#include "base/read_at_most.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "exit_codes/exit_error.hpp"
#include "spec/yaml_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostSiteBytes = std::size_t{1} << 20;

[[noreturn]] void refuse_site(const std::string& what, const std::string& hint) {
    throw ExitError(exit_code::kBadSite, ErrorCode::invalid_argument,
                    "the administrator's file does not count: " + what, hint);
}

const char* kind_of(mode_t mode) {
    if (S_ISLNK(mode))
        return "a link";
    if (S_ISDIR(mode))
        return "a folder";
    return S_ISREG(mode) ? "a file" : "a pipe, a socket or a device";
}

std::string octal(mode_t mode) {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode & 07777U));
    return text.data();
}

// Empty: only root can have made it what it is.
std::string doubt_about(const struct stat& status, const std::string& path, bool folder) {
    if (folder ? !S_ISDIR(status.st_mode) : !S_ISREG(status.st_mode))
        return path + " is " + kind_of(status.st_mode) + ", not " +
               (folder ? "a folder" : "a file") +
               (S_ISLNK(status.st_mode) ? ": whoever owns what it points to could write it" : "");
    if (status.st_uid != 0)
        return path + " belongs to user " + std::to_string(status.st_uid) + ", not to root";
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return path + " may be written by others than root (mode " + octal(status.st_mode) + ")";
    return {};
}

std::string remedy_for(const std::string& path) {
    return "as root: chown root:root " + path + " && chmod go-w " + path;
}

struct SiteDoubt {
    std::string what, hint;  ///< both empty: none
    bool absent = false;
    bool far_above = false;  ///< of a folder above the file's own
};

struct WalkedPath {
    UniqueFd file;
    SiteDoubt doubt;
};

// From / down, each name in the folder that was looked at before it.
WalkedPath walk_to(const std::string& path) {
    WalkedPath walked;
    UniqueFd at(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    std::string here = "/";
    auto names = split(path, '/');
    std::erase_if(names, [](const std::string& name) { return name.empty(); });
    int error = errno;
    for (std::size_t i = 0; at; ++i) {
        struct stat status {};
        const bool folder = i < names.size();
        if (::fstat(at.get(), &status) != 0) {
            error = errno;
            break;
        }
        if (std::string doubt = doubt_about(status, here, folder); !doubt.empty()) {
            walked.doubt = {std::move(doubt), S_ISLNK(status.st_mode)
                                                  ? "as root: put the file itself at " + path
                                                  : remedy_for(here)};
            walked.doubt.far_above = i + 1 < names.size();
            return walked;
        }
        if (!folder) {
            // Not by its name again: another file could be there by now.
            walked.file.reset(::open(("/proc/self/fd/" + std::to_string(at.get())).c_str(),
                                     O_RDONLY | O_CLOEXEC | O_NONBLOCK));
            error = errno;
            if (walked.file)
                return walked;
            break;
        }
        here = (here == "/" ? here : here + '/') + names[i];
        const int next = ::openat(at.get(), names[i].c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
        error = errno;
        at.reset(next);
    }
    walked.doubt.absent = error == ENOENT;
    walked.doubt.what = here + " cannot be read: " + std::strerror(error);
    walked.doubt.hint = "as root: chmod a+rX " + here + ", for every user's jobs go by it";
    return walked;
}

std::string read_all(int fd) {
    std::string text;
    std::array<char, 4096> buffer;
    while (text.size() <= kMostSiteBytes) {
        const ssize_t got = ::read(fd, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            refuse_site(std::string(kSiteFile) + " cannot be read: " + std::strerror(errno), "");
        if (got == 0)
            return text;
        text.append(buffer.data(), static_cast<std::size_t>(got));
    }
    refuse_site(std::string(kSiteFile) + " has more than 1 MiB", "");
}

[[noreturn]] void refuse_wrong_site(const std::vector<SpecError>& errors) {
    constexpr std::size_t kMostTold = 20;
    std::vector<std::string> lines;
    for (std::size_t i = 1; i < errors.size() && i < kMostTold; ++i)
        lines.push_back(to_string(errors[i]));
    if (errors.size() > kMostTold)
        lines.push_back("and " + std::to_string(errors.size() - kMostTold) + " more");
    throw ExitError(exit_code::kBadSite, ErrorCode::invalid_argument,
                    "the administrator's file is wrong: " + to_string(errors.front()),
                    join(lines, "\n"));
}

SiteSettings parse_site(const std::string& text, const std::string& path) {
    std::vector<SpecError> errors;
    const Value root = read_yaml(text, path, errors);
    if (errors.empty() && !root.is_mapping() && !root.is_null())
        errors.push_back(
            error_at(root.at, "", "a mapping of sections is expected; found " + describe(root)));
    SiteSettings settings;
    if (errors.empty())
        settings = read_site_settings(root, SiteSource::administrator, errors);
    if (!errors.empty())
        refuse_wrong_site(errors);
    return settings;
}

// In a container / may be its user's, and there is no such file: nobody is kept from working there.
// A file's own folder that is there, and a link to nowhere, are somebody's word.
bool is_nothing_there(const std::string& path) {
    const std::string folder = path.substr(0, path.rfind('/'));
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0 || errno != ENOENT)
        return false;
    return ::lstat(folder.c_str(), &status) != 0 || !S_ISLNK(status.st_mode);
}

}  // namespace

std::optional<SiteSettings> read_site_file() {
    const WalkedPath walked = walk_to(kSiteFile);
    if (walked.doubt.absent || (walked.doubt.far_above && is_nothing_there(kSiteFile)))
        return std::nullopt;
    if (!walked.file)
        refuse_site(walked.doubt.what, walked.doubt.hint);
    return parse_site(read_all(walked.file.get()), kSiteFile);
}

SiteSettings read_site_draft(const std::string& path) {
    return parse_site(read_regular_file(path, kMostSiteBytes), path);
}

std::string why_not_roots_own(const std::string& path) { return walk_to(path).doubt.what; }

}  // namespace autolaunch::launcher
