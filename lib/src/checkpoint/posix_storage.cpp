#include "base/file_io.hpp"
#include "checkpoint/storage.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

class PosixFile final : public StorageFile {
public:
    PosixFile(UniqueFd fd, fs::path path) : fd_(std::move(fd)), path_(std::move(path)) {}

    void write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
        while (!bytes.empty()) {
            const ssize_t written = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
            if (written < 0 && errno == EINTR) continue;
            if (written < 0) throw SystemError(errno, "write " + path_.string());
            bytes = bytes.subspan(static_cast<std::size_t>(written));
            offset += static_cast<std::uint64_t>(written);
        }
    }

    std::size_t read_at(std::uint64_t offset, std::span<std::byte> bytes) override {
        std::size_t done = 0;
        while (done < bytes.size()) {
            const ssize_t got =
                ::pread(fd_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) throw SystemError(errno, "read " + path_.string());
            if (got == 0) break;
            done += static_cast<std::size_t>(got);
        }
        return done;
    }

    std::uint64_t size() override {
        struct stat status = {};
        if (::fstat(fd_.get(), &status) != 0) throw SystemError(errno, "stat " + path_.string());
        if (!S_ISREG(status.st_mode)) throw Error(ErrorCode::corrupt, path_.string() + " is not a regular file");
        return static_cast<std::uint64_t>(status.st_size);
    }

    void sync() override {
        if (::fdatasync(fd_.get()) != 0) throw SystemError(errno, "fdatasync " + path_.string());
    }

private:
    UniqueFd fd_;
    fs::path path_;
};

void check(const std::error_code& error, const std::string& doing) {
    if (error) throw SystemError(error.value(), doing);
}

class PosixStorage final : public Storage {
public:
    std::unique_ptr<StorageFile> create(const fs::path& path) override {
        return std::make_unique<PosixFile>(open_file(path, O_WRONLY | O_CREAT | O_TRUNC), path);
    }
    std::unique_ptr<StorageFile> open(const fs::path& path) override {
        // Not blocking: a FIFO in the place of a file must not hang the reader; size() then refuses it.
        return std::make_unique<PosixFile>(open_file(path, O_RDONLY | O_NONBLOCK), path);
    }

    void create_directories(const fs::path& path) override {
        std::error_code error;
        if (fs::is_directory(path, error)) return;
        const fs::path parent = path.parent_path();
        if (!parent.empty()) create_directories(parent);
        fs::create_directory(path, error);
        check(error, "create directory " + path.string());
        autolaunch::sync_directory(parent);
    }

    std::vector<std::string> list(const fs::path& path) override {
        std::vector<std::string> names;
        std::error_code error;
        for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
            names.push_back(entry->path().filename().string());
        if (error && error != std::errc::no_such_file_or_directory) check(error, "list " + path.string());
        std::sort(names.begin(), names.end());
        return names;
    }

    void rename(const fs::path& from, const fs::path& to) override {
        if (::rename(from.c_str(), to.c_str()) != 0)
            throw SystemError(errno, "rename " + from.string() + " to " + to.string());
    }

    void remove_all(const fs::path& path) override {
        std::error_code error;
        fs::remove_all(path, error);
        check(error, "remove " + path.string());
    }

    void sync_directory(const fs::path& path) override { autolaunch::sync_directory(path); }

    void replace_link(const fs::path& path, const std::string& target) override {
        fs::path temporary = path;
        temporary += ".tmp";
        remove_all(temporary);
        if (::symlink(target.c_str(), temporary.c_str()) != 0)
            throw SystemError(errno, "create link " + temporary.string());
        rename(temporary, path);
    }
};

}  // namespace

std::unique_ptr<Storage> make_posix_storage() { return std::make_unique<PosixStorage>(); }

std::string read_whole(Storage& storage, const fs::path& path, std::uint64_t limit_bytes) {
    const auto file = storage.open(path);
    const std::uint64_t bytes = file->size();
    if (bytes > limit_bytes) throw Error(ErrorCode::corrupt, path.string() + " is too long to be what it should be");
    std::string content(bytes, '\0');
    const std::size_t got = file->read_at(0, std::as_writable_bytes(std::span(content)));
    content.resize(got);
    return content;
}

void write_whole(Storage& storage, const fs::path& path, const std::string& content) {
    const auto file = storage.create(path);
    file->write_at(0, std::as_bytes(std::span(content)));
    file->sync();
}

}  // namespace autolaunch
