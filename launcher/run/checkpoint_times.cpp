#include "run/checkpoint_times.hpp"

#include "base/file_system.hpp"
#include "plan/plan_checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostRuns = 32;
constexpr char kNotYet[] = "not measured yet";

std::string size_in(double bytes, const char* per = "") {
    return bytes < 1e9 ? fmt::format("{:.3g} MB{}", bytes / 1e6, per)
                       : fmt::format("{:.4g} GB{}", bytes / 1e9, per);
}

std::string time_in(double seconds) {
    if (seconds < 120)
        return fmt::format("{:.2g} s", seconds);
    return seconds < 7200 ? fmt::format("{:.0f} min", seconds / 60)
                          : fmt::format("{:.1f} h", seconds / 3600);
}

std::string by(std::int64_t step, const std::string& run) {
    return fmt::format("measured by step {} of {}", step, run);
}

// Its row, and how large a checkpoint is; 0: nobody knows. A trainer may have named its directory
// as it is from where it ran.
std::int64_t add_save(std::string& text, const std::string& directory, const std::string& workdir,
                      const std::vector<RunTimes>& runs) {
    for (const RunTimes& run : runs) {
        const auto& last = run.times.last();
        if (!last || (!directory.empty() && fs::path(workdir) / last->place != directory))
            continue;
        text += fmt::format(
            "  a save of {} stalls training for about {}, and is durable after "
            "about {} ({})\n",
            size_in(static_cast<double>(last->bytes)), time_in(last->stall_seconds),
            time_in(last->seconds), by(last->step, run.name));
        return last->bytes;
    }
    text += fmt::format("  a save: {}\n", kNotYet);
    return 0;
}

void add_place(std::string& text, const TierSettings& tier, std::int64_t save_bytes,
               const std::vector<RunTimes>& runs) {
    for (const RunTimes& run : runs)
        for (const MeasuredDrain& drain : run.times.drains()) {
            if (drain.place != tier.place)
                continue;
            double rate = static_cast<double>(drain.bytes) / drain.seconds;
            if (tier.bytes_per_second)
                rate = std::min(rate, static_cast<double>(*tier.bytes_per_second));
            const auto bytes = static_cast<double>(save_bytes > 0 ? save_bytes : drain.bytes);
            text += fmt::format("  the copy to {} takes about {}: {} at {} ({})\n", tier.place,
                                time_in(bytes / rate), size_in(bytes), size_in(rate, "/s"),
                                by(drain.step, run.name));
            return;
        }
    text += fmt::format("  the copy to {}: {}\n", tier.place, kNotYet);
}

std::string without_slash(std::string place) {
    while (place.size() > 1 && place.ends_with('/'))
        place.pop_back();
    return place;
}

}  // namespace

std::vector<RunTimes> runs_before(const LaunchPlan& plan) {
    std::vector<std::pair<fs::file_time_type, fs::path>> found;
    std::error_code error;
    for (const fs::path& run : list_folder(fs::path(plan.run_dir).parent_path(), error)) {
        std::error_code none;
        const auto at = fs::last_write_time(run / SaveTimes::kFile, none);
        if (!none && !fs::is_symlink(run, none))
            found.emplace_back(at, run);
    }
    std::sort(found.rbegin(), found.rend());
    std::vector<RunTimes> runs;
    for (const auto& [at, folder] : found) {
        if (runs.size() == kMostRuns)
            break;
        runs.push_back({folder.filename().string(), SaveTimes::read(folder)});
    }
    return runs;
}

std::string checkpoint_times(const LaunchPlan& plan, const std::vector<RunTimes>& runs) {
    const CheckpointSettings settings = checkpoint_settings(plan.spec.checkpoint, plan.workdir);
    if (settings == CheckpointSettings{})
        return {};
    std::string text = "\ncheckpoints take so long\n";
    const std::int64_t bytes =
        add_save(text, without_slash(settings.directory), plan.workdir, runs);
    for (TierSettings tier : tiers_of(settings)) {
        tier.place = without_slash(tier.place);
        add_place(text, tier, bytes, runs);
    }
    return text;
}

}  // namespace autolaunch::launcher
