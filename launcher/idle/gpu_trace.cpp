#include "idle/gpu_trace.hpp"

#include <algorithm>
#include <map>
#include <string_view>

namespace autolaunch::launcher {

namespace {

std::optional<float> share_of(const std::optional<double>& value) {
    return value ? std::optional(static_cast<float>(std::clamp(*value, 0.0, 1.0))) : std::nullopt;
}

void add_rank(GpuTrace& gpu, int rank) {
    const auto at = std::lower_bound(gpu.ranks.begin(), gpu.ranks.end(), rank);
    if (at == gpu.ranks.end() || *at != rank)
        gpu.ranks.insert(at, rank);
}

GpuTrace& gpu_at(NodeTrace& node, const std::string& bdf) {
    const auto at = std::lower_bound(
        node.gpus.begin(), node.gpus.end(), bdf,
        [](const GpuTrace& gpu, const std::string& address) { return gpu.bdf < address; });
    if (at != node.gpus.end() && at->bdf == bdf)
        return *at;
    return *node.gpus.insert(at, GpuTrace{.bdf = bdf});
}

// Of ranks that share a GPU it idles only while none of them has anything to do: the least counts.
struct Holder {
    int rank = 0;
    std::optional<double> input = {};
};
std::map<std::string, Holder> holders_of(const NodeSample& sample) {
    std::map<std::string, Holder> holders;
    for (const RankSample& rank : sample.ranks) {
        if (!rank.gpu)
            continue;
        const auto [held, is_first] =
            holders.try_emplace(*rank.gpu, Holder{rank.rank, rank.input_ratio});
        if (is_first)
            continue;
        held->second.rank = std::min(held->second.rank, rank.rank);
        held->second.input = held->second.input && rank.input_ratio
                                 ? std::optional(std::min(*held->second.input, *rank.input_ratio))
                                 : std::nullopt;
    }
    return holders;
}

}  // namespace

void NodeTrace::add_gpu(const std::string& bdf, std::optional<int> rank, const std::string& model) {
    if (bdf.empty())
        return;
    GpuTrace& gpu = gpu_at(*this, bdf);
    if (gpu.model.empty())
        gpu.model = model;
    if (rank)
        add_rank(gpu, *rank);
}

NodeTrace trace_of(const SampleHistory& history) {
    NodeTrace trace{.node = history.header.node};
    if (history.header.interval_seconds > 0 && history.header.interval_seconds < 1e6)
        trace.interval = std::chrono::milliseconds(
            static_cast<std::int64_t>(history.header.interval_seconds * 1000));
    for (const SampleHeader::Gpu& gpu : history.header.gpus)
        trace.add_gpu(gpu.bdf, std::nullopt, gpu.model);
    for (const NodeSample& sample : history.samples) {
        const auto holders = holders_of(sample);
        for (const GpuSample& told : sample.gpus) {
            GpuMoment moment{.at = JobTime(std::chrono::milliseconds(sample.time_ms))};
            moment.busy = share_of(told.busy_ratio);
            if (told.sm_hertz)
                moment.sm_hertz = static_cast<float>(*told.sm_hertz);
            moment.processes = told.processes;
            moment.slowed_by = loss_of_clock(told.slowed_by);
            GpuTrace& gpu = gpu_at(trace, told.bdf);
            if (const auto holder = holders.find(told.bdf); holder != holders.end()) {
                moment.rank = holder->second.rank;
                moment.input = share_of(holder->second.input);
                add_rank(gpu, holder->second.rank);
            }
            gpu.moments.push_back(std::move(moment));
        }
    }
    for (GpuTrace& gpu : trace.gpus)  // a clock may have been set back
        std::stable_sort(gpu.moments.begin(), gpu.moments.end(),
                         [](const GpuMoment& a, const GpuMoment& b) { return a.at < b.at; });
    return trace;
}

std::string loss_of_clock(const std::vector<std::string>& slowed_by) {
    for (const std::string_view reason : {"thermal", "power", "hardware"})
        if (std::find(slowed_by.begin(), slowed_by.end(), reason) != slowed_by.end())
            return std::string(reason);
    return {};
}

}  // namespace autolaunch::launcher
