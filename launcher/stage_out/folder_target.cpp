#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/hash.hpp"
#include "base/network_file_system.hpp"
#include "exit_codes/exit_codes.hpp"
#include "stage_cache/beneath.hpp"
#include "stage_out/out_target.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

/// What a user can do about a name that this file system does not take.
std::string remedy_of_name(int error) {
    switch (error) {
        case ENOTDIR:
        case EISDIR:
        case EEXIST:
            return "what is there is no folder: move it away, or name another folder in `to`";
        case ENAMETOOLONG:
            return "a name there may have 255 bytes, and a path 4095";
        case EINVAL:
        case EILSEQ:
            return "its file system takes no such name";
        case EFBIG:
            return "its file system takes no file of that size";
        case ENOENT:
            return "somebody removes folders there";
        default:
            return {};
    }
}

/// Of the file system, which other files would find the same: TargetError; else of one name.
[[noreturn]] void target_fails(int error, const std::string& doing) {
    const SystemError said(error, doing);
    if (is_lost_server(error) || error == EIO || error == ENODEV)
        throw TargetError(exit_code::kUnavailable, said.what(), "its file system has to answer");
    switch (error) {
        case ENOSPC:
        case EDQUOT:
            throw TargetError(exit_code::kCannotCreate, said.what(), "make room there");
        case EROFS:
            throw TargetError(exit_code::kCannotCreate, said.what(),
                              "it has to be writable on the nodes");
        case EACCES:
        case EPERM:
            throw TargetError(exit_code::kNotPermitted, said.what(),
                              "it has to let this user write");
        default:
            throw FileError(exit_code::kCannotCreate, said.what(), remedy_of_name(error));
    }
}

[[noreturn]] void target_fails(const SystemError& error, const std::string& doing) {
    target_fails(error.error_number(), doing);
}

class FolderTarget final : public OutTarget {
public:
    FolderTarget(std::string folder, OutTerms terms)
        : folder_(std::move(folder)), terms_(std::move(terms)) {
        need_folder(folder_);
    }

    std::string shown(const std::string& path) const override { return folder_ + '/' + path; }

    std::optional<There> look(const std::string& path) override {
        struct stat facts {};
        ++terms_.counters->signs;
        if (::lstat(shown(path).c_str(), &facts) != 0) {
            if (errno == ENOENT)
                return std::nullopt;
            target_fails(errno, "look at " + shown(path));
        }
        There there{.is_file = S_ISREG(facts.st_mode),
                    .bytes = facts.st_size,
                    .mtime_ns = nanoseconds_of(facts.st_mtim)};
        if (S_ISLNK(facts.st_mode)) {
            std::error_code none;
            there.link = fs::read_symlink(shown(path), none).string();
        }
        return there;
    }

