#include "run_report/gpu_time_reader.hpp"

#include "base/deadline.hpp"
#include "base/file_system.hpp"
#include "idle/attribute.hpp"
#include "run_report/open_regular.hpp"
#include "topology/natural_order.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostSampleBytes = 4 * kSampleFileLimit;
constexpr std::size_t kMostNamed = 8;

std::vector<std::string> sample_files(const UniqueFd& samples) {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const fs::path& path :
         list_folder(fmt::format("/proc/self/fd/{}", samples.get()), ignored))
        if (path.extension() == ".jsonl" && names.size() < kMostRanks)
            names.push_back(path.filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

class GpuTimeReader {
public:
    GpuTimeReader(int folder, const RunReading& reading, RunRecord& record)
        : folder_(folder), reading_(reading), record_(record), left_(record.planned_gpus) {
        record_.course.spans = record_.spans;
    }

    void read() {
        read_samples();
        for (PlannedGpus& node : left_) {
            unsampled_.push_back(node.trace.node);
            count(std::move(node.trace));
        }
        tell_unsampled();
        std::stable_sort(record_.gpu_time.gpus.begin(), record_.gpu_time.gpus.end(),
                         [](const GpuTime& a, const GpuTime& b) {
                             return a.node == b.node ? a.bdf < b.bdf : natural_less(a.node, b.node);
                         });
        tell_unknown_clocks();
    }

private:
    void gap(std::string text) {
        if (record_.gpu_time.gaps.size() < kMostRecordGaps)
            record_.gpu_time.gaps.push_back(std::move(text));
    }

    void read_samples() {
        if (reading_.samples_within && left_.empty())
            return;  // by its plans a job without GPUs, at whose end nobody waits for nothing
        const UniqueFd samples(
            ::openat(folder_, "samples", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!samples) {
            if (errno != ENOENT)
                gap(std::string("samples cannot be read: ") + std::strerror(errno));
            return;
        }
        std::optional<Deadline> deadline;
        if (reading_.samples_within)
            deadline = Deadline::after(*reading_.samples_within);
        const std::vector<std::string> names = sample_files(samples);
        for (std::size_t at = 0; at < names.size(); ++at) {
            if (deadline && deadline->passed())
                return gap(
                    fmt::format("samples of {} nodes are not read here, for want of time: "
                                "autolaunch report reads them",
                                names.size() - at));
            read_node(samples.get(), names[at]);
        }
    }

    void read_node(int samples, const std::string& name) {
        const Opened opened = open_regular(samples, name);
        std::string wrong = opened.wrong;
        const auto text = opened.file ? read_all(opened.file.get(), kMostSampleBytes, wrong)
                                      : std::optional<std::string>();
        if (!text)
            return gap("samples/" + name + " " + wrong);
        const SampleHistory history = parse_samples(*text);
        if (history.damaged > 0)
            gap(fmt::format("samples/{}: {} lines cannot be understood", name, history.damaged));
        NodeTrace trace = trace_of(history);
        if (trace.node.empty())
            trace.node = fs::path(name).stem().string();
        take_plan_of(trace);
        count(std::move(trace));
    }

    void take_plan_of(NodeTrace& trace) {
        const auto planned = std::find_if(left_.begin(), left_.end(), [&](const auto& node) {
            return node.trace.node == trace.node || node.hostname == trace.node;
        });
        if (planned == left_.end())
            return;
        for (const GpuTrace& gpu : planned->trace.gpus) {
            trace.add_gpu(gpu.bdf, std::nullopt, gpu.model);
            for (const int rank : gpu.ranks)
                trace.add_gpu(gpu.bdf, rank, gpu.model);
        }
        left_.erase(planned);
    }

    void count(NodeTrace trace) {
        std::vector<GpuTime> times = attribute(record_.course, trace, reading_.parts);
        std::move(times.begin(), times.end(), std::back_inserter(record_.gpu_time.gpus));
    }

    void tell_unsampled() {
        if (unsampled_.empty())
            return;
        std::string names;
        for (std::size_t at = 0; at < unsampled_.size() && at < kMostNamed; ++at)
            names += (at > 0 ? ", " : "") + unsampled_[at];
        if (unsampled_.size() > kMostNamed)
            names += fmt::format(" and {} more", unsampled_.size() - kMostNamed);
        gap("there are no samples of " + names + ": whether its GPUs were busy is not known");
    }

    void tell_unknown_clocks() {
        for (const GpuTime& gpu : record_.gpu_time.gpus)
            for (const auto& [reason, seconds] : gpu.clock_unknown)
                gap(
                    fmt::format("GPU {} on {} was slowed ({}) while it was busy for {:.0f} s; by "
                                "how much is not known, for nobody saw it at its usual clock",
                                gpu.bdf, gpu.node, reason, seconds));
    }

    int folder_;
    const RunReading& reading_;
    RunRecord& record_;
    std::vector<PlannedGpus> left_;  ///< without samples so far
    std::vector<std::string> unsampled_;
};

}  // namespace

void read_gpu_time(int folder, const RunReading& reading, RunRecord& record) {
    GpuTimeReader(folder, reading, record).read();
    for (const std::string& missing : record.gpu_time.gaps)
        if (record.gaps.size() < kMostRecordGaps)
            record.gaps.push_back(missing);
}

}  // namespace autolaunch::launcher
