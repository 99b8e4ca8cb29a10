#include "checkpoint/storage/posix_file.hpp"

#include "base/file_io.hpp"
#include "base/room_on_disk.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

// What has the name is neither followed nor written to: it may be a link that somebody prepared, or
// have other names.
void clear_name(const fs::path& path) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT)
        throw SystemError(errno, "replace " + path.string());
}

// A full disk, a quota and ulimit -f come with what to do, whichever call meets them.
[[noreturn]] void fail(int error, const std::string& doing) {
    throw SystemError(error, doing,
                      is_want_of_room(error)
                          ? "make room there, keep fewer checkpoints, or save to another directory"
                          : "");
}

}  // namespace

PosixFile::PosixFile(UniqueFd fd, fs::path path, bool direct, bool uring)
    : fd_(std::move(fd)), path_(std::move(path)), direct_(direct), uring_(uring) {}

std::unique_ptr<PosixFile> PosixFile::open_with(const fs::path& path, int flags,
                                                const LargeFileOptions& options) {
    const bool creates = (flags & O_CREAT) != 0;
    const mode_t mode = options.made.file();
    const auto opened = [&](UniqueFd fd, bool direct) {
        if (creates)
            finish_file(fd.get(), path, mode, options.made);
        return std::unique_ptr<PosixFile>(
            new PosixFile(std::move(fd), path, direct, options.uring));
    };
    if (creates)
        clear_name(path);
    if (options.direct) {
        UniqueFd fd(::open(path.c_str(), flags | O_DIRECT | O_CLOEXEC, mode));
        if (fd)
            return opened(std::move(fd), true);
        // EINVAL is the refusal of O_DIRECT, which comes after the file was made; every other
        // reason shows again below.
        if (creates)
            clear_name(path);
    }
    return opened(open_file(path, flags, mode), false);
}

std::unique_ptr<StorageFile> PosixFile::create(const fs::path& path,
                                               const LargeFileOptions& options) {
    return open_with(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, options);
}

std::unique_ptr<StorageFile> PosixFile::open(const fs::path& path,
                                             const LargeFileOptions& options) {
    // Not blocking: a FIFO in the place of a file must not hang the reader; size() then refuses it.
    return open_with(path, O_RDONLY | O_NONBLOCK, options);
}

void PosixFile::stop_being_direct() {
    const int flags = ::fcntl(fd_.get(), F_GETFL);
    if (flags < 0 || ::fcntl(fd_.get(), F_SETFL, flags & ~O_DIRECT) != 0)
        throw SystemError(errno, "turn off direct input and output of " + path_.string());
    direct_ = false;
}

void PosixFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
    if (direct_)
        stop_being_direct();  // any address, any length
    while (!bytes.empty()) {
        const ssize_t written =
            ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            fail(errno, "write " + path_.string());
        bytes = bytes.subspan(static_cast<std::size_t>(written));
        offset += static_cast<std::uint64_t>(written);
    }
}

std::size_t PosixFile::read_at(std::uint64_t offset, std::span<std::byte> bytes) {
    if (direct_)
        stop_being_direct();
    std::size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t got = ::pread(fd_.get(), bytes.data() + done, bytes.size() - done,
                                    static_cast<off_t>(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            throw SystemError(errno, "read " + path_.string());
        if (got == 0)
            break;
        done += static_cast<std::size_t>(got);
    }
    return done;
}

std::uint64_t PosixFile::size() {
    struct stat status = {};
    if (::fstat(fd_.get(), &status) != 0)
        throw SystemError(errno, "stat " + path_.string());
    if (!S_ISREG(status.st_mode))
        throw Error(ErrorCode::corrupt, path_.string() + " is not a regular file");
    return static_cast<std::uint64_t>(status.st_size);
}

void PosixFile::sync() {
    if (::fdatasync(fd_.get()) != 0)
        fail(errno, "fdatasync " + path_.string());
}

void PosixFile::reserve(std::uint64_t bytes) {
    if (bytes == 0)
        return;
    // The file has its length from the start: writes that lengthen a file go one after the other. A
    // full disk shows now.
    if (::fallocate(fd_.get(), 0, 0, static_cast<off_t>(bytes)) == 0)
        return;
    if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINTR)
        return;  // it would only have been faster
    fail(errno, "reserve " + std::to_string(bytes) + " bytes for " + path_.string());
}

void PosixFile::truncate(std::uint64_t bytes) {
    if (::ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0)
        fail(errno, "give " + path_.string() + " its length");
}

void PosixFile::start_write(std::uint64_t offset, std::span<const std::byte> bytes,
                            std::size_t tag) {
    start({fd_.get(), true, offset, const_cast<std::byte*>(bytes.data()), bytes.size(), tag});
}

void PosixFile::start_read(std::uint64_t offset, std::span<std::byte> bytes, std::size_t tag) {
    start({fd_.get(), false, offset, bytes.data(), bytes.size(), tag});
}

void PosixFile::start(const IoRequest& request) {
    if (!queue_ && uring_)
        queue_ = make_uring_queue(kBlockDepth);
    if (!queue_)
        queue_ = make_thread_queue(kBlockDepth);
    if (transfers_.size() <= request.tag)
        transfers_.resize(request.tag + 1);
    transfers_[request.tag] = {request, 0};
    queue_->start(request);
}

std::string PosixFile::doing(const Transfer& transfer) const {
    return (transfer.request.write ? "write " : "read ") + path_.string() + " at byte " +
           std::to_string(transfer.request.offset + transfer.done);
}

// What is left of a transfer after its last request; false when it is over.
bool PosixFile::continues(Transfer& transfer, std::int64_t moved) {
    IoRequest rest = transfer.request;
    if (moved == -EINVAL && direct_) {
        stop_being_direct();  // some file systems take the flag at open and refuse the transfer
    } else if (moved < 0 && moved != -EAGAIN && moved != -EINTR) {
        fail(static_cast<int>(-moved), doing(transfer));
    } else if (moved >= 0) {
        transfer.done += static_cast<std::size_t>(moved);
        if (moved == 0 && rest.write)
            throw SystemError(EIO, doing(transfer));
        if (moved == 0 || transfer.done == rest.bytes)
            return false;  // the end of the file, or all of it
        if (direct_ && transfer.done % kBlockAlignment != 0) {
            if (!rest.write)
                return false;  // direct reads stop within a page at the end of the file only
            stop_being_direct();
        }
    }
    rest.offset += transfer.done;
    rest.memory += transfer.done;
    rest.bytes -= transfer.done;
    queue_->start(rest);
    return true;
}

StorageFile::Finished PosixFile::finish_one() {
    for (;;) {
        const IoResult result = queue_->wait();
        Transfer& transfer = transfers_.at(result.tag);
        if (!continues(transfer, result.moved))
            return {result.tag, transfer.done};
    }
}

}  // namespace autolaunch
