#include "checkpoint/save/async_save.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

namespace autolaunch {

namespace {

// The trainer's threads come first: it is their time that a save must not cost.
constexpr int kWriterNice = 5;

std::uint64_t bytes_of(const WritePlan& plan) {
    std::uint64_t bytes = 0;
    for (const PlannedFile& file : plan.files)
        bytes += file.bytes;
    return bytes;
}

}  // namespace

AsyncSave::AsyncSave(const WritePlan& plan, AlignedMemory& memory, Commit commit)
    : copy_(plan.files, memory), total_bytes_(bytes_of(plan)) {
    copier_ = std::thread([this] { copy(); });
    writer_ = std::thread([this, commit = std::move(commit)] { write(commit); });
}

AsyncSave::~AsyncSave() {
    if (copier_.joinable())
        copier_.join();
    if (writer_.joinable())
        writer_.join();
}

void AsyncSave::copy() {
    ::pthread_setname_np(::pthread_self(), "ckpt-copy");
    try {
        while (copy_.copy_next()) {
        }
    } catch (...) {  // the writer learns it from take()
    }
}

void AsyncSave::write(const Commit& commit) {
    ::pthread_setname_np(::pthread_self(), "ckpt-write");
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kWriterNice);
    try {
        published_ = commit(copy_, [this](std::uint64_t bytes) { bytes_written_ = bytes; });
    } catch (...) {
        failure_ = std::current_exception();
        copy_.cancel();
    }
    over_.store(true, std::memory_order_release);
}

void AsyncSave::wait_copied(const Deadline& deadline) { copy_.wait_copied(deadline); }

CheckpointInfo AsyncSave::finish() {
    copier_.join();
    writer_.join();
    if (failure_)
        std::rethrow_exception(failure_);
    return *published_;
}

}  // namespace autolaunch
