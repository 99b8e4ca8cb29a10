#pragma once
#include <autolaunch/export.hpp>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace autolaunch::fsdp {

/// The threads of one optimizer. One thread means: none is started, work is done in the caller.
///
/// Owner: the optimizer. Threads: one caller at a time. Blocks: run() until all work is done.
class AUTOLAUNCH_API WorkerPool {
public:
    explicit WorkerPool(int threads);
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;
    ~WorkerPool();

    int size() const noexcept { return static_cast<int>(workers_.size()) + 1; }
    /// Calls work(thread, item) for every item below `items`, thread below size(). Who does which
    /// item is left to chance, in rising order. `work` must not throw.
    using Work = std::function<void(std::size_t thread, std::size_t item)>;
    void run(std::size_t items, const Work& work);

private:
    void serve(std::size_t thread);
    void take_items(std::size_t thread);

    std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable done_;
    const Work* work_ = nullptr;
    std::size_t items_ = 0;
    std::atomic<std::size_t> next_{0};
    std::uint64_t round_ = 0;  // grows with every run(), so that a worker joins each exactly once
    std::size_t running_ = 0;
    bool stopping_ = false;
    std::vector<std::thread> workers_;
};

/// How many threads a rank's optimizer takes: `asked` when positive; else what OMP_NUM_THREADS
/// says; else the CPUs that this process may run on, shared between the node's ranks where it may
/// run on all of them. Never more than it may run on, unless asked.
AUTOLAUNCH_API int choose_optimizer_threads(int asked, const std::string& omp_num_threads,
                                            const std::string& local_world_size, int allowed_cpus,
                                            int online_cpus);
/// The same for this process.
AUTOLAUNCH_API int optimizer_threads(int asked);

}  // namespace autolaunch::fsdp
