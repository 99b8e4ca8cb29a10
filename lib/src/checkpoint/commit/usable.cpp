#include "checkpoint/commit/usable.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace autolaunch {

namespace {

constexpr std::size_t kListed = 8;  // in an error; the tool shows all of them

ErrorCode code_of(Unusable why) {
    switch (why) {
        case Unusable::unreadable:
            return ErrorCode::system;
        case Unusable::unsupported:
            return ErrorCode::unsupported;
        case Unusable::unpublished:
        case Unusable::late:
        case Unusable::damaged:
            break;
    }
    return ErrorCode::corrupt;
}

std::string listed(std::span<const UnusableCheckpoint> checkpoints) {
    std::string text;
    for (std::size_t i = 0; i < std::min(kListed, checkpoints.size()); ++i)
        text += (text.empty() ? "" : "; ") + checkpoints[i].line();
    if (checkpoints.size() > kListed)
        text += "; and " + std::to_string(checkpoints.size() - kListed) + " more";
    return text;
}

std::string how_to_see(const std::filesystem::path& directory) {
    return "autolaunch ckpt ls " + directory.string() + " shows all of them. ";
}

[[noreturn]] void throw_none_left(std::span<const UnusableCheckpoint> unusable,
                                  const std::filesystem::path& directory) {
    throw Error(code_of(unusable.front().why),
                "checkpoints are in " + directory.string() +
                    ", and none of them can be used: " + listed(unusable),
                how_to_see(directory) +
                    "Mend what keeps them from being read, or move them elsewhere. To start anew "
                    "beside them set pass_over_unusable (CheckpointOptions)");
}

[[noreturn]] void throw_unknown_newer(std::span<const UnusableCheckpoint> unusable,
                                      const CheckpointInfo& older,
                                      const std::filesystem::path& directory) {
    const std::string name = older.in_memory
                                 ? "the copy of step " + std::to_string(older.step) + " in memory"
                                 : older.path.filename().string();
    throw Error(code_of(unusable.front().why),
                "a newer checkpoint than " + (older.in_memory ? name : older.path.string()) +
                    " is there and cannot be read: " + listed(unusable),
                how_to_see(directory) +
                    "Mend what keeps it from being read, or move it elsewhere to go on from " +
                    name +
                    ". To go on from there as it is set pass_over_unusable "
                    "(CheckpointOptions)");
}

const Search* newest_of(std::span<const Search> places) {
    const Search* newest = nullptr;
    for (const Search& place : places)
        if (place.found && (!newest || place.found->step > newest->found->step))
            newest = &place;
    return newest;
}

}  // namespace

std::string_view name_of(Unusable why) noexcept {
    switch (why) {
        case Unusable::unpublished:
            return "unpublished";
        case Unusable::late:
            return "late";
        case Unusable::damaged:
            return "damaged";
        case Unusable::unsupported:
            return "unsupported";
        case Unusable::unreadable:
            break;
    }
    return "unreadable";
}

Choice choose_checkpoint(std::span<const Search> places, bool pass_over_unusable,
                         const std::filesystem::path& directory) {
    const Search* newest = newest_of(places);
    std::vector<UnusableCheckpoint> passed, stopping;
    for (const Search& place : places)
        for (const UnusableCheckpoint& one : place.unusable)
            if (!newest || one.step >= newest->found->step)
                passed.push_back(one);
    std::stable_sort(passed.begin(), passed.end(),
                     [](const auto& a, const auto& b) { return a.step > b.step; });
    for (const UnusableCheckpoint& one : passed)
        if (newest ? is_unknown(one.why) && one.step > newest->found->step : !is_nothing(one.why))
            stopping.push_back(one);
    if (!stopping.empty() && !pass_over_unusable) {
        if (newest)
            throw_unknown_newer(stopping, *newest->found, directory);
        throw_none_left(stopping, directory);
    }
    Choice choice;
    for (const UnusableCheckpoint& one : passed)
        choice.passed_over.push_back(one.line());
    if (newest) {
        choice.found = newest->found;
        choice.found->skipped = choice.passed_over;
    }
    return choice;
}

}  // namespace autolaunch
