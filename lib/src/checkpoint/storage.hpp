#pragma once
#include <autolaunch/export.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace autolaunch {

/// An open file. Threads: one. Blocks: every call, as long as the storage does.
class StorageFile {
public:
    virtual ~StorageFile() = default;

    virtual void write_at(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
    /// Fills `bytes`; returns how many there were before the end of the file.
    virtual std::size_t read_at(std::uint64_t offset, std::span<std::byte> bytes) = 0;
    virtual std::uint64_t size() = 0;
    /// Returns when what was written survives a crash. The file's name need not: see Storage::sync_directory.
    virtual void sync() = 0;
};

/// Where checkpoints are kept, with the promises that the commit protocol needs: a rename is atomic, and what was
/// synced survives a crash. Errors are Error, with the path. Threads: any.
class Storage {
public:
    virtual ~Storage() = default;

    /// For writing; an existing file is emptied.
    virtual std::unique_ptr<StorageFile> create(const std::filesystem::path& path) = 0;
    /// For reading, from the storage anew (on NFS an open sees what others closed).
    virtual std::unique_ptr<StorageFile> open(const std::filesystem::path& path) = 0;
    /// With its parents, durably. Nothing happens when it exists.
    virtual void create_directories(const std::filesystem::path& path) = 0;
    /// Names in a directory, sorted; empty when there is no such directory.
    virtual std::vector<std::string> list(const std::filesystem::path& path) = 0;
    /// Replaces a file; a directory must not exist at `to`. Durable after sync_directory of the parent.
    virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
    /// A file, a link, or a directory with all that is in it; nothing happens when it is absent.
    virtual void remove_all(const std::filesystem::path& path) = 0;
    /// Makes the names in a directory durable.
    virtual void sync_directory(const std::filesystem::path& path) = 0;
    /// A symbolic link at `path`, put there in one step.
    virtual void replace_link(const std::filesystem::path& path, const std::string& target) = 0;
};

/// Files and directories of this machine's file systems.
std::unique_ptr<Storage> make_posix_storage();

/// The whole content of a file of at most `limit_bytes`; Error{corrupt} when it is longer.
std::string read_whole(Storage& storage, const std::filesystem::path& path, std::uint64_t limit_bytes);
/// Written and synced; the name is not.
void write_whole(Storage& storage, const std::filesystem::path& path, const std::string& content);

}  // namespace autolaunch
