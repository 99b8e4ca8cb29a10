#include "thread_pool.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace gpt {

ThreadPool::ThreadPool(int threads) {
    for (int index = 1; index < threads; ++index)
        workers_.emplace_back([this, index] { serve(index); });
}

ThreadPool::~ThreadPool() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wake_.notify_all();
    for (auto& worker : workers_)
        worker.join();
}

void ThreadPool::parallel_for(std::int64_t count, std::int64_t grain, const Loop& loop) {
    const std::int64_t grains = (count + grain - 1) / grain;
    const std::int64_t range = (grains + size() - 1) / size() * grain;
    const Task task{&loop, count, range};
    if (workers_.empty() || range >= count) {
        if (count > 0)
            loop(0, count);
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        task_ = task;
        running_ = static_cast<int>(workers_.size());
        ++round_;
    }
    wake_.notify_all();
    run_range(task, 0);
    // No deadline: the workers only compute, and the loop's memory must outlive them.
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return running_ == 0; });
    if (error_)
        std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::serve(int index) {
    std::uint64_t seen = 0;
    for (;;) {
        Task task;
        {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [&] { return stopping_ || round_ != seen; });
            if (stopping_)
                return;
            seen = round_;
            task = task_;
        }
        run_range(task, index);
        const std::lock_guard lock(mutex_);
        if (--running_ == 0)
            done_.notify_one();
    }
}

void ThreadPool::run_range(const Task& task, int index) {
    const std::int64_t begin = std::min(task.count, task.range * index);
    const std::int64_t end = std::min(task.count, begin + task.range);
    if (begin == end)
        return;
    try {
        (*task.loop)(begin, end);
    } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_)
            error_ = std::current_exception();
    }
}

int choose_thread_count(const std::string& omp_num_threads, int allowed_cpus, int online_cpus,
                        int local_world_size) {
    const int wanted = std::atoi(
        omp_num_threads.c_str());  // OpenMP allows a list by nesting level: the first counts
    if (wanted > 0)
        return wanted;
    const int sharers = allowed_cpus < online_cpus ? 1 : std::max(1, local_world_size);
    return std::max(1, allowed_cpus / sharers);
}

int default_thread_count(int local_world_size) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    const int online = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
    const int count =
        ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : online;
    const char* omp = std::getenv("OMP_NUM_THREADS");
    return choose_thread_count(omp ? omp : "", count, online, local_world_size);
}

}  // namespace gpt
