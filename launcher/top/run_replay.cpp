#include "top/run_replay.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostSampleBytes = std::size_t{4} << 20;  // twice what a sampler writes

/// The moment of a sample's line, without parsing it.
std::optional<ViewTime> time_of_sample(std::string_view line) {
    constexpr std::string_view kKey = "\"t\":";
    const std::size_t found = line.find(kKey);
    std::int64_t ms = 0;
    if (found == line.npos)
        return std::nullopt;
    const char* const begin = line.data() + found + kKey.size();
    const auto [end, error] = std::from_chars(begin, line.data() + line.size(), ms);
    return error == std::errc() ? std::optional(ViewTime(std::chrono::milliseconds(ms)))
                                : std::nullopt;
}

}  // namespace

RunReplay::RunReplay(RunSource& source, JobModel model)
    : source_(source), follower_(source, std::move(model)) {
    const auto span = span_of_run(source);
    if (!span)
        throw Error(ErrorCode::corrupt, "the run has no events that can be understood",
                    "name a run directory, such as runs/latest: it has an events.jsonl");
    first_ = span->first;
    last_ = span->second;
    follower_.look();
    index_samples();
    now_ = first_ - std::chrono::milliseconds(1);
    places_.emplace(now_, follower_.place());
}

JobView RunReplay::at(ViewTime moment) {
    moment = std::clamp(moment, first_, last_);
    const auto kept = std::prev(places_.upper_bound(moment));
    if (moment < now_ || kept->first > now_) {
        follower_.go_to(kept->second);
        now_ = kept->first;
    }
    const auto every = std::max((last_ - first_) / kPlaces, std::chrono::milliseconds(1));
    while (now_ < moment) {
        const auto boundary = std::max(first_, first_ + (now_ - first_) / every * every + every);
        now_ = std::min(boundary, moment);
        // What a clock that was set back has written later counts when the end is reached.
        const auto until = now_ >= last_ ? std::nullopt : std::optional(now_);
        while (!follower_.advance(until))
            ;
        if (now_ == boundary)
            places_.try_emplace(now_, follower_.place());
    }
    take_samples(moment);
    return follower_.model().view(moment);
}

void RunReplay::index_samples() {
    for (const RunFile& file : follower_.files()) {
        if (!file.name.starts_with("samples/"))
            continue;
        const RunFilePart part = source_.read(file.name, 0, kMostSampleBytes);
        auto& places = samples_[file.name];
        std::size_t begin = 0;
        for (std::size_t end = 0; (end = part.bytes.find('\n', begin)) != std::string::npos;
             begin = end + 1)
            if (const auto time =
                    time_of_sample(std::string_view(part.bytes).substr(begin, end - begin)))
                places.push_back({*time, begin, end - begin});
        std::stable_sort(places.begin(), places.end(),
                         [](const auto& one, const auto& other) { return one.time < other.time; });
    }
}

void RunReplay::take_samples(ViewTime moment) {
    for (const auto& [name, places] : samples_) {
        const auto next = std::upper_bound(
            places.begin(), places.end(), moment,
            [](ViewTime time, const SampleLinePlace& place) { return time < place.time; });
        if (next == places.begin())
            continue;
        const SampleLinePlace& place = *std::prev(next);
        follower_.take_sample(source_.read(name, place.offset, place.bytes).bytes);
    }
}

}  // namespace autolaunch::launcher
