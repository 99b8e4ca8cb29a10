#include "stopping/save_times.hpp"

#include "base/json_nesting.hpp"
#include "base/owned_folder.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kLongestFile = std::size_t{64} << 10, kLongestPlace = 1024;
constexpr double kLongest = 7 * 24 * 3600;  // more is no time of a save, and no sum may overflow

bool is_place(const std::string& place) { return !place.empty() && place.size() <= kLongestPlace; }

// Of a checkpoint there.
std::string place_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

bool is_time(double seconds) {
    return std::isfinite(seconds) && seconds >= 0 && seconds <= kLongest;
}

std::string place_in(const nlohmann::json& object) {
    const auto found = object.find("place");
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

double number_in(const nlohmann::json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_number() ? found->get<double>() : -1;
}

std::int64_t count_in(const nlohmann::json& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_number_unsigned() ||
        found->get<std::uint64_t>() > INT64_MAX)
        return -1;
    return static_cast<std::int64_t>(found->get<std::uint64_t>());
}

}  // namespace

void SaveTimes::add(double took) {
    if (!is_time(took))
        return;
    if (seconds_.size() == kMost)
        seconds_.erase(seconds_.begin());
    seconds_.push_back(took);
}

void SaveTimes::add_save(const std::string& path, MeasuredSave save) {
    save.place = place_of(path);
    add(std::move(save));
}

void SaveTimes::add(MeasuredSave save) {
    if (is_place(save.place) && save.step >= 0 && save.bytes > 0 && is_time(save.stall_seconds) &&
        is_time(save.seconds))
        last_ = std::move(save);
}

void SaveTimes::add_drain(const std::string& path, std::int64_t step, std::int64_t bytes,
                          std::int64_t copied, double seconds) {
    if (copied >= bytes / 2)
        add(MeasuredDrain{place_of(path), step, copied, seconds});
}

void SaveTimes::add(MeasuredDrain drain) {
    if (!is_place(drain.place) || drain.step < 0 || drain.bytes <= 0 || drain.seconds <= 0 ||
        !is_time(drain.seconds))
        return;
    std::erase_if(drains_, [&](const MeasuredDrain& one) { return one.place == drain.place; });
    if (drains_.size() == kMostPlaces)
        drains_.erase(drains_.begin());
    drains_.push_back(std::move(drain));
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
    nlohmann::json json = {{"format", 1}, {"save_seconds", seconds_}};
    if (last_)
        json["last_save"] = {{"place", last_->place},
                             {"step", last_->step},
                             {"bytes", last_->bytes},
                             {"stall_seconds", last_->stall_seconds},
                             {"seconds", last_->seconds}};
    for (const MeasuredDrain& drain : drains_)
        json["drains"].push_back({{"place", drain.place},
                                  {"step", drain.step},
                                  {"bytes", drain.bytes},
                                  {"seconds", drain.seconds}});
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

SaveTimes SaveTimes::parse(std::string_view text) {
    SaveTimes times;
    if (!nests_at_most(text, 4))
        return times;
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object() || json.value("format", nlohmann::json()) != 1)
        return times;
    const auto list = [&](const char* name) {
        const auto found = json.find(name);
        return found != json.end() && found->is_array() ? *found : nlohmann::json::array();
    };
    for (const auto& one : list("save_seconds"))
        if (one.is_number())
            times.add(one.get<double>());
    if (const auto last = json.find("last_save"); last != json.end() && last->is_object())
        times.add(MeasuredSave{place_in(*last), count_in(*last, "step"), count_in(*last, "bytes"),
                               number_in(*last, "stall_seconds"), number_in(*last, "seconds")});
    for (const auto& one : list("drains"))
        if (one.is_object())
            times.add(MeasuredDrain{place_in(one), count_in(one, "step"), count_in(one, "bytes"),
                                    number_in(one, "seconds")});
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
