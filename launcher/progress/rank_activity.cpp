#include "progress/rank_activity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace autolaunch::launcher {

namespace {

constexpr int kIdlePercent = 5;
constexpr std::int64_t kMuchThrottled = 5, kMuchWaited = 20;
constexpr std::int64_t kManyFaults = 50, kMuchRead = 4 << 20;  // a second
constexpr std::uint64_t kIdleBytes = 64U << 10;                // what it logs meanwhile

Doing doing_of(char state, bool moves) {
    if (state == 'T' || state == 't')
        return state == 'T' ? Doing::stopped : Doing::traced;
    if (moves || state == 'R')  // it may be the machine that has no time for it
        return Doing::working;
    return state == 'D' ? Doing::blocked : Doing::still;
}

// What keeps it from computing; empty: nothing that is seen.
std::string describe_want(const ActivityLook& first, const ActivityLook& second, std::int64_t ms) {
    const auto per_second = [ms](std::uint64_t before, std::uint64_t after) {
        return after > before ? static_cast<std::int64_t>(after - before) * 1000 / ms : 0;
    };
    const std::int64_t throttled = (second.throttled - first.throttled).count() * 100 / ms,
                       waited = (second.waited - first.waited).count() * 100 / ms,
                       faults = per_second(first.major_faults, second.major_faults),
                       read = per_second(first.disk_bytes, second.disk_bytes);
    std::vector<std::string> wants;
    if (throttled >= kMuchThrottled)
        wants.push_back("was throttled by its cgroup for " + std::to_string(throttled) +
                        " % of the time");
    if (waited >= kMuchWaited)
        wants.push_back("waited for a CPU for " + std::to_string(waited) +
                        " % of it: others compute on its cores");
    if (faults >= kManyFaults)
        wants.push_back("waited for " + std::to_string(faults) +
                        " pages a second that were not in memory (major faults)");
    if (read >= kMuchRead)
        wants.push_back("read " + std::to_string(read >> 20) +
                        " MiB a second from disk, not from the page cache");
    std::string text;
    for (const std::string& want : wants)
        text += (text.empty() ? "" : ", and ") + want;
    return text;
}

// NVML's clock event reasons, as far as cooling and power supply have them.
std::string describe_slowed(std::uint64_t reasons) {
    constexpr std::uint64_t kSoftwareThermal = 0x20, kHardwareThermal = 0x40, kPowerBrake = 0x80;
    if ((reasons & (kSoftwareThermal | kHardwareThermal)) != 0)
        return "has a GPU whose clock is slowed down: too hot";
    return (reasons & kPowerBrake) != 0
               ? "has a GPU whose clock is slowed down: its power supply's brake"
               : "";
}

}  // namespace

RankActivity compare_looks(const ActivityLook& first, const ActivityLook& second, char state) {
    const auto between =
        std::chrono::duration_cast<std::chrono::milliseconds>(second.at - first.at).count();
    // Descendants that ended between the looks take what they had used with them.
    const auto cpu = std::max<std::int64_t>(0, (second.cpu_time - first.cpu_time).count());
    const auto bytes = second.moved_bytes - std::min(first.moved_bytes, second.moved_bytes);
    RankActivity activity;
    activity.cpu_percent = between > 0 ? static_cast<int>(cpu * 100 / between) : 0;
    if (between > 0)
        activity.what = describe_want(first, second, between);
    activity.doing = doing_of(state, activity.cpu_percent > kIdlePercent || bytes > kIdleBytes);
    return activity;
}

std::string describe_gpu_pace(int rank, const std::vector<GpuPace>& gpus) {
    GpuPace own;
    int widest = 0;
    for (const GpuPace& gpu : gpus) {
        own = gpu.rank == rank ? gpu : own;
        widest = std::max(widest, gpu.link_width);
    }
    std::string text = describe_slowed(own.slowed_reasons);
    if (own.link_width > 0 && own.link_width < widest)
        text += fmt::format("{}has a GPU with {} PCIe lanes, others have {}",
                            text.empty() ? "" : ", and ", own.link_width, widest);
    return text;
}

}  // namespace autolaunch::launcher
