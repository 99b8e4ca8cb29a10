#include "checkpoint/place/place.hpp"

#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/place/further_places.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>

namespace autolaunch {

std::unique_ptr<CheckpointPlace> make_place(PlaceTools tools, std::vector<int> leaders) {
    const bool one =
        std::all_of(leaders.begin(), leaders.end(), [](int leader) { return leader == 0; });
    return one ? make_one_directory(std::move(tools))
               : make_node_directories(std::move(tools), std::move(leaders));
}

std::vector<std::filesystem::path> drained_copies(const PlaceTools& tools, std::int64_t step) {
    std::vector<std::filesystem::path> copies;
    for (const TierOptions& tier : further_places(tools.options))
        copies.push_back(std::filesystem::path(tier.place) / checkpoint_name(step));
    return copies;
}

void tell_second_try(const PlaceTools& tools, const std::filesystem::path& copy,
                     const Error& damage) {
    tools.note("read from " + copy.string() + " instead: " + damage.what());
}

void tell_no_copy(const PlaceTools& tools, const std::filesystem::path& copy, const Error& error) {
    const auto* system = dynamic_cast<const SystemError*>(&error);
    if (!system || system->error_number() != ENOENT)
        tools.note("not read from there: " + copy.string() + ": " + error.what());
}

void KnownCheckpoints::add(const CheckpointInfo& failed, const std::filesystem::path& directory,
                           Unusable why, const std::string& reason) {
    const bool is_here = directory / failed.path.filename() == failed.path;
    unusable.insert(
        unusable.begin(),
        {failed.step, is_here ? checkpoint_name(failed.step) : failed.path.string(), why, reason});
}

StepRange KnownCheckpoints::left(StepRange range, const std::string& place) const {
    for (const UnusableCheckpoint& one : unusable) {
        const std::filesystem::path path(one.name);
        if (path == std::filesystem::path(place) / path.filename())
            range.before = std::min(range.before, one.step);
    }
    return range;
}

CheckpointPlace::CheckpointPlace(PlaceTools tools) : tools_(std::move(tools)) {
    for (TierOptions& tier : further_places(tools_.options))
        further_.push_back(std::move(tier.place));
}

std::vector<GenerationStart> CheckpointPlace::starts_here() const {
    const std::filesystem::path& directory = tools_.options.directory;
    return read_starts(tools_.storage, directory, tools_.storage.list(directory));
}

std::vector<Search> CheckpointPlace::search_drained(StepRange range,
                                                    const KnownCheckpoints& known) {
    std::vector<Search> found;
    if (further_.empty())
        return found;
    const auto starts = starts_here();
    for (const std::string& place : further_) {
        found.push_back(search_place(place, known.left_there(range, place), starts));
        if (const auto& newest = found.back().found)
            range.above = newest->step;
    }
    return found;
}

Search CheckpointPlace::search_place(const std::string& place, const StepRange& range,
                                     const std::vector<GenerationStart>& starts) {
    try {
        Search search =
            search_newest(tools_.storage, place, range, tools_.keys.authentication(), starts);
        for (UnusableCheckpoint& one : search.unusable)
            one.name = (std::filesystem::path(place) / one.name).string();
        return search;
    } catch (const Error& error) {
        const std::string what = "cannot look into " + place + ": " + error.what();
        if (!tools_.options.pass_over_unusable && !tools_.fence.is_of_this_run())
            throw Error(error.code(), what,
                        "it may have newer checkpoints than " + tools_.options.directory.string() +
                            ". To go on without it set pass_over_unusable (CheckpointOptions)");
        tools_.note(what);
        return {};
    }
}

std::optional<CheckpointInfo> CheckpointPlace::choose(std::vector<Search> places,
                                                      const KnownCheckpoints& known) {
    auto& here = places.front().unusable;
    here.insert(here.begin(), known.unusable.begin(), known.unusable.end());
    places.insert(places.begin(), Search{known.at_hand, {}});
    Choice choice =
        choose_checkpoint(places, tools_.options.pass_over_unusable, tools_.options.directory);
    for (const std::string& line : choice.passed_over)
        tell_once("passed over " + line);
    return std::move(choice.found);
}

void CheckpointPlace::tell_once(const std::string& text) {
    {
        const std::lock_guard lock(told_mutex_);
        if (!told_.insert(text).second)
            return;
    }
    tools_.note(text);
}

void CheckpointPlace::tidy_directory(
    std::int64_t step,
    const std::function<std::vector<UnusableCheckpoint>(const std::set<std::int64_t>&)>&
        remove_others) {
    try {
        tools_.fence.require_held();
        tools_.storage.replace_link(tools_.options.directory / kLatestName, checkpoint_name(step));
        for (const std::string& line : remove_leftovers(tools_.storage, tools_.options.directory,
                                                        tools_.fence, tools_.deleted))
            tools_.note(line);
        const auto unknown =
            remove_others(tools_.pinned ? tools_.pinned() : std::set<std::int64_t>());
        for (const UnusableCheckpoint& one : unknown)
            tell_once("not deleted, for it cannot be read: " + one.line());
    } catch (const Error& error) {
        tools_.note(std::string("cannot tidy up: ") + error.what());
    }
}

}  // namespace autolaunch
