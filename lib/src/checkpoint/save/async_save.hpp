#pragma once
#include "checkpoint/save/file_writer.hpp"
#include "checkpoint/save/staged_copy.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <thread>

namespace autolaunch {

/// One save that goes on while the trainer computes: a thread copies the state to staging memory,
/// another one digests, writes and commits. Owner: the engine. Threads: one calls it. Blocks:
/// wait_copied(), finish() and the destructor, which waits for the end.
class AsyncSave {
public:
    /// Writes what the source gives and publishes it; runs on the writer's thread.
    using Commit =
        std::function<CheckpointInfo(StateSource& source, const WriteProgress& progress)>;

    /// Starts. `plan` and `memory` must outlive it.
    AsyncSave(const WritePlan& plan, AlignedMemory& memory, Commit commit);
    AsyncSave(const AsyncSave&) = delete;
    ~AsyncSave();

    /// Returns when the state may change; this thread helps to copy.
    void wait_copied(const Deadline& deadline);
    bool is_copied() const { return copy_.is_copied(); }
    bool is_over() const noexcept { return over_.load(std::memory_order_acquire); }
    std::uint64_t bytes_written() const noexcept {
        return bytes_written_.load(std::memory_order_relaxed);
    }
    std::uint64_t total_bytes() const noexcept { return total_bytes_; }
    /// Waits for the end; throws what the save failed with.
    CheckpointInfo finish();

private:
    void copy();
    void write(const Commit& commit);

    StagedCopy copy_;
    std::uint64_t total_bytes_ = 0;
    std::atomic<std::uint64_t> bytes_written_{0};
    std::atomic<bool> over_{false};
    std::optional<CheckpointInfo> published_;
    std::exception_ptr failure_;
    std::thread copier_, writer_;  // last: they use the others
};

}  // namespace autolaunch
