#include "base/hash.hpp"
#include "hand_over/positioned_io.hpp"
#include "hand_over/transfer.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace autolaunch::launcher {

namespace {

constexpr auto kBetweenFileLooks = std::chrono::milliseconds(10);
constexpr int kReaders = 8;  // a server answers each late, and several side by side

/// What is to be read next; taken by several threads.
class ReadingList {
public:
    explicit ReadingList(Transfer& transfer)
        : transfer_(transfer),
          files_(*transfer.files(Deadline::after(std::chrono::seconds(0)))),
          missing_(transfer.missing()) {}

    /// Chunks side by side, in one request.
    struct Run {
        std::size_t file = 0, first = 0, count = 0;
        std::shared_ptr<const UniqueFd> source;
    };
    std::optional<Run> next() {
        const std::lock_guard lock(mutex_);
        while (chunks_.empty()) {
            source_.reset();
            if (at_ == missing_.size())
                return std::nullopt;
            open(missing_[at_++]);
        }
        Run run{file_, chunks_.front(), 0, source_};
        const std::size_t most = files_[file_].is_in_pieces() ? kChunkBytes / kPieceBytes : 1;
        while (!chunks_.empty() && run.count < most && chunks_.front() == run.first + run.count) {
            ++run.count;
            chunks_.pop_front();
        }
        return run;
    }

private:
    void open(std::size_t file) {
        source_ = std::make_shared<const UniqueFd>(
            ::open(files_[file].path.c_str(), O_RDONLY | O_CLOEXEC));
        if (!*source_)
            return transfer_.give_up(file, SystemError(errno, "open a file").what());
        // As told: the kernel's own reading ahead asks for smaller parts.
        ::posix_fadvise(source_->get(), 0, 0, POSIX_FADV_RANDOM);
        if (!transfer_.make_place(file))
            return;
        const auto chunks = transfer_.missing_chunks(file);
        chunks_.assign(chunks.begin(), chunks.end());
        file_ = file;
    }

    Transfer& transfer_;
    const std::vector<SharedFile>& files_;
    const std::vector<std::size_t> missing_;
    std::mutex mutex_;
    std::size_t at_ = 0, file_ = 0;
    std::deque<std::size_t> chunks_;
    std::shared_ptr<const UniqueFd> source_;
};

void read_run(Transfer& transfer, const SharedFile& file, const ReadingList::Run& run,
              std::string& bytes) {
    const std::int64_t at = chunk_offset(file, run.first);
    const std::size_t last = run.first + run.count - 1;
    bytes.resize(static_cast<std::size_t>(chunk_offset(file, last) - at) + chunk_bytes(file, last));
    if (!read_at(run.source->get(), bytes, at))
        return transfer.give_up(run.file, errno == 0 ? "it changed while it was read"
                                                     : SystemError(errno, "read a file").what());
    for (std::size_t chunk = run.first; chunk <= last; ++chunk) {
        const auto part = std::string_view(bytes).substr(
            static_cast<std::size_t>(chunk_offset(file, chunk) - at), chunk_bytes(file, chunk));
        transfer.put(run.file, chunk, hash128(part.data(), part.size()), part,
                     [&] { return is_unchanged(file); });
    }
}

}  // namespace

// They are watched by whoever makes them, and we end with the agent.
void await_files(Transfer& transfer) {
    const auto& files = *transfer.files(Deadline::after(std::chrono::seconds(0)));
    for (const std::size_t file : transfer.missing()) {
        const Deadline deadline = Deadline::after(transfer.patience());
        while (!is_unchanged(files[file]) && !deadline.passed()) {
            transfer.is_awaited();
            std::this_thread::sleep_for(kBetweenFileLooks);
        }
        if (deadline.passed())
            return;
        transfer.adopt(file);
    }
}

void read_source(Transfer& transfer) {
    ReadingList list(transfer);
    const auto& files = *transfer.files(Deadline::after(std::chrono::seconds(0)));
    const auto read = [&] {
        std::string bytes;
        while (const auto run = list.next())
            read_run(transfer, files[run->file], *run, bytes);
    };
    std::vector<std::jthread> readers;
    for (int i = 0; i < kReaders; ++i)
        readers.emplace_back(read);
}

}  // namespace autolaunch::launcher
