#include "generation/generation.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

// Whether its ranks stay where the plan put them.

namespace autolaunch::launcher {

namespace {

constexpr auto kShortestWatch = std::chrono::milliseconds(100);
constexpr auto kShortestGpuWatch =
    std::chrono::milliseconds(1000);  // a process that loads NVIDIA's library each time

}  // namespace

void Generation::warn_about_placement(const RankProcess& rank, const Child& child) {
    const auto warn = [&](int error, const std::string& what) {
        if (error == 0)
            return;
        callbacks_.report(WarningRaised{"rank " + std::to_string(rank.plan().rank) + " " + what +
                                        ": " + std::strerror(error)});
    };
    warn(child.affinity_error, "could not be bound to its CPUs, and runs where the system puts it");
    warn(child.memory_policy_error, "could not be given its memory policy");
}

int Generation::watch_placement() {
    std::vector<PlacementWatch::Watched> watched;
    for (const auto& rank : ranks_)
        if (rank.alive())
            watched.push_back({rank.plan().rank,
                               rank.plan().local_rank,
                               rank.program_pid(),
                               {rank.plan().binding.cpus, rank.plan().binding.memory_nodes}});
    const auto ended = static_cast<int>(ranks_.size() - watched.size());
    PlacementWatch::Times times;
    if (const auto seconds = plan_.spec.monitoring.interval_seconds)
        times.between = std::max(kShortestWatch, std::chrono::round<std::chrono::milliseconds>(
                                                     std::chrono::duration<double>(*seconds)));
    times.first = std::min(times.first, times.between);
    watch_.emplace(
        node_.io, std::move(watched), times,
        [this](const std::vector<PlacementWatch::Drift>& drifts) { report_drift(drifts); });
    watch_gpus(times);
    return ended + watch_->count_bound();
}

// An event a rank, and one warning for all: where a library is the reason, all ranks of all nodes
// have it.
void Generation::report_drift(const std::vector<PlacementWatch::Drift>& drifts) {
    for (const auto& drift : drifts)
        callbacks_.report(PlacementDrifted{.rank = drift.rank, .what = drift.what});
    callbacks_.report(WarningRaised{
        std::to_string(drifts.size()) + " of " + std::to_string(ranks_.size()) +
        " ranks left the place that was planned: local rank " +
        std::to_string(drifts.front().local_rank) + " " + drifts.front().what +
        ". Does the program set it, or numactl, taskset, KMP_AFFINITY or GOMP_CPU_AFFINITY?"});
}

void Generation::watch_gpus(PlacementWatch::Times times) {
    std::vector<GpuWatch::Watched> watched;
    for (const auto& rank : ranks_) {
        const auto& gpu = rank.plan().gpu;
        if (!rank.alive() || !rank.plan().binding.gpu || !gpu || gpu->vendor != "nvidia")
            continue;
        watched.push_back({rank.plan().rank,
                           rank.plan().local_rank,
                           rank.program_pid(),
                           {*rank.plan().binding.gpu, gpu->bdf, gpu->uuid,
                            /*is_part=*/!gpu->partition_of.empty()}});
    }
    if (watched.empty() || node_.gpu_inquiry == nullptr)
        return;
    std::vector<std::string> bdfs;
    for (const auto& each : watched)
        bdfs.push_back(each.gpu.bdf);
    gpu_events_.emplace(std::move(bdfs));
    times.between = std::max(times.between, kShortestGpuWatch);
    gpu_watch_.emplace(
        node_.io, *node_.gpu_inquiry, std::move(watched), times,
        GpuWatch::Callbacks{.on_drift =
                                [this](const std::vector<PlacementWatch::Drift>& drifts) {
                                    report_gpu_drift(drifts);
                                },
                            .on_outcome =
                                [this](const GpuWatch::Outcome& outcome) {
                                    callbacks_.report(
                                        GpuPlacementKnown{.as_planned = outcome.as_planned,
                                                          .elsewhere = outcome.elsewhere,
                                                          .cannot_tell = outcome.cannot_tell});
                                }});
}

std::vector<GpuPace> Generation::gpu_paces() {
    std::vector<GpuPace> paces;
    std::vector<std::string> bdfs;
    for (const auto& rank : ranks_) {
        const auto& gpu = rank.plan().gpu;
        if (!rank.alive() || !rank.plan().binding.gpu || !gpu || gpu->vendor != "nvidia")
            continue;
        bdfs.push_back(gpu->bdf);
        paces.push_back({.rank = rank.plan().rank, .link_width = pcie_lanes_of(gpu->bdf)});
    }
    if (paces.empty())
        return paces;
    if (!gpu_gauges_)
        gpu_gauges_.emplace(bdfs);
    for (const NvmlGauge& gauge : gpu_gauges_->newest())
        for (std::size_t at = 0; at < bdfs.size(); ++at)
            if (bdfs[at] == gauge.bdf) {
                paces[at].nvlink_bytes = gauge.nvlink_bytes.value_or(0);
                paces[at].slowed_reasons = gauge.slowed_reasons;
            }
    return paces;
}

// By local ranks where there are several nodes: the same mistake is made on all of them, and one
// line tells it.
void Generation::report_gpu_drift(const std::vector<PlacementWatch::Drift>& drifts) {
    for (const auto& drift : drifts)
        callbacks_.report(PlacementDrifted{.rank = drift.rank, .what = drift.what});
    const PlacementWatch::Drift& first = drifts.front();
    std::string text = plan_.node_count > 1 ? "local rank " + std::to_string(first.local_rank)
                                            : "rank " + std::to_string(first.rank);
    text += " " + first.what;
    if (drifts.size() > 1)
        text += "; " + std::to_string(drifts.size() - 1) + " more are not on theirs";
    callbacks_.report(
        WarningRaised{text + ". Does the program take the device of its LOCAL_RANK?"});
}

}  // namespace autolaunch::launcher
