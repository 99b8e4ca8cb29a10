#include "idle/receipt.hpp"

#include "report/units.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr double kShownShare = 0.005;
constexpr std::size_t kMostChanges = 2;

std::string percent(double share) { return fmt::format("{:.0f}%", share * 100); }

std::string gpu_hours(double seconds) {
    const double hours = seconds / 3600;
    if (hours < 0.1)
        return fmt::format("{:.0f} GPU seconds", seconds);
    return (hours >= 10 ? fmt::format("{:.0f}", hours) : fmt::format("{:.2g}", hours)) +
           " GPU hours";
}

std::string place_of(const GpuTime& gpu) { return fmt::format("{} on {}", gpu.bdf, gpu.node); }

/// The GPU with the most of something.
const GpuTime& most_of(const JobGpuTime& job, GpuUse use) {
    return *std::max_element(job.gpus.begin(), job.gpus.end(), [use](const auto& a, const auto& b) {
        return a.time.of(use) < b.time.of(use);
    });
}

std::string input_change(const JobGpuTime&, double share) {
    return fmt::format(
        "input held {} of the steps: more loader workers, or the data on the node's own disk",
        percent(share));
}

std::string checkpoint_change(const JobGpuTime&, double share) {
    return fmt::format(
        "checkpoints held {} of the steps: save less often, or while the training goes on",
        percent(share));
}

