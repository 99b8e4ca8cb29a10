#include "fsdp/optimizer/worker_pool.hpp"

#include "base/affinity.hpp"
#include "base/text.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace autolaunch::fsdp {

WorkerPool::WorkerPool(int threads) {
    for (int thread = 1; thread < threads; ++thread)
        workers_.emplace_back([this, thread] { serve(static_cast<std::size_t>(thread)); });
}

WorkerPool::~WorkerPool() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wake_.notify_all();
    for (auto& worker : workers_)
        worker.join();
}

void WorkerPool::run(std::size_t items, const Work& work) {
    if (workers_.empty() || items <= 1) {
        for (std::size_t item = 0; item < items; ++item)
            work(0, item);
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        work_ = &work;
        items_ = items;
        next_ = 0;
        running_ = workers_.size();
        ++round_;
    }
    wake_.notify_all();
    take_items(0);
    // No deadline: the workers only compute, and what they work on must outlive them.
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return running_ == 0; });
}

void WorkerPool::serve(std::size_t thread) {
    std::uint64_t seen = 0;
    for (;;) {
        {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [&] { return stopping_ || round_ != seen; });
            if (stopping_)
                return;
            seen = round_;
        }
        take_items(thread);
        const std::lock_guard lock(mutex_);
        if (--running_ == 0)
            done_.notify_one();
    }
}

void WorkerPool::take_items(std::size_t thread) {
    for (;;) {
        const std::size_t item = next_.fetch_add(1, std::memory_order_relaxed);
        if (item >= items_)
            return;
        (*work_)(thread, item);
    }
}

int choose_optimizer_threads(int asked, const std::string& omp_num_threads,
                             const std::string& local_world_size, int allowed_cpus,
                             int online_cpus) {
    if (asked > 0)
        return asked;
    // OpenMP allows a list by nesting level: the first counts.
    long long wanted = 0, sharers = 1;
    if (parse_integer(omp_num_threads.substr(0, omp_num_threads.find(',')), wanted) && wanted > 0)
        return static_cast<int>(std::clamp<long long>(wanted, 1, std::max(1, allowed_cpus)));
    const bool bound = allowed_cpus < online_cpus;  // by a launcher that shared the CPUs already
    if (bound || !parse_integer(local_world_size, sharers) || sharers < 1)
        sharers = 1;
    return std::max(1, allowed_cpus / static_cast<int>(std::min<long long>(sharers, 1 << 20)));
}

int optimizer_threads(int asked) {
    const auto text_of = [](const char* name) {
        const char* value = std::getenv(name);
        return std::string(value ? value : "");
    };
    const int online = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
    const auto allowed = affinity_of(0);
    return choose_optimizer_threads(asked, text_of("OMP_NUM_THREADS"), text_of("LOCAL_WORLD_SIZE"),
                                    allowed ? static_cast<int>(allowed->size()) : online, online);
}

}  // namespace autolaunch::fsdp
