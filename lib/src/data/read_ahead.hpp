#pragma once
#include "data/row_source.hpp"

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace autolaunch::data {

/// A batch of this rank's rows on their way.
struct BatchMemory {
    std::int64_t first_row = 0;
    std::int64_t rows = 0;
    std::int64_t global_first = 0;
    std::int64_t global_rows = 0;
    std::int64_t epoch = 0;
    RowMemory memory;
};

/// Reads batches before they are asked for, in a thread that starts with the first next(). Owner:
/// one. Threads: one beside its own. Blocks: next() and the destructor, as long as the disk does.
class ReadAhead {
public:
    /// `plan` says what the following batch is and which rows it has, in the thread; false: there
    /// is none. `depth` >= 1 batches are read ahead.
    ReadAhead(std::unique_ptr<RowSource> source, std::function<bool(BatchMemory&)> plan, int depth);
    ReadAhead(const ReadAhead&) = delete;
    ReadAhead& operator=(const ReadAhead&) = delete;
    ~ReadAhead();

    /// The next one, good until the next call; null after the last. Throws what went wrong with it,
    /// and again at each call from then on.
    const BatchMemory* next();
    std::string words() const { return source_->words(); }

private:
    void start();
    void run();
    void serve();
    bool wait_for_work(std::uint64_t begun, std::uint64_t ready, bool more);
    std::uint64_t room_until();
    void publish(std::uint64_t ready);

    std::function<bool(BatchMemory&)> plan_;
    std::vector<std::unique_ptr<BatchMemory>> slots_;
    std::unique_ptr<RowSource> source_;  // after the slots: what is under way uses their memory

    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t taken_ = 0;     // batches that were given out
    std::uint64_t released_ = 0;  // of them those that are not used any more
    std::uint64_t ready_ = 0;
    bool over_ = false;  // the thread gives no more
    bool stop_ = false;
    std::exception_ptr error_;
    std::thread thread_;
};

}  // namespace autolaunch::data
