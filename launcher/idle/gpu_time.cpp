#include "idle/gpu_time.hpp"

#include <algorithm>
#include <numeric>

namespace autolaunch::launcher {

namespace {

struct Words {
    const char *key, *words;
};
constexpr std::array<Words, kGpuUses> kWords = {{
    {"used", "used"},
    {"input", "input"},
    {"checkpoint", "checkpoint"},
    {"peer", "waiting for other ranks"},
    {"throttled", "clock held down"},
    {"start", "start"},
    {"recovery", "recovery"},
    {"lost_work", "lost work"},
    {"ended", "its rank had ended"},
    {"nobody", "nobody's process"},
    {"unexplained", "unexplained"},
    {"unmeasured", "not measured"},
}};

constexpr double kBusyShare = 0.05;

// Measured, while ranks took steps that count.
constexpr std::array<GpuUse, 7> kInSteps = {
    GpuUse::used,      GpuUse::input,  GpuUse::checkpoint, GpuUse::peer,
    GpuUse::throttled, GpuUse::nobody, GpuUse::unexplained};

double in_steps(const GpuUseSeconds& time) {
    double sum = 0;
    for (const GpuUse use : kInSteps)
        sum += time.of(use);
    return sum;
}

}  // namespace

const char* gpu_use_key(GpuUse use) { return kWords.at(static_cast<std::size_t>(use)).key; }
const char* gpu_use_words(GpuUse use) { return kWords.at(static_cast<std::size_t>(use)).words; }

double GpuUseSeconds::held() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

double GpuUseSeconds::share_of_steps(GpuUse use) const {
    const double all = in_steps(*this);
    return all > 0 ? of(use) / all : 0;
}

void GpuUseSeconds::add(const GpuUseSeconds& other) {
    for (std::size_t use = 0; use < kGpuUses; ++use)
        seconds.at(use) += other.seconds.at(use);
}

bool GpuTime::is_measured() const { return in_steps(time) > 0; }

bool GpuTime::is_busy() const {
    return is_measured() &&
           time.of(GpuUse::used) + time.of(GpuUse::throttled) + time.of(GpuUse::peer) >=
               kBusyShare * in_steps(time);
}

GpuUseSeconds JobGpuTime::total() const {
    GpuUseSeconds sum;
    for (const GpuTime& gpu : gpus)
        sum.add(gpu.time);
    return sum;
}

std::map<int, double> JobGpuTime::waited_for() const {
    std::map<int, double> sum;
    for (const GpuTime& gpu : gpus)
        for (const auto& [rank, seconds] : gpu.waited_for)
            sum[rank] += seconds;
    return sum;
}

int JobGpuTime::busy() const {
    return static_cast<int>(
        std::count_if(gpus.begin(), gpus.end(), [](const GpuTime& gpu) { return gpu.is_busy(); }));
}

int JobGpuTime::measured() const {
    return static_cast<int>(std::count_if(gpus.begin(), gpus.end(),
                                          [](const GpuTime& gpu) { return gpu.is_measured(); }));
}

}  // namespace autolaunch::launcher
