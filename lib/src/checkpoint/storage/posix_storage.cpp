#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/owned_folder.hpp"
#include "checkpoint/storage/posix_file.hpp"
#include "checkpoint/storage/stale.hpp"
#include "checkpoint/storage/storage.hpp"

#include <autolaunch/error.hpp>

#include <unistd.h>

#include <cerrno>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

void check(const std::error_code& error, const std::string& doing) {
    if (error)
        throw SystemError(error.value(), doing);
}

class PosixStorage final : public Storage {
public:
    explicit PosixStorage(const LargeFileOptions& options)
        : options_(options),
          made_(workspace_of_environment()),
          small_{.direct = false, .uring = false, .made = made_} {
        options_.made = made_;
    }

    std::unique_ptr<StorageFile> create(const fs::path& path) override {
        return PosixFile::create(path, small_);
    }
    std::unique_ptr<StorageFile> open(const fs::path& path) override {
        return PosixFile::open(path, small_);
    }
    std::unique_ptr<StorageFile> create_large(const fs::path& path) override {
        return PosixFile::create(path, options_);
    }
    std::unique_ptr<StorageFile> open_large(const fs::path& path) override {
        return PosixFile::open(path, options_);
    }

    void create_directories(const fs::path& path) override {
        refuse_open_parents(path / kInIt, made_);
        make_missing(path);
    }

    std::vector<std::string> list(const fs::path& path) override {
        std::vector<std::string> names;
        std::error_code error;
        for (const fs::path& entry : list_folder(path, error))
            names.push_back(entry.filename().string());
        // Behind a link that leads nowhere is what nobody can read, and not nothing.
        std::error_code no_link;
        if (error != std::errc::no_such_file_or_directory || fs::is_symlink(path, no_link))
            check(error, "list " + path.string());
        return names;
    }

    void rename(const fs::path& from, const fs::path& to) override {
        if (::rename(from.c_str(), to.c_str()) != 0)
            throw SystemError(errno, "rename " + from.string() + " to " + to.string());
    }

    void remove_all(const fs::path& path) override {
        std::error_code error;
        fs::remove_all(path, error);
        if (error == std::errc::device_or_resource_busy || error == std::errc::directory_not_empty)
            remove_around_open_files(path);
        check(error, "remove " + path.string());
    }

    void sync_directory(const fs::path& path) override { autolaunch::sync_directory(path); }

    void link_file(const fs::path& from, const fs::path& to) override {
        if (::link(from.c_str(), to.c_str()) != 0)
            throw SystemError(errno, "link " + from.string() + " to " + to.string());
    }

    void replace_link(const fs::path& path, const std::string& target) override {
        fs::path temporary = path;
        temporary += ".tmp";
        remove_all(temporary);
        if (::symlink(target.c_str(), temporary.c_str()) != 0)
            throw SystemError(errno, "create link " + temporary.string());
        rename(temporary, path);
    }

private:
    void make_missing(const fs::path& path) const {
        std::error_code error;
        if (fs::is_directory(path, error)) {
            refuse_strangers_link(path);
            return refuse_strangers_folder(path.empty() ? "." : path);
        }
        const fs::path parent = path.parent_path();
        if (!parent.empty())
            make_missing(parent);
        make_one_folder(path, made_);
        autolaunch::sync_directory(parent);
    }

    // NFS keeps a deleted file that this machine has open as ".nfs…", and its directory with it:
    // the others can go.
    static void remove_around_open_files(const fs::path& path) {
        std::error_code ignored;
        for (const fs::path& entry : list_folder(path, ignored))
            if (!entry.filename().string().starts_with(kOpenOnNfs))
                fs::remove_all(entry, ignored);
    }

    static constexpr char kInIt[] = "step";  // whatever is made there

    LargeFileOptions options_;
    Workspace made_;
    LargeFileOptions small_;
};

}  // namespace

void Storage::link_file(const fs::path& from, const fs::path&) {
    throw Error(ErrorCode::unsupported,
                "cannot link " + from.string() + ": this storage has no links");
}

void StorageFile::start_write(std::uint64_t offset, std::span<const std::byte> bytes,
                              std::size_t tag) {
    write_at(offset, bytes);
    finished_.push_back({tag, bytes.size()});
}

void StorageFile::start_read(std::uint64_t offset, std::span<std::byte> bytes, std::size_t tag) {
    const std::size_t got = read_at(offset, bytes);
    finished_.push_back({tag, got});
}

StorageFile::Finished StorageFile::finish_one() {
    const Finished first = finished_.at(0);
    finished_.pop_front();
    return first;
}

std::unique_ptr<Storage> make_posix_storage(const LargeFileOptions& options) {
    return std::make_unique<PosixStorage>(options);
}

std::string read_whole(Storage& storage, const fs::path& path, std::uint64_t limit_bytes) {
    return again_if_stale([&] {
        const auto file = storage.open(path);
        const std::uint64_t bytes = file->size();
        if (bytes > limit_bytes)
            throw Error(ErrorCode::corrupt, path.string() + " is too long to be what it should be");
        std::string content(bytes, '\0');
        const std::size_t got = file->read_at(0, std::as_writable_bytes(std::span(content)));
        content.resize(got);
        return content;
    });
}

void write_whole(Storage& storage, const fs::path& path, const std::string& content) {
    const auto file = storage.create(path);
    file->write_at(0, std::as_bytes(std::span(content)));
    file->sync();
}

}  // namespace autolaunch
