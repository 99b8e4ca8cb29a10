#include <autolaunch/comm/device.hpp>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace autolaunch {

class CpuQueue::Impl {
public:
    Impl() : thread_([this] { serve(); }) {}

    ~Impl() {
        {
            const std::scoped_lock lock(mutex_);
            closing_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }

    void run(std::function<void()> work) {
        {
            const std::scoped_lock lock(mutex_);
            waiting_.push_back(std::move(work));
        }
        changed_.notify_all();
    }

    void synchronize() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return waiting_.empty() && !busy_; });
    }

private:
    void serve() {
        std::unique_lock lock(mutex_);
        for (;;) {
            changed_.wait(lock, [&] { return closing_ || !waiting_.empty(); });
            if (waiting_.empty())
                return;
            std::function<void()> work = std::move(waiting_.front());
            waiting_.pop_front();
            busy_ = true;
            lock.unlock();
            work();
            work = nullptr;  // what it holds goes before anybody learns that it is done
            lock.lock();
            busy_ = false;
            if (waiting_.empty())
                changed_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> waiting_;
    bool busy_ = false;
    bool closing_ = false;
    std::thread thread_;  // last: it uses the others
};

CpuQueue::CpuQueue() : impl_(std::make_unique<Impl>()) {}
CpuQueue::~CpuQueue() = default;
void CpuQueue::run(std::function<void()> work) { impl_->run(std::move(work)); }
void CpuQueue::synchronize() { impl_->synchronize(); }

}  // namespace autolaunch