// What holds up the one that is waited for is what to change.
std::string peer_change(const JobGpuTime& job, double share) {
    const auto waited = job.waited_for();
    if (waited.empty())
        return {};
    const auto worst =
        std::max_element(waited.begin(), waited.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    std::string text = fmt::format("{} of the steps were spent waiting, most of it for rank {}",
                                   percent(share), worst->first);
    const auto own = std::find_if(job.gpus.begin(), job.gpus.end(), [&](const GpuTime& gpu) {
        return std::find(gpu.ranks.begin(), gpu.ranks.end(), worst->first) != gpu.ranks.end();
    });
    if (own == job.gpus.end())
        return text + ": look at it first";
    text += " on " + own->node;
    std::pair<GpuUse, double> most{GpuUse::used, kWorthAChange};
    for (const GpuUse use : {GpuUse::input, GpuUse::throttled, GpuUse::unexplained})
        if (own->time.share_of_steps(use) > most.second)
            most = {use, own->time.share_of_steps(use)};
    return most.first == GpuUse::used
               ? text + ": it has more to do, or is slower; look at it first"
               : fmt::format("{}, which itself lost {} to: {}", text, percent(most.second),
                             gpu_use_words(most.first));
}

std::string throttled_change(const JobGpuTime& job, double share) {
    const GpuTime& worst = most_of(job, GpuUse::throttled);
    const auto reason =
        std::max_element(worst.throttled_by.begin(), worst.throttled_by.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    const std::string why = reason == worst.throttled_by.end() ? "" : reason->first;
    return fmt::format("clocks that were held down took {} of the steps, most on {}: {}",
                       percent(share), place_of(worst),
                       why == "thermal" ? "too hot, have its cooling seen to"
                       : why == "power" ? "its power supply brakes it, have it seen to"
                                        : "heat or power, have the node seen to");
}

std::string start_change(const JobGpuTime&, double share) {
    return fmt::format(
        "{} went before the first step: imports, compiling and loading; trainer.preload, caches of "
        "compiled code, fewer and longer jobs",
        percent(share));
}

std::string recovery_change(const JobGpuTime&, double share) {
    return fmt::format("failures and their restarts took {}: autolaunch report says why",
                       percent(share));
}

std::string lost_change(const JobGpuTime&, double share) {
    return fmt::format("{} was done in vain before failures: save more often", percent(share));
}

std::string ended_change(const JobGpuTime&, double share) {
    return fmt::format("{} went after ranks had ended: divide the work evenly", percent(share));
}

std::string nobody_change(const JobGpuTime& job, double share) {
    std::set<std::string> nodes;
    std::size_t count = 0, without_rank = 0;
    for (const GpuTime& gpu : job.gpus)
        if (gpu.time.of(GpuUse::nobody) > gpu.time.held() / 2) {
            ++count;
            without_rank += gpu.ranks.empty() ? 1 : 0;
            nodes.insert(gpu.node);
        }
    if (count == 0)
        return fmt::format("{} of the time nobody's process had the GPU: let go of it",
                           percent(share));
    return fmt::format(
        "{} GPU{} on {}{} had nobody's process: ask for {}, or {}", count, count == 1 ? "" : "s",
        *nodes.begin(), nodes.size() > 1 ? fmt::format(" and {} more", nodes.size() - 1) : "",
        job.gpus.size() - count,
        without_rank > 0 ? "start a rank on each" : "have each rank use the one that it was given");
}

std::string unexplained_change(const JobGpuTime& job, double share) {
    const bool told = std::any_of(job.gpus.begin(), job.gpus.end(),
                                  [](const GpuTime& gpu) { return gpu.input_told; });
    return fmt::format("GPUs idled for {} of the steps and nothing says why: {}", percent(share),
                       told ? "profile a step, the CPU may be what is slow"
                            : "have the trainer report its input (autolaunch.inputs), and see");
}

std::string unmeasured_change(const JobGpuTime&, double share) {
    return fmt::format("{} was not measured: monitoring.resource_tracking: true", percent(share));
}

struct Change {
    GpuUse use;
    bool of_steps;  ///< its share is of the time in steps
    std::string (*words)(const JobGpuTime&, double share);
};
constexpr Change kChanges[] = {
    {GpuUse::input, true, input_change},
    {GpuUse::checkpoint, true, checkpoint_change},
    {GpuUse::peer, true, peer_change},
    {GpuUse::throttled, true, throttled_change},
    {GpuUse::start, false, start_change},
    {GpuUse::recovery, false, recovery_change},
    {GpuUse::lost_work, false, lost_change},
    {GpuUse::ended, false, ended_change},
    {GpuUse::nobody, false, nobody_change},
    {GpuUse::unexplained, true, unexplained_change},
    {GpuUse::unmeasured, false, unmeasured_change},
};

std::string changes_of(const JobGpuTime& job, const GpuUseSeconds& total) {
    std::vector<std::pair<double, const Change*>> worth;
    for (const Change& change : kChanges)
        if (total.of(change.use) >= kWorthAChange * total.held())
            worth.emplace_back(total.of(change.use), &change);
    std::stable_sort(worth.begin(), worth.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    if (worth.size() > kMostChanges)
        worth.resize(kMostChanges);
    std::vector<std::string> words;
    for (const auto& [seconds, change] : worth) {
        const double share =
            change->of_steps ? total.share_of_steps(change->use) : seconds / total.held();
        if (std::string text = change->words(job, share); !text.empty())
            words.push_back(std::move(text));
    }
    return words.empty() ? "nothing: no cause took 5%" : fmt::format("{}", fmt::join(words, "; "));
}

}  // namespace

Receipt receipt_of(const JobGpuTime& job) {
    const GpuUseSeconds total = job.total();
    const double held = total.held();
    if (job.gpus.empty() || held <= 0)
        return {};
    const std::size_t count = job.gpus.size();
    const double each = held / static_cast<double>(count);
    const int measured = job.measured();
    Receipt receipt;
    receipt.asked =
        fmt::format("asked {} GPU{} for {}", count, count == 1 ? "" : "s",
                    format_duration(std::chrono::milliseconds(std::llround(each * 1000))));
    if (measured > 0)
        receipt.asked += fmt::format(
            ", {} busy{} · used {} of {}", job.busy(),
            measured == static_cast<int>(count) ? "" : fmt::format(" of {} measured", measured),
            percent(total.of(GpuUse::used) / held), gpu_hours(held));
    else
        receipt.asked += ", how many were busy was not measured";
    std::vector<std::pair<double, GpuUse>> causes;
    for (std::size_t at = 0; at < kGpuUses; ++at)
        if (const auto use = static_cast<GpuUse>(at);
            use != GpuUse::used && total.of(use) >= kShownShare * held)
            causes.emplace_back(total.of(use), use);
    std::stable_sort(causes.begin(), causes.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<std::string> words;
    for (const auto& [seconds, use] : causes)
        words.push_back(percent(seconds / held) + " " + gpu_use_words(use));
    receipt.idle =
        words.empty() ? "nothing above half a percent" : fmt::format("{}", fmt::join(words, " · "));
    receipt.change = changes_of(job, total);
    return receipt;
}

std::vector<std::string> Receipt::lines() const {
    if (asked.empty())
        return {};
    return {"gpus: " + asked, "idle: " + idle, "change: " + change};
}

// The scheduler's tools split at line ends and quotes.
std::string Receipt::comment(std::size_t most) const {
    if (asked.empty())
        return {};
    std::string text;
    for (const std::string& part : {asked, "idle: " + idle, "change: " + change})
        if (const std::string more = text.empty() ? part : text + "; " + part; more.size() <= most)
            text = more;
    std::string plain;
    for (std::size_t at = 0; at < text.size(); ++at)
        if (!plain.empty() && text.compare(at, 2, "·") == 0)
            plain.back() = ',', ++at;  // the space before it
        else if (const char c = text[at]; c >= ' ' && c <= '~' && c != '"')
            plain += c;
    return plain;
}

}  // namespace autolaunch::launcher
