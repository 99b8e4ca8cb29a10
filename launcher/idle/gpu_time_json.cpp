#include "idle/gpu_time.hpp"
#include "idle/receipt.hpp"

#include <nlohmann/json.hpp>

#include <cmath>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kGpuTimeFormat = 1;

double to_milliseconds(double seconds) { return std::round(seconds * 1000) / 1000; }

Json seconds_json(const GpuUseSeconds& time) {
    Json json = Json::object();
    for (std::size_t use = 0; use < kGpuUses; ++use)
        json[gpu_use_key(static_cast<GpuUse>(use))] = to_milliseconds(time.seconds.at(use));
    return json;
}

Json waited_json(const std::map<int, double>& waited_for) {
    Json json = Json::array();
    for (const auto& [rank, seconds] : waited_for)
        json.push_back({{"rank", rank}, {"seconds", to_milliseconds(seconds)}});
    return json;
}

Json reasons_json(const std::map<std::string, double>& seconds_by_reason) {
    Json json = Json::object();
    for (const auto& [reason, seconds] : seconds_by_reason)
        json[reason] = to_milliseconds(seconds);
    return json;
}

Json gpu_json(const GpuTime& gpu) {
    return {{"node", gpu.node},
            {"bdf", gpu.bdf},
            {"model", gpu.model},
            {"ranks", gpu.ranks},
            {"busy", gpu.is_measured() ? Json(gpu.is_busy()) : Json()},
            {"held_seconds", to_milliseconds(gpu.time.held())},
            {"seconds", seconds_json(gpu.time)},
            {"waited_for", waited_json(gpu.waited_for)},
            {"throttled_by", reasons_json(gpu.throttled_by)},
            {"slowed_by_unknown", reasons_json(gpu.clock_unknown)}};
}

}  // namespace

std::string gpu_time_json(const JobGpuTime& job) {
    const GpuUseSeconds total = job.total();
    const Receipt receipt = receipt_of(job);
    Json json = {{"format", kGpuTimeFormat},
                 {"asked", job.gpus.size()},
                 {"measured", job.measured()},
                 {"busy", job.measured() > 0 ? Json(job.busy()) : Json()},
                 {"held_seconds", to_milliseconds(total.held())},
                 {"seconds", seconds_json(total)},
                 {"waited_for", waited_json(job.waited_for())},
                 {"receipt", receipt.lines()},
                 {"gpus", Json::array()},
                 {"gaps", job.gaps}};
    for (const GpuTime& gpu : job.gpus)
        json["gpus"].push_back(gpu_json(gpu));
    return json.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace autolaunch::launcher
