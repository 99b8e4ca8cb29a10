#include "fsdp/thread_lane.hpp"

#include "comm/queued_work.hpp"

#include <autolaunch/error.hpp>

#include <utility>

namespace autolaunch::fsdp {

ThreadLane::ThreadLane(std::vector<Communicator> communicators, bool queued)
    : Lane(std::move(communicators)) {
    if (queued)
        queue_.emplace();
}

ThreadLane::~ThreadLane() {
    if (!queue_ || last_.is_completed())
        return;
    if (std::uncaught_exceptions() > 0)
        abort("a rank left its training step by an exception");
}

Fence ThreadLane::submit(const std::string& unit, std::string_view subject, Job job,
                         std::span<const Fence>) {
    check();
    if (!queue_) {
        try {
            run(unit, subject, job, {});
        } catch (...) {
            failure_ = std::current_exception();  // no other thread is there
            throw;
        }
        return {};
    }
    auto work = std::make_shared<QueuedWork>();
    queue_->run([this, work, unit, subject = std::string(subject), job = std::move(job)]() mutable {
        std::exception_ptr failure;
        try {
            check();
            run(unit, subject, job, {});
        } catch (...) {
            failure = std::current_exception();
            const std::scoped_lock lock(mutex_);
            if (!failure_)
                failure_ = failure;
        }
        job = nullptr;
        work->complete(failure);
    });
    last_ = Work(work);
    return latest();
}

void ThreadLane::check() {
    const std::scoped_lock lock(mutex_);
    if (failure_)
        std::rethrow_exception(failure_);
}

void ThreadLane::synchronize() {
    std::exchange(last_, {}).wait();
    check();
}

}  // namespace autolaunch::fsdp
