#pragma once
#include "base/deadline.hpp"
#include "checkpoint/save/file_writer.hpp"
#include "checkpoint/storage/aligned_memory.hpp"

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <span>
#include <vector>

namespace autolaunch {

/// The copy of a state that a writer takes chunk by chunk while the trainer goes on. With memory
/// for all of it the writer begins when it is copied; with less, copying waits for the writer to
/// give some back.
///
/// Owner: one save; files and memory must outlive it. Threads: any number copy, one takes. Blocks:
/// copy_next() while the memory is full, take() until the chunk is copied, wait_copied() until all
/// is.
class StagedCopy final : public StateSource {
public:
    /// `memory` holds at least one chunk.
    StagedCopy(std::span<const PlannedFile> files, AlignedMemory& memory);

    /// Copies the next chunk; false when no chunk is left to start. Throws what the copy fails
    /// with, and so does take().
    bool copy_next();
    /// Helps to copy, and returns when the memory of the plan may change. Throws TimeoutError.
    void wait_copied(const Deadline& deadline);
    bool is_copied() const;
    /// The writer failed: nobody waits for it any more, and the rest is not copied.
    void cancel();

    std::byte* take(std::size_t index) override;
    void give_back(std::byte* memory) override;
    /// With memory for less than all this reads the state itself: it cannot change, because not all
    /// of it is copied.
    const std::byte* peek(std::size_t index, std::byte* scratch) override;
    void skip(std::size_t index) override;

private:
    struct Job {
        std::size_t index = 0;
        std::byte* memory = nullptr;
    };
    bool begin(Job& job, const Deadline* deadline);
    void copy(const Job& job);
    void fail(std::exception_ptr failure);

    std::span<const PlannedFile> files_;
    const std::vector<FileChunk> chunks_;
    const bool holds_all_;  // the memory

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::byte*> free_;
    std::vector<std::byte*> ready_;  // by chunk; null before it is copied and after it is taken
    std::size_t next_ = 0;           // chunk to copy
    std::size_t copying_ = 0;        // chunks that are being copied
    std::size_t taken_ = 0;          // chunks that the writer has and did not give back
    bool cancelled_ = false;
    std::exception_ptr failure_;  // of a copy
};

}  // namespace autolaunch
