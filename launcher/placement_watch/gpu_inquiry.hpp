#pragma once
#include "placement_watch/compute_processes.hpp"

#include "spawn/helper_process.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Asks NVIDIA's driver which processes compute on which GPU, in a child process: it may take
/// seconds, crash, or hang in the kernel. One question at a time, and none while an earlier child
/// does not die.
///
/// Owner: the agent, for all generations; outlives them. Threads: the agent's one. Blocks: for a
/// fork, and in the destructor 50 ms at most.
class GpuInquiry {
public:
    struct Options {
        std::chrono::milliseconds limit{
            10'000};               ///< then the child is killed, and that is the trouble
        std::string library = {};  ///< as in Nvml::load; for tests
        std::string proc_root = "/proc";
    };
    explicit GpuInquiry(asio::io_context& io) : GpuInquiry(io, Options{}) {}
    GpuInquiry(asio::io_context& io, Options options);
    GpuInquiry(const GpuInquiry&) = delete;
    GpuInquiry& operator=(const GpuInquiry&) = delete;

    /// `on_answer` is called once, later, unless this returns false: an earlier question is still
    /// open, or its child hangs.
    bool ask(const std::vector<pid_t>& ranks,
             std::function<void(const ComputeProcesses&)> on_answer);
    /// Nobody waits for the answer any more.
    void cancel();
    /// Children that were killed and are still there.
    std::vector<pid_t> dying();

private:
    void wait_for_answer();
    void answer(const ComputeProcesses& seen);
    void put_away();

    Options options_;
    asio::posix::stream_descriptor readable_;  ///< a duplicate of the child's pipe
    asio::steady_timer timer_;
    HelperProcess child_;
    std::vector<HelperProcess> dying_;
    std::string text_;
    int question_ = 0;  ///< counts them: what was set off for an earlier one may come late
    std::function<void(const ComputeProcesses&)> on_answer_;
};

}  // namespace autolaunch::launcher
