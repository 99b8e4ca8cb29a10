#include "checkpoint/place/place.hpp"

#include "checkpoint/commit/catalog.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>

namespace autolaunch {

std::unique_ptr<CheckpointPlace> make_place(PlaceTools tools, std::vector<int> leaders) {
    const bool one =
        std::all_of(leaders.begin(), leaders.end(), [](int leader) { return leader == 0; });
    return one ? make_one_directory(std::move(tools))
               : make_node_directories(std::move(tools), std::move(leaders));
}

std::optional<CheckpointInfo> CheckpointPlace::newest_drained(std::int64_t before, bool is_needed) {
    const std::string& place = tools_.options.drain.place;
    try {
        return find_newest(tools_.storage, place, before, tools_.keys.authentication());
    } catch (const Error& error) {
        if (is_needed)
            throw;
        tools_.note("cannot look into " + place + ": " + error.what());
        return std::nullopt;
    }
}

void CheckpointPlace::tidy_directory(
    std::int64_t step, const std::function<void(std::optional<std::int64_t>)>& remove_others) {
    try {
        tools_.fence.require_held();
        tools_.storage.replace_link(tools_.options.directory / kLatestName, checkpoint_name(step));
        remove_leftovers(tools_.storage, tools_.options.directory, tools_.fence);
        remove_others(tools_.pinned ? tools_.pinned() : std::nullopt);
    } catch (const Error& error) {
        tools_.note(std::string("cannot tidy up: ") + error.what());
    }
}

}  // namespace autolaunch
