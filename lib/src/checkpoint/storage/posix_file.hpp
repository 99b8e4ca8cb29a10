#pragma once
#include "base/io_queue.hpp"
#include "base/unique_fd.hpp"
#include "checkpoint/storage/storage.hpp"

#include <filesystem>
#include <memory>
#include <vector>

namespace autolaunch {

/// A file of this machine. What is started goes past the page cache, several at a time. Falls back,
/// each for itself: to the page cache where the file system refuses O_DIRECT at open or at the
/// first transfer, and to threads where there is no io_uring. Threads: one. Blocks: finish_one(),
/// sync(), the destructor.
class PosixFile final : public StorageFile {
public:
    static std::unique_ptr<StorageFile> create(const std::filesystem::path& path,
                                               const LargeFileOptions& options);
    static std::unique_ptr<StorageFile> open(const std::filesystem::path& path,
                                             const LargeFileOptions& options);

    void write_at(std::uint64_t offset, std::span<const std::byte> bytes) override;
    std::size_t read_at(std::uint64_t offset, std::span<std::byte> bytes) override;
    std::uint64_t size() override;
    void sync() override;
    void reserve(std::uint64_t bytes) override;
    void truncate(std::uint64_t bytes) override;
    void start_write(std::uint64_t offset, std::span<const std::byte> bytes,
                     std::size_t tag) override;
    void start_read(std::uint64_t offset, std::span<std::byte> bytes, std::size_t tag) override;
    Finished finish_one() override;

private:
    /// A transfer that is under way; short ones are continued until they are whole.
    struct Transfer {
        IoRequest request;
        std::size_t done = 0;
    };

    PosixFile(UniqueFd fd, std::filesystem::path path, bool direct, bool uring);
    static std::unique_ptr<PosixFile> open_with(const std::filesystem::path& path, int flags,
                                                const LargeFileOptions& options);
    void start(const IoRequest& request);
    void stop_being_direct();
    bool continues(Transfer& transfer, std::int64_t moved);
    std::string doing(const Transfer& transfer) const;

    UniqueFd fd_;
    std::filesystem::path path_;
    bool direct_;
    bool uring_;
    std::vector<Transfer> transfers_;  // by tag
    std::unique_ptr<IoQueue> queue_;   // last: it uses the descriptor
};

}  // namespace autolaunch
