#include "placement_watch/gpu_watch.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

GpuWatch::GpuWatch(asio::io_context& io, GpuInquiry& inquiry, std::vector<Watched> ranks,
                   const PlacementWatch::Times& times, Callbacks callbacks)
    : inquiry_(inquiry), times_(times), callbacks_(std::move(callbacks)), timer_(io) {
    for (Watched& rank : ranks)
        entries_.push_back({std::move(rank)});
    wait(times_.first);
}

void GpuWatch::rank_ended(int rank) {
    for (Entry& entry : entries_)
        entry.ended = entry.ended || entry.rank.rank == rank;
}

void GpuWatch::wait(std::chrono::milliseconds time) {
    timer_.expires_after(time);
    timer_.async_wait([this, alive = std::weak_ptr(alive_)](const std::error_code& canceled) {
        if (!canceled && !alive.expired())
            look();
    });
}

void GpuWatch::look() {
    std::vector<pid_t> pids;
    for (const Entry& entry : entries_)
        if (!entry.ended)
            pids.push_back(entry.rank.pid);
    if (pids.empty())
        return;
    inquiry_.ask(pids, [this](const ComputeProcesses& seen) { judge(seen); });
    wait(times_.between);
}

void GpuWatch::judge(const ComputeProcesses& seen) {
    std::vector<Entry*> running;
    std::vector<pid_t> pids;
    std::vector<PlannedGpu> planned;
    for (Entry& entry : entries_) {
        if (entry.ended)
            continue;
        running.push_back(&entry);
        pids.push_back(entry.rank.pid);
        planned.push_back(entry.rank.gpu);
    }
    if (!running.empty())
        tell(find_gpu_drift(seen, pids, planned), running);
}

void GpuWatch::tell(const GpuFindings& findings, const std::vector<Entry*>& running) {
    std::vector<PlacementWatch::Drift> news;
    for (const GpuFindings::Drift& drift : findings.drifts) {
        Entry& entry = *running[drift.index];
        if (!std::exchange(entry.told, true))
            news.push_back({entry.rank.rank, entry.rank.local_rank, drift.what});
    }
    if (!news.empty())
        callbacks_.on_drift(news);
    const auto elsewhere = static_cast<int>(findings.drifts.size());
    if (!findings.cannot_tell.empty()) {
        if (!std::exchange(unknown_told_, true))
            callbacks_.on_outcome({0, 0, findings.cannot_tell});
    } else if (findings.as_planned + elsewhere == static_cast<int>(running.size())) {
        if (!std::exchange(known_told_, true))
            callbacks_.on_outcome({findings.as_planned, elsewhere, {}});
    }
}

}  // namespace autolaunch::launcher
