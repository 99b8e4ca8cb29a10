#include "base/io_queue.hpp"

#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace autolaunch {

namespace {

IoResult run(const IoRequest& request) {
    for (;;) {
        const auto offset = static_cast<off_t>(request.offset);
        const ssize_t moved = request.write
                                  ? ::pwrite(request.fd, request.memory, request.bytes, offset)
                                  : ::pread(request.fd, request.memory, request.bytes, offset);
        if (moved < 0 && errno == EINTR)
            continue;
        return {request.tag, moved < 0 ? -errno : moved};
    }
}

class ThreadQueue final : public IoQueue {
public:
    explicit ThreadQueue(unsigned depth) : depth_(depth) {}
    ThreadQueue(const ThreadQueue&) = delete;
    ~ThreadQueue() override {
        {
            const std::scoped_lock lock(mutex_);
            closing_ = true;
        }
        changed_.notify_all();
        for (auto& thread : threads_)
            thread.join();
    }

    void start(const IoRequest& request) override {
        {
            const std::scoped_lock lock(mutex_);
            waiting_.push_back(request);
        }
        if (threads_.size() < depth_)
            threads_.emplace_back([this] { serve(); });
        changed_.notify_all();
    }

    IoResult wait() override {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !over_.empty(); });
        const IoResult result = over_.front();
        over_.pop_front();
        return result;
    }

    std::string_view kind() const noexcept override { return "threads"; }

private:
    void serve() {
        std::unique_lock lock(mutex_);
        for (;;) {
            changed_.wait(lock, [&] { return closing_ || !waiting_.empty(); });
            if (waiting_.empty())
                return;
            const IoRequest request = waiting_.front();
            waiting_.pop_front();
            lock.unlock();
            const IoResult result = run(request);
            lock.lock();
            over_.push_back(result);
            changed_.notify_all();
        }
    }

    const unsigned depth_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<IoRequest> waiting_;
    std::deque<IoResult> over_;
    bool closing_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<IoQueue> make_thread_queue(unsigned depth) {
    return std::make_unique<ThreadQueue>(depth);
}

}  // namespace autolaunch