    Digest128 digest(const std::string& path) override {
        const UniqueFd file(::open(shown(path).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
        if (!file)
            target_fails(errno, "read " + shown(path));
        return digest_of(file.get(), shown(path));
    }

    Put put(const OutFile& file, int fd, bool replaces, Digest128& digest) override {
        need_folder(fs::path(shown(file.path)).parent_path().string());
        const std::string part = part_of(file.path);
        ::unlink(part.c_str());  // of an attempt that was killed
        try {
            digest = write_part(file, fd, part);
            require_unchanged(file, fd);
            return publish(part, file.path, replaces);
        } catch (...) {
            ::unlink(part.c_str());
            throw;
        }
    }

    void clear(const std::string& path) override { ::unlink(part_of(path).c_str()); }

    bool keeps_links() const override { return true; }

    Put put_link(const OutFile& file, bool replaces) override {
        need_folder(fs::path(shown(file.path)).parent_path().string());
        const std::string part = part_of(file.path);
        ::unlink(part.c_str());
        if (::symlink(file.target.c_str(), part.c_str()) != 0)
            target_fails(errno, "make the link " + part);
        return publish(part, file.path, replaces);
    }

    void make_folder(const OutFile& folder) override {
        need_folder(shown(folder.path), folder.mode);
    }

    void finish() override {
        const std::lock_guard lock(mutex_);
        for (const std::string& folder : folders_) {
            try {
                sync_directory(folder);
            } catch (const SystemError& error) {
                target_fails(error, "sync " + folder);
            }
            ++terms_.counters->signs;
        }
    }

private:
    // Of one length, whatever the file's name: a name may be as long as names can be.
    std::string part_of(const std::string& path) const {
        const std::string seed = terms_.mark + '/' + path;
        const fs::path parent = fs::path(shown(path)).parent_path();
        return parent / (".autolaunch-" + hex128(hash128(seed.data(), seed.size())) + ".part");
    }

    void need_folder(const std::string& folder, mode_t mode = 0777) {
        {
            const std::lock_guard lock(mutex_);
            if (folders_.contains(folder))
                return;
        }
        if (folder != folder_ && folder.size() > folder_.size())
            need_folder(fs::path(folder).parent_path().string());
        try {
            folder == folder_ ? make_folders(folder) : make_one(folder, mode);
        } catch (const SystemError& error) {
            target_fails(error, "make the folder " + folder);
        }
        const std::lock_guard lock(mutex_);
        folders_.insert(folder);
        ++terms_.counters->signs;
    }

    // Open to nobody that the one here is closed to, and to us, who fill it.
    static void make_one(const std::string& folder, mode_t mode) {
        if (::mkdir(folder.c_str(), mode | S_IRWXU) != 0 && (errno != EEXIST || !is_folder(folder)))
            throw SystemError(errno == EEXIST ? ENOTDIR : errno, "make the folder " + folder);
    }

    Digest128 write_part(const OutFile& file, int fd, const std::string& part) {
        const UniqueFd into(
            ::open(part.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (!into)
            target_fails(errno, "make " + part);
        const Digest128 digest =
            digest_pieces(fd, "read " + file.path, [&](std::string_view piece) {
                write_piece(into.get(), piece, file.path);
                terms_.counters->bytes += static_cast<std::int64_t>(piece.size());
                terms_.throttle->take(static_cast<std::int64_t>(piece.size()));
            });
        dress(into.get(), file);
        ++terms_.counters->signs;
        ::posix_fadvise(into.get(), 0, 0, POSIX_FADV_DONTNEED);  // what is compared has been there
        if (::lseek(into.get(), 0, SEEK_SET) != 0 || digest_of(into.get(), part) != digest)
            throw TargetError(exit_code::kUnavailable,
                              shown(file.path) + " has other bytes there than were written",
                              "its file system lost some, or its disk is damaged");
        return digest;
    }

    void write_piece(int into, std::string_view piece, const std::string& path) {
        try {
            write_all(into, piece, shown(path));
        } catch (const SystemError& error) {
            target_fails(error, "write " + shown(path));
        }
    }

    // A quota of NFS may show at the end alone.
    void dress(int into, const OutFile& file) const {
        const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                                   timespec_of(file.mtime_ns)};
        ::fchmod(into, file.mode);  // a file system without modes keeps its own
        ::futimens(into, times);    // and one without times
        if (::fsync(into) != 0)
            target_fails(errno, "write " + shown(file.path));
    }

    Digest128 digest_of(int fd, const std::string& what) const {
        try {
            return digest_pieces(fd, "read " + what,
                                 [this](std::string_view) { ++terms_.counters->signs; });
        } catch (const SystemError& error) {
            target_fails(error, "read " + what);
        }
    }

    // link(2) does not take a name that somebody has, on NFS too.
    Put publish(const std::string& part, const std::string& path, bool replaces) const {
        const std::string to = shown(path);
        if (!replaces) {
            if (::link(part.c_str(), to.c_str()) == 0) {
                ::unlink(part.c_str());
                return Put::done;
            }
            if (errno == EEXIST)
                return ::unlink(part.c_str()), Put::exists;
            // Where there are no second names; EPERM is FAT's and some of FUSE's.
            if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS && errno != EMLINK)
                target_fails(errno, "name " + to);
            if (::renameat2(AT_FDCWD, part.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0)
                return Put::done;
            if (errno == EEXIST)
                return ::unlink(part.c_str()), Put::exists;
            struct stat facts {};
            if (::lstat(to.c_str(), &facts) == 0)
                return ::unlink(part.c_str()), Put::exists;
        }
        if (::rename(part.c_str(), to.c_str()) != 0)
            target_fails(errno, "name " + to);
        return Put::done;
    }

    const std::string folder_;
    const OutTerms terms_;
    std::mutex mutex_;  ///< for:
    std::set<std::string> folders_;
};

}  // namespace

Digest128 digest_pieces(int fd, const std::string& doing,
                        const std::function<void(std::string_view piece)>& each) {
    RunningHash hash;
    std::vector<char> piece(std::size_t{1} << 20);
    for (;;) {
        const ssize_t got = ::read(fd, piece.data(), piece.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            throw SystemError(errno, doing);
        if (got == 0)
            return hash.take();
        const std::string_view come(piece.data(), static_cast<std::size_t>(got));
        hash.update(come.data(), come.size());
        each(come);
    }
}

void require_unchanged(const OutFile& file, int fd) {
    struct stat facts {};
    if (::fstat(fd, &facts) != 0 || facts.st_size != file.bytes ||
        nanoseconds_of(facts.st_mtim) != file.mtime_ns)
        throw FileError(exit_code::kNoInput, file.path + " was changed while it was copied",
                        "somebody still writes to it; autolaunch stage-out copies it anew");
}

std::unique_ptr<OutTarget> make_folder_target(const std::string& folder, const OutTerms& terms) {
    return std::make_unique<FolderTarget>(folder, terms);
}

}  // namespace autolaunch::launcher
