#pragma once
#include "data/row_source.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace autolaunch::data {

/// This rank's part of a global batch.
struct BatchPlace {
    std::int64_t first_row = 0;
    std::int64_t rows = 0;
    std::int64_t global_first = 0;
    std::int64_t global_rows = 0;
    std::int64_t epoch = 0;
    std::size_t first = 0;  ///< its first row among those of the group
};

/// Batches that are read together, for small ones would be small reads.
struct BatchGroup {
    std::vector<BatchPlace> batches;
    RowMemory memory;
};

/// Reads groups of batches before they are asked for, in a thread that starts with the first
/// next(). Owner: one. Threads: one beside its own. Blocks: next() and the destructor, as long as
/// the disk does.
class ReadAhead {
public:
    /// `plan` fills an empty group with the following batches and their rows, in the thread; false:
    /// there are none. `depth` >= 1 groups are read ahead.
    ReadAhead(std::unique_ptr<RowSource> source, std::function<bool(BatchGroup&)> plan, int depth);
    ReadAhead(const ReadAhead&) = delete;
    ReadAhead& operator=(const ReadAhead&) = delete;
    ~ReadAhead();

    /// The next one, good until the next call; null after the last. Throws what went wrong with it,
    /// and again at each call from then on.
    const BatchGroup* next();
    std::string words() const { return source_->words(); }

private:
    void start();
    void run();
    void serve();
    bool plan_next(BatchGroup& group);
    bool wait_for_work(std::uint64_t begun, std::uint64_t ready, bool more);
    std::uint64_t room_until();
    void publish(std::uint64_t ready);

    std::function<bool(BatchGroup&)> plan_;
    std::vector<std::unique_ptr<BatchGroup>> slots_;
    std::unique_ptr<RowSource> source_;  // after the slots: what is under way uses their memory

    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t taken_ = 0;     // groups that were given out
    std::uint64_t released_ = 0;  // of them those that are not used any more
    std::uint64_t ready_ = 0;
    std::uint64_t awaited_ = UINT64_MAX;  // how many must be released before the thread goes on
    bool over_ = false;                   // the thread gives no more
    bool stop_ = false;
    std::exception_ptr error_;
    std::thread thread_;
};

}  // namespace autolaunch::data
