#include "stage_cache/tree_walk.hpp"

#include "base/network_file_system.hpp"
#include "exit_codes/exit_error.hpp"
#include "stage_cache/beneath.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr int kDeepest = 200;  // folders in folders, each of which is held open

[[noreturn]] void cannot_read(const std::string& path, int error) {
    if (is_lost_server(error))
        throw ExitError(exit_code::kUnavailable, ErrorCode::system,
                        "cannot read " + path + ": " + std::strerror(error),
                        "the file system that it is on has to answer");
    throw ExitError(
        exit_code::kNoInput, ErrorCode::system, "cannot read " + path + ": " + std::strerror(error),
        error == EACCES || error == EPERM ? "the job's user must be able to read all of it"
                                          : "storage.stage_in has to name what is there");
}

[[noreturn]] void cannot_stage(const std::string& what, std::string hint) {
    throw ExitError(exit_code::kBadData, ErrorCode::invalid_argument, what, std::move(hint));
}

std::string target_of(int folder, const char* name, const std::string& shown) {
    std::string target(4096, '\0');
    const ssize_t got = ::readlinkat(folder, name, target.data(), target.size());
    if (got < 0)
        cannot_read(shown, errno);
    target.resize(static_cast<std::size_t>(got));
    return target;
}

class Walk {
public:
    Walk(const SourceTree& source, std::vector<TreeEntry>& entries,
         std::atomic<std::int64_t>* signs)
        : source_(source), entries_(entries), signs_(signs) {}

    void look_into(int parent, const std::string& name, const std::string& below, int depth) {
        UniqueFd folder(::openat(parent, name.c_str(), kOpenFolder));
        if (!folder)
            cannot_read(shown(below), errno);
        if (depth > kDeepest)
            cannot_stage(shown(below) + " is more than 200 folders deep",
                         "stage a tree that is less deep");
        DIR* const opened = ::fdopendir(folder.get());
        if (opened == nullptr)
            cannot_read(shown(below), errno);
        const int fd = folder.release();  // closedir's
        const std::unique_ptr<DIR, int (*)(DIR*)> listing(opened, ::closedir);
        errno = 0;
        while (const dirent* found = ::readdir(listing.get())) {
            const std::string name_here = found->d_name;
            if (name_here != "." && name_here != "..")
                add(fd, name_here, below.empty() ? name_here : below + '/' + name_here, depth);
            errno = 0;
        }
        if (errno != 0)
            cannot_read(shown(below), errno);
    }

private:
    std::string shown(const std::string& below) const {
        return below.empty() ? source_.shown : source_.shown + '/' + below;
    }

    void add(int folder, const std::string& name, const std::string& path, int depth) {
        struct stat facts {};
        if (::fstatat(folder, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0)
            cannot_read(shown(path), errno);
        if (signs_ != nullptr)
            ++*signs_;
        TreeEntry entry{.path = path};
        entry.mtime_ns = nanoseconds_of(facts.st_mtim);
        entry.ctime_ns = nanoseconds_of(facts.st_ctim);
        if (S_ISREG(facts.st_mode)) {
            entry.mode = kept_mode(facts.st_mode);
            entry.bytes = facts.st_size;
        } else if (S_ISDIR(facts.st_mode)) {
            entry.kind = TreeEntry::Kind::folder;
        } else if (S_ISLNK(facts.st_mode)) {
            entry.kind = TreeEntry::Kind::link;
            entry.target = target_of(folder, name.c_str(), shown(path));
            if (!leads_within(path, entry.target))
                cannot_stage(
                    "the link " + shown(path) + " leads out of what is staged, to " + entry.target,
                    "stage the folder that holds both, or put the file itself there");
        } else {
            cannot_stage(shown(path) + " is neither a file nor a folder nor a link",
                         "stage a folder without devices, sockets and pipes");
        }
        const bool goes_on = entry.kind == TreeEntry::Kind::folder;
        entries_.push_back(std::move(entry));
        if (goes_on)
            look_into(folder, name, path, depth + 1);
    }

    const SourceTree& source_;
    std::vector<TreeEntry>& entries_;
    std::atomic<std::int64_t>* signs_;
};

void look_at_file(SourceTree& source, const fs::path& asked, const fs::path& real) {
    source.folder.reset(::open(real.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    source.only = real.filename();
    struct stat facts {};
    if (!source.folder ||
        ::fstatat(source.folder.get(), source.only.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0)
        cannot_read(source.shown, errno);
    if (!S_ISREG(facts.st_mode))
        cannot_stage(source.shown + " is neither a file nor a folder",
                     "storage.stage_in takes files and folders");
    source.tree.is_file = true;
    source.folder_path = real.parent_path();
    source.tree.entries.push_back({.path = asked.filename(),
                                   .mode = kept_mode(facts.st_mode),
                                   .bytes = facts.st_size,
                                   .mtime_ns = nanoseconds_of(facts.st_mtim),
                                   .ctime_ns = nanoseconds_of(facts.st_ctim)});
}

}  // namespace

UniqueFd SourceTree::open(const TreeEntry& entry) const {
    UniqueFd file = open_beneath(folder.get(), only.empty() ? entry.path : only, O_RDONLY);
    if (!file)
        cannot_read(path_of(entry), errno);
    return file;
}

std::string SourceTree::path_of(const TreeEntry& entry) const {
    return folder_path + '/' + (only.empty() ? entry.path : only);
}

SourceTree walk_source(const fs::path& path, std::atomic<std::int64_t>* signs) {
    SourceTree source;
    const fs::path asked = path.has_filename() ? path : path.parent_path();
    source.shown = asked;
    std::error_code error;
    const fs::path real = fs::canonical(asked, error);
    if (error)
        cannot_read(source.shown, error.value());
    source.folder.reset(::open(real.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!source.folder && errno == ENOTDIR) {
        look_at_file(source, asked, real);
        return source;
    }
    if (!source.folder)
        cannot_read(source.shown, errno);
    source.folder_path = real;
    Walk(source, source.tree.entries, signs).look_into(source.folder.get(), ".", "", 0);
    std::sort(source.tree.entries.begin(), source.tree.entries.end(),
              [](const TreeEntry& a, const TreeEntry& b) { return a.path < b.path; });
    return source;
}

}  // namespace autolaunch::launcher
