#include "stopping/save_times.hpp"

#include "base/json_nesting.hpp"
#include "base/owned_folder.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kLongestFile = std::size_t{64} << 10;
constexpr double kLongest = 7 * 24 * 3600;  // more is no time of a save, and no sum may overflow

}  // namespace

void SaveTimes::add(double took) {
    if (!std::isfinite(took) || took < 0 || took > kLongest)
        return;
    if (seconds_.size() == kMost)
        seconds_.erase(seconds_.begin());
    seconds_.push_back(took);
}

std::optional<std::chrono::milliseconds> SaveTimes::p99() const {
    if (seconds_.empty())
        return std::nullopt;
    std::vector<double> sorted = seconds_;
    std::sort(sorted.begin(), sorted.end());
    const auto place =
        static_cast<std::size_t>(std::ceil(0.99 * static_cast<double>(sorted.size())));
    return std::chrono::milliseconds(std::llround(sorted.at(place - 1) * 1000));
}

std::string SaveTimes::to_text() const {
    return nlohmann::json{{"format", 1}, {"save_seconds", seconds_}}.dump() + "\n";
}

SaveTimes SaveTimes::parse(std::string_view text) {
    SaveTimes times;
    if (!nests_at_most(text, 4))
        return times;
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object() || json.value("format", nlohmann::json()) != 1)
        return times;
    const auto found = json.find("save_seconds");
    if (found == json.end() || !found->is_array())
        return times;
    for (const auto& one : *found)
        if (one.is_number())
            times.add(one.get<double>());
    return times;
}

SaveTimes SaveTimes::read(const std::filesystem::path& run_dir) {
    try {
        return parse(OwnedFolder::open(run_dir).read(kFile, kLongestFile).value_or(""));
    } catch (const Error&) {
        return {};  // measured anew
    }
}

void SaveTimes::write(const std::filesystem::path& run_dir) const {
    OwnedFolder::open(run_dir).replace(kFile, to_text());
}

void StepPace::step_done(Clock::time_point now) {
    if (last_ != Clock::time_point{})
        longest_ = std::max(now - last_, longest_ * 9 / 10);
    last_ = now;
}

std::chrono::milliseconds StepPace::longest() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(longest_);
}

}  // namespace autolaunch::launcher
