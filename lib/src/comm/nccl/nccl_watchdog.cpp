#include "comm/nccl/nccl_watchdog.hpp"

#include "comm/nccl/nccl_group.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <vector>

namespace autolaunch {

// Apart from the object: the thread may hold the last reference to what owns the watchdog, and
// outlives it then.
struct NcclWatchdog::State {
    std::mutex mutex;
    std::condition_variable changed;
    bool closing = false;
    bool hurry = false;
    std::vector<std::weak_ptr<NcclGroup>> groups;

    void serve();
};

void NcclWatchdog::State::serve() {
    constexpr std::chrono::milliseconds kPeriod{100};
    std::unique_lock lock(mutex);
    while (!closing) {
        changed.wait_for(lock, kPeriod, [&] { return closing || hurry; });
        hurry = false;
        if (closing)
            return;
        const auto is_gone = [](const std::weak_ptr<NcclGroup>& group) { return group.expired(); };
        groups.erase(std::remove_if(groups.begin(), groups.end(), is_gone), groups.end());
        const std::vector<std::weak_ptr<NcclGroup>> now = groups;
        lock.unlock();
        for (const auto& group : now)
            if (const auto alive = group.lock())
                alive->look_after();
        lock.lock();
    }
}

NcclWatchdog::NcclWatchdog() : state_(std::make_shared<State>()) {}

NcclWatchdog::~NcclWatchdog() {
    {
        const std::scoped_lock lock(state_->mutex);
        state_->closing = true;
    }
    state_->changed.notify_all();
    if (!thread_.joinable())
        return;
    if (thread_.get_id() == std::this_thread::get_id()) {
        thread_.detach();
    } else {
        thread_.join();
    }
}

void NcclWatchdog::watch(std::weak_ptr<NcclGroup> group) {
    {
        const std::scoped_lock lock(state_->mutex);
        state_->groups.push_back(std::move(group));
    }
    const std::scoped_lock lock(mutex_);
    if (!thread_.joinable())
        thread_ = std::thread([state = state_] { state->serve(); });
}

void NcclWatchdog::wake() {
    {
        const std::scoped_lock lock(state_->mutex);
        state_->hurry = true;
    }
    state_->changed.notify_all();
}

}  // namespace autolaunch
