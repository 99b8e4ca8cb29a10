#include "sampler/job_measures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace autolaunch::launcher {
namespace {

constexpr double kMillion = 1e6, kThousand = 1e3, kPercent = 100;
constexpr std::size_t kMostOdd = 16;
// So far from the others' middle a node is odd: these are differences that people act on, and no
// noise of healthy ones.
constexpr double kOddCelsius = 12, kOddBusy = 0.3;
constexpr double kMuchThrottled = 0.05, kMuchStalled = 0.2, kLittleMemory = 0.03;
constexpr std::size_t kFewestToCompare = 3;

std::optional<double> ratio(std::uint32_t millionths) {
    return millionths == NodeMeasures::kUnknown
               ? std::nullopt
               : std::optional(static_cast<double>(millionths) / kMillion);
}

std::optional<double> busy_of(const NodeMeasures::Gpu& gpu) {
    return gpu.busy == NodeMeasures::kUnknown16 ? std::nullopt
                                                : std::optional(gpu.busy / kThousand);
}

/// The middle of some numbers, and their mean.
class Numbers {
public:
    void add(double number) { all_.push_back(number), sum_ += number; }
    std::size_t size() const { return all_.size(); }
    std::optional<double> mean() const {
        return all_.empty() ? std::nullopt : std::optional(sum_ / static_cast<double>(all_.size()));
    }
    std::optional<double> least() const {
        return all_.empty() ? std::nullopt
                            : std::optional(*std::min_element(all_.begin(), all_.end()));
    }
    std::optional<double> most() const {
        return all_.empty() ? std::nullopt
                            : std::optional(*std::max_element(all_.begin(), all_.end()));
    }
    double sum() const { return sum_; }
    std::optional<double> median() const {
        if (all_.size() < kFewestToCompare)
            return std::nullopt;
        std::vector<double> sorted = all_;
        const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
        std::nth_element(sorted.begin(), middle, sorted.end());
        return *middle;
    }

private:
    std::vector<double> all_;
    double sum_ = 0;
};

/// Sentences, as many as somebody reads.
class Odd {
public:
    void add(std::string sentence) {
        if (sentences_.size() < kMostOdd)
            sentences_.push_back(std::move(sentence));
    }
    std::vector<std::string> take() { return std::move(sentences_); }

private:
    std::vector<std::string> sentences_;
};

void find_odd_gpus(const std::string& node, const NodeMeasures& told, std::optional<double> celsius,
                   std::optional<double> busy, Odd& odd) {
    for (std::size_t at = 0; at < told.gpus.size(); ++at) {
        const NodeMeasures::Gpu& gpu = told.gpus[at];
        if (celsius && gpu.celsius > *celsius + kOddCelsius)
            odd.add(fmt::format("{}: its GPU {} has {} °C, others {:.0f}", node, at, gpu.celsius,
                                *celsius));
        const auto own = busy_of(gpu);
        if (busy && own && *own < *busy - kOddBusy)
            odd.add(
                fmt::format("{}: its GPU {} is busy for {:.0f} % of the time, others for {:.0f}",
                            node, at, *own * kPercent, *busy * kPercent));
        if (gpu.slowed)
            odd.add(fmt::format("{}: its GPU {} is slowed down, by heat or its power supply", node,
                                at));
    }
}

void find_odd(const std::string& node, const NodeMeasures& told, Odd& odd) {
    if (told.silent_file_systems > 0)
        odd.add(fmt::format("{}: {} of its file systems do{} not answer", node,
                            told.silent_file_systems, told.silent_file_systems == 1 ? "es" : ""));
    if (const auto held = ratio(told.throttled); held && *held >= kMuchThrottled)
        odd.add(fmt::format("{}: its CPU quota held it back for {:.0f} % of the time", node,
                            *held * kPercent));
    if (const auto waits = ratio(told.io_stalled); waits && *waits >= kMuchStalled)
        odd.add(fmt::format("{}: all that ran there waited for I/O for {:.0f} % of the time", node,
                            *waits * kPercent));
    if (const auto free = ratio(told.memory_free); free && *free < kLittleMemory)
        odd.add(fmt::format("{}: {:.1f} % of its memory is left", node, *free * kPercent));
}

}  // namespace

void JobMeasures::add(const std::string& node, const NodeMeasures& measures, Time now) {
    nodes_[node] = {measures, now};
}

JobSample JobMeasures::sample(const std::vector<std::string>& nodes, Time now) const {
    constexpr auto kFreshAtLeast = std::chrono::milliseconds(30'000);
    JobSample job{.nodes = static_cast<int>(nodes.size())};
    Numbers cpus, busy, celsius, watts, used, total, network, infiniband;
    Odd odd;
    std::vector<const std::pair<const std::string, Newest>*> heard;
    for (const std::string& node : nodes) {
        const auto found = nodes_.find(node);
        if (found == nodes_.end())
            continue;
        const NodeMeasures& told = found->second.measures;
        const auto age =
            std::chrono::duration_cast<std::chrono::milliseconds>(now - found->second.at);
        if (age >
            std::max(kFreshAtLeast, std::chrono::milliseconds(2 * std::uint64_t{told.span_ms}))) {
            odd.add(fmt::format("{}: was not measured for {} s", node, age.count() / 1000));
            continue;
        }
        heard.push_back(&*found);
        if (const auto cpu = ratio(told.cpu_busy))
            cpus.add(*cpu);
        network.add(static_cast<double>(told.network_bytes));
        infiniband.add(static_cast<double>(told.infiniband_bytes));
        for (const NodeMeasures::Gpu& gpu : told.gpus) {
            ++job.gpus;
            if (const auto own = busy_of(gpu))
                busy.add(*own);
            if (gpu.celsius > 0)
                celsius.add(gpu.celsius);
            if (gpu.milliwatts > 0)
                watts.add(gpu.milliwatts / kThousand);
            used.add(gpu.memory_used_mib);
            total.add(gpu.memory_total_mib);
        }
    }
    for (const auto* node : heard) {
        find_odd(node->first, node->second.measures, odd);
        find_odd_gpus(node->first, node->second.measures, celsius.median(), busy.median(), odd);
    }
    constexpr int kMebi = 20;
    job.nodes_heard = static_cast<int>(heard.size());
    job.cpu_busy_ratio = cpus.mean();
    job.gpu_busy_ratio = busy.mean();
    job.gpu_busy_least_ratio = busy.least();
    job.gpu_hottest_celsius = celsius.most();
    if (watts.size() > 0)
        job.gpu_watts = watts.sum();
    if (total.sum() > 0) {
        job.gpu_memory_used_bytes = static_cast<std::uint64_t>(used.sum()) << kMebi;
        job.gpu_memory_total_bytes = static_cast<std::uint64_t>(total.sum()) << kMebi;
    }
    if (!heard.empty()) {
        job.network_bytes = network.sum();
        job.infiniband_bytes = infiniband.sum();
    }
    job.odd = odd.take();
    return job;
}

}  // namespace autolaunch::launcher
