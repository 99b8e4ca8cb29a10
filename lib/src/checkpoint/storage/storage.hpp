#pragma once
#include "base/workspace.hpp"

#include <autolaunch/export.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace autolaunch {

/// How the names of files begin that were deleted on NFS while somebody had them open. They, and
/// their directory, go when that one closes them.
inline constexpr char kOpenOnNfs[] = ".nfs";

/// Transfers of a file that may be under way at once.
inline constexpr unsigned kBlockDepth = 8;
/// Memory, offsets and lengths of transfers that are started are multiples of this.
inline constexpr std::uint64_t kBlockAlignment = 4096;

/// An open file. Threads: one. Blocks: every call, as long as the storage does.
class AUTOLAUNCH_API StorageFile {
public:
    virtual ~StorageFile() = default;

    virtual void write_at(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
    /// Fills `bytes`; returns how many there were before the end of the file.
    virtual std::size_t read_at(std::uint64_t offset, std::span<std::byte> bytes) = 0;
    virtual std::uint64_t size() = 0;
    /// Returns when what was written survives a crash. The file's name need not: see
    /// Storage::sync_directory.
    virtual void sync() = 0;

    /// Makes room for so many bytes, which the file then has; what they are is not said. A full
    /// disk shows here.
    virtual void reserve(std::uint64_t bytes) = 0;
    virtual void truncate(std::uint64_t bytes) = 0;

    struct Finished {
        std::size_t tag = 0;
        std::size_t bytes = 0;  ///< moved; fewer than asked for only at the end of the file
    };
    /// Start a transfer, which may go on after the call: the memory must stay until finish_one()
    /// has given the tag back, or the file is closed. At most kBlockDepth are under way, each with
    /// a tag of its own below kBlockDepth. Here they are done at once.
    virtual void start_write(std::uint64_t offset, std::span<const std::byte> bytes,
                             std::size_t tag);
    virtual void start_read(std::uint64_t offset, std::span<std::byte> bytes, std::size_t tag);
    /// Waits for one that was started. Throws what it failed with.
    virtual Finished finish_one();

private:
    std::deque<Finished> finished_;
};

/// Where checkpoints are kept, with the promises that the commit protocol needs: a rename is
/// atomic, and what was synced survives a crash. Errors are Error, with the path. Threads: any.
class AUTOLAUNCH_API Storage {
public:
    virtual ~Storage() = default;

    /// For writing; an existing file is emptied.
    virtual std::unique_ptr<StorageFile> create(const std::filesystem::path& path) = 0;
    /// For reading, from the storage anew (on NFS an open sees what others closed).
    virtual std::unique_ptr<StorageFile> open(const std::filesystem::path& path) = 0;
    /// The same for large files that are moved by start_write() and start_read().
    virtual std::unique_ptr<StorageFile> create_large(const std::filesystem::path& path) {
        return create(path);
    }
    virtual std::unique_ptr<StorageFile> open_large(const std::filesystem::path& path) {
        return open(path);
    }
    /// With its parents, durably. Nothing happens when it exists.
    virtual void create_directories(const std::filesystem::path& path) = 0;
    /// Names in a directory, sorted; empty when there is no such directory. What cannot be read,
    /// such as a link that leads nowhere, is an error.
    virtual std::vector<std::string> list(const std::filesystem::path& path) = 0;
    /// Replaces a file; a directory must not exist at `to`. Durable after sync_directory of the
    /// parent.
    virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
    /// A file, a link, or a directory with all that is in it; nothing happens when it is absent.
    virtual void remove_all(const std::filesystem::path& path) = 0;
    /// Makes the names in a directory durable.
    virtual void sync_directory(const std::filesystem::path& path) = 0;
    /// A second name for a file, whose bytes then stay until both are removed. Throws, as where the
    /// file system refuses, and then `to` may be there all the same. Storages that have none of it
    /// need not say so.
    virtual void link_file(const std::filesystem::path& from, const std::filesystem::path& to);
    /// A symbolic link at `path`, put there in one step.
    virtual void replace_link(const std::filesystem::path& path, const std::string& target) = 0;
};

/// How large files of this machine are moved. The defaults are the fast ones; tests turn parts off.
struct LargeFileOptions {
    bool direct = true;   ///< past the page cache (O_DIRECT), where the file system takes it
    bool uring = true;    ///< by io_uring, where the kernel has it; else by threads
    Workspace made = {};  ///< how what is new is made; make_posix_storage() asks the environment
};

/// Files and directories of this machine's file systems.
std::unique_ptr<Storage> make_posix_storage(const LargeFileOptions& options = {});

/// The whole content of a file of at most `limit_bytes`; Error{corrupt} when it is longer.
std::string read_whole(Storage& storage, const std::filesystem::path& path,
                       std::uint64_t limit_bytes);
/// Written and synced; the name is not.
void write_whole(Storage& storage, const std::filesystem::path& path, const std::string& content);

}  // namespace autolaunch
