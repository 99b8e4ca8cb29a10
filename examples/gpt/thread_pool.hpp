#pragma once
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace gpt {

/// A fixed set of threads for loops. One thread means: no thread is started, loops run in the
/// caller.
///
/// Owner: the trainer. Threads: one caller at a time. Blocks: parallel_for() until the loop is
/// done.
class ThreadPool {
public:
    using Loop = std::function<void(std::int64_t begin, std::int64_t end)>;

    explicit ThreadPool(int threads);
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;
    ~ThreadPool();

    int size() const noexcept { return static_cast<int>(workers_.size()) + 1; }
    /// Cuts [0, count) into at most size() ranges at multiples of `grain` and calls `loop` for
    /// each, one in the caller. Throws what the first failing range threw, after all have ended.
    void parallel_for(std::int64_t count, std::int64_t grain, const Loop& loop);

private:
    struct Task {
        const Loop* loop = nullptr;
        std::int64_t count = 0;
        std::int64_t range = 0;  ///< elements per thread, a multiple of the grain
    };
    void serve(int index);
    void run_range(const Task& task, int index);

    std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable done_;
    Task task_;
    std::uint64_t round_ = 0;  ///< grows with every loop, so that a worker joins each exactly once
    int running_ = 0;
    bool stopping_ = false;
    std::exception_ptr error_;
    std::vector<std::thread> workers_;
};

/// How many threads one rank should use: OMP_NUM_THREADS if it holds a number; else the CPUs this
/// process may run on, shared between the node's ranks when it may run on all of them (a launcher
/// that bound us has shared them already).
int choose_thread_count(const std::string& omp_num_threads, int allowed_cpus, int online_cpus,
                        int local_world_size);
/// The same for this process.
int default_thread_count(int local_world_size);

}  // namespace gpt
