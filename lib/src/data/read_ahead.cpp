#include "data/read_ahead.hpp"

#include <csignal>
#include <utility>

namespace autolaunch::data {

ReadAhead::ReadAhead(std::unique_ptr<RowSource> source, std::function<bool(BatchGroup&)> plan,
                     int depth)
    : plan_(std::move(plan)), source_(std::move(source)) {
    for (int i = 0; i < depth + 1; ++i)  // one is in the trainer's hands
        slots_.push_back(std::make_unique<BatchGroup>());
}

ReadAhead::~ReadAhead() {
    {
        const std::scoped_lock lock(mutex_);
        stop_ = true;
    }
    source_->stop();
    changed_.notify_all();
    if (thread_.joinable())
        thread_.join();
}

// Signals are the trainer's threads' business.
void ReadAhead::start() {
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        thread_ = std::thread([this] { run(); });
    } catch (...) {
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
        throw;
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

const BatchGroup* ReadAhead::next() {
    if (!thread_.joinable())
        start();
    std::unique_lock lock(mutex_);
    released_ = taken_;
    if (released_ >= awaited_)
        changed_.notify_all();
    changed_.wait(lock, [&] { return ready_ > taken_ || over_; });
    if (ready_ > taken_)
        return slots_[taken_++ % slots_.size()].get();
    if (error_)
        std::rethrow_exception(error_);
    return nullptr;
}

void ReadAhead::run() {
    std::exception_ptr error;
    try {
        serve();
    } catch (...) {
        error = std::current_exception();
    }
    {
        const std::scoped_lock lock(mutex_);
        error_ = error;
        over_ = true;
    }
    changed_.notify_all();
}

void ReadAhead::serve() {
    std::uint64_t begun = 0, ready = 0;
    bool more = true, is_planned = false;
    while (wait_for_work(begun, ready, more)) {
        for (const std::uint64_t end = room_until(); more && begun < end;) {
            BatchGroup& group = *slots_[begun % slots_.size()];
            more = is_planned || plan_next(group);
            is_planned = more;
            // What is there is given out before one waits for a file that still comes.
            if (!more || (ready < begun && !source_->is_there(group.memory.plan)))
                break;
            source_->begin(group.memory);
            is_planned = false;
            ++begun;
        }
        if (ready < begun && slots_[ready % slots_.size()]->memory.open_reads > 0)
            source_->progress();
        const std::uint64_t before = ready;
        while (ready < begun && slots_[ready % slots_.size()]->memory.open_reads == 0)
            ++ready;
        if (ready > before)
            publish(ready);
    }
}

bool ReadAhead::plan_next(BatchGroup& group) {
    group.batches.clear();
    group.memory.plan = {};
    return plan_(group);
}

// False where there is no more to do.
bool ReadAhead::wait_for_work(std::uint64_t begun, std::uint64_t ready, bool more) {
    std::unique_lock lock(mutex_);
    if (ready == begun && more && begun == released_ + slots_.size()) {
        // Not for each: waking costs more than a group that is in memory already.
        awaited_ = released_ + (slots_.size() + 3) / 4;
        changed_.wait(lock, [&] { return stop_ || released_ >= awaited_; });
        awaited_ = UINT64_MAX;
    }
    return !stop_ && (ready < begun || more);
}

std::uint64_t ReadAhead::room_until() {
    const std::scoped_lock lock(mutex_);
    return released_ + slots_.size();
}

void ReadAhead::publish(std::uint64_t ready) {
    {
        const std::scoped_lock lock(mutex_);
        ready_ = ready;
    }
    changed_.notify_all();
}

}  // namespace autolaunch::data
