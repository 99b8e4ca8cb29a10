#pragma once
#include "placement_watch/drift.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Looks again and again whether running ranks are where the plan put them: libraries set
/// affinities of their own, and memory goes where it is first touched. The CPUs of all threads at
/// each look; memory once, at the second.
///
/// Owner: Generation. Threads: the agent's one. Blocks: some microseconds a thread, and for a piece
/// of numa_maps.
class PlacementWatch {
public:
    struct Watched {
        int rank = 0, local_rank = 0;
        pid_t pid = 0;
        PlannedPlacement planned;
    };
    struct Drift {
        int rank = 0, local_rank = 0;
        std::string what;  ///< goes on after "rank 3 "
    };
    struct Times {
        std::chrono::milliseconds first{5'000};  ///< until the first look
        std::chrono::milliseconds between{60'000};
    };

    /// `on_drift` gets what one look found, each kind of drift once a rank. Not called from within
    /// the other functions.
    PlacementWatch(asio::io_context& io, std::vector<Watched> ranks, const Times& times,
                   std::function<void(const std::vector<Drift>&)> on_drift);

    /// How many are within their plan now, by one system call each. A rank that has ended already
    /// is.
    int count_bound() const;

private:
    struct Entry {
        Watched rank;
        bool cpus_told = false;
    };
    void wait(std::chrono::milliseconds time);
    void look();
    void look_at_memory();
    void read_memory_of(std::size_t index);

    std::vector<Entry> entries_;
    Times times_;
    std::function<void(const std::vector<Drift>&)> on_drift_;
    asio::steady_timer timer_;
    int looks_ = 0;
    std::unique_ptr<NumaMapsReader> reader_;
    std::vector<Drift> memory_drifts_;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace autolaunch::launcher
