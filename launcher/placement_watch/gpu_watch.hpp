#pragma once
#include "placement_watch/gpu_drift.hpp"
#include "placement_watch/gpu_inquiry.hpp"
#include "placement_watch/placement_watch.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Asks again and again whether ranks compute on the GPUs that were planned: programs choose their
/// device themselves.
///
/// Owner: Generation. Threads: the agent's one. Blocks: for a fork a look; the driver is asked in
/// another process.
class GpuWatch {
public:
    struct Watched {
        int rank = 0, local_rank = 0;
        pid_t pid = 0;
        PlannedGpu gpu;
    };
    /// What is known of all ranks, at the moment when it is: each of these two comes once at most.
    struct Outcome {
        int as_planned = 0, elsewhere = 0;  ///< ranks; all that run have been seen on a GPU
        std::string cannot_tell;            ///< or why nothing is known
    };
    struct Callbacks {
        std::function<void(const std::vector<PlacementWatch::Drift>&)>
            on_drift;  ///< each rank's once
        std::function<void(const Outcome&)> on_outcome;
    };

    GpuWatch(asio::io_context& io, GpuInquiry& inquiry, std::vector<Watched> ranks,
             const PlacementWatch::Times& times, Callbacks callbacks);
    GpuWatch(const GpuWatch&) = delete;
    GpuWatch& operator=(const GpuWatch&) = delete;
    ~GpuWatch() { inquiry_.cancel(); }

    /// Its process number may be another's from now on.
    void rank_ended(int rank);

private:
    struct Entry {
        Watched rank;
        bool ended = false, told = false;
    };
    void wait(std::chrono::milliseconds time);
    void look();
    void judge(const ComputeProcesses& seen);
    void tell(const GpuFindings& findings, const std::vector<Entry*>& running);

    GpuInquiry& inquiry_;
    std::vector<Entry> entries_;
    PlacementWatch::Times times_;
    Callbacks callbacks_;
    asio::steady_timer timer_;
    /// A wait that is over may be behind our own end in the loop.
    std::shared_ptr<int> alive_ = std::make_shared<int>(0);
    bool known_told_ = false, unknown_told_ = false;
};

}  // namespace autolaunch::launcher
