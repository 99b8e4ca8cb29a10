#include "checkpoint/save/staged_copy.hpp"

#include <autolaunch/error.hpp>

#include <utility>

namespace autolaunch {

StagedCopy::StagedCopy(std::span<const PlannedFile> files, AlignedMemory& memory)
    : files_(files),
      chunks_(chunks_of(files)),
      holds_all_(memory.bytes() / kChunkBytes >= chunks_.size()),
      ready_(chunks_.size()) {
    for (std::size_t at = memory.bytes() / kChunkBytes; at-- > 0;)
        free_.push_back(memory.data() + at * kChunkBytes);
    if (free_.empty() && !chunks_.empty())
        throw Error(ErrorCode::invalid_argument, "no memory to copy the state to");
}

// Chunks are begun in order and only with memory at hand, so the one that the writer waits for is
// never behind others.
bool StagedCopy::begin(Job& job, const Deadline* deadline) {
    std::unique_lock lock(mutex_);
    const auto can_go_on = [&] { return cancelled_ || next_ == chunks_.size() || !free_.empty(); };
    if (!deadline)
        changed_.wait(lock, can_go_on);
    else if (!changed_.wait_until(lock, deadline->at(), can_go_on))
        throw TimeoutError("the checkpoint's writer gave no memory back in time",
                           "the storage is too slow or hangs; a larger "
                           "CheckpointOptions::staging_bytes does not wait");
    if (cancelled_ || next_ == chunks_.size())
        return false;
    job = {next_++, free_.back()};
    free_.pop_back();
    ++copying_;
    return true;
}

void StagedCopy::copy(const Job& job) {
    const FileChunk& chunk = chunks_[job.index];
    try {
        // The writer reads when all is copied, or else right behind.
        copy_range(files_[chunk.file_index], chunk.offset, chunk.bytes, job.memory,
                   holds_all_ ? CopyFor::later : CopyFor::now);
    } catch (...) {
        fail(std::current_exception());
        throw;
    }
    {
        const std::scoped_lock lock(mutex_);
        ready_[job.index] = job.memory;
        --copying_;
    }
    changed_.notify_all();
}

// What is on its way from a GPU may never come.
void StagedCopy::fail(std::exception_ptr failure) {
    {
        const std::scoped_lock lock(mutex_);
        failure_ = std::move(failure);
        cancelled_ = true;
        --copying_;
    }
    changed_.notify_all();
}

bool StagedCopy::copy_next() {
    Job job;
    if (!begin(job, nullptr))
        return false;
    copy(job);
    return true;
}

void StagedCopy::wait_copied(const Deadline& deadline) {
    for (Job job; begin(job, &deadline);)
        copy(job);
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, deadline.at(), [&] { return copying_ == 0; }))
        throw TimeoutError("the state was not copied in time");
}

bool StagedCopy::is_copied() const {
    const std::scoped_lock lock(mutex_);
    return copying_ == 0 && (cancelled_ || next_ == chunks_.size());
}

void StagedCopy::cancel() {
    {
        const std::scoped_lock lock(mutex_);
        cancelled_ = true;
    }
    changed_.notify_all();
}

std::byte* StagedCopy::take(std::size_t index) {
    std::unique_lock lock(mutex_);
    // Without free memory and without a copy on its way, only the writer itself can help: by giving
    // back.
    const auto needs_memory = [&] { return free_.empty() && copying_ == 0 && taken_ > 0; };
    // The trainer may wait for the copy: where it needs nothing of the writer, digests and writes
    // do not compete with it.
    const auto is_ready = [&] {
        return ready_[index] && (!holds_all_ || (next_ == chunks_.size() && copying_ == 0));
    };
    changed_.wait(lock, [&] { return cancelled_ || is_ready() || needs_memory(); });
    if (failure_)
        std::rethrow_exception(failure_);
    if (cancelled_)
        throw AbortedError("the save was given up");
    if (ready_[index])
        ++taken_;
    return std::exchange(ready_[index], nullptr);
}

const std::byte* StagedCopy::peek(std::size_t index, std::byte* scratch) {
    if (!holds_all_) {
        const FileChunk& chunk = chunks_[index];
        return range_of(files_[chunk.file_index], chunk.offset, chunk.bytes, scratch);
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return cancelled_ || (next_ == chunks_.size() && copying_ == 0); });
    if (failure_)
        std::rethrow_exception(failure_);
    if (cancelled_)
        throw AbortedError("the save was given up");
    return ready_[index];
}

void StagedCopy::skip(std::size_t index) {
    std::byte* const memory = take(index);
    if (!memory)
        throw Error(ErrorCode::system, "there is no memory to copy the state through");
    give_back(memory);
}

void StagedCopy::give_back(std::byte* memory) {
    {
        const std::scoped_lock lock(mutex_);
        free_.push_back(memory);
        --taken_;
    }
    changed_.notify_all();
}

}  // namespace autolaunch
