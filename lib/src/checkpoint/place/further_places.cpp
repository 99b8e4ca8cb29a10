#include "checkpoint/place/further_places.hpp"

#include "base/refuse.hpp"

#include <cmath>
#include <filesystem>
#include <set>
#include <utility>

namespace autolaunch {

namespace {

std::string without_slash(std::string place) {
    while (place.size() > 1 && place.ends_with('/') && !place.ends_with("://"))
        place.pop_back();
    return place;
}

// "/a", "/a/" and "/a/." are one.
std::filesystem::path name_of(const std::filesystem::path& place) {
    return (place / "").lexically_normal();
}

void require_sense(const TierOptions& tier) {
    if (tier.place.empty())
        refuse("a further place of checkpoints has no name", "set TierOptions::place");
    if (tier.keep < 1)
        refuse(tier.place + ": keep is " + std::to_string(tier.keep) + "; it must be 1 or more");
    if (tier.keep_every < 0 || tier.keep_best < 0 || tier.every_steps < 0 ||
        !(tier.every_seconds >= 0) || !std::isfinite(tier.every_seconds))
        refuse(tier.place +
               ": keep_every, keep_best, every_steps and every_seconds must be 0 or more");
}

}  // namespace

std::vector<TierOptions> further_places(const CheckpointOptions& options) {
    const DrainOptions& drain = options.drain;
    std::vector<TierOptions> places = options.tiers;
    if (!drain.place.empty() && !places.empty())
        refuse(
            "drain.place (checkpoint.drain) and tiers (checkpoint.tiers) both say where "
            "checkpoints go",
            "name " + drain.place + " in tiers, too, and leave drain out");
    if (!drain.place.empty())
        places.push_back({.place = drain.place,
                          .keep = drain.keep,
                          .keep_every = drain.keep_every,
                          .keep_best = drain.keep_best});
    std::set<std::filesystem::path> names = {name_of(options.directory)};
    for (TierOptions& tier : places) {
        require_sense(tier);
        tier.place = without_slash(std::move(tier.place));
        if (!names.insert(name_of(tier.place)).second)
            refuse("checkpoints go to " + tier.place + " twice",
                   "name another place, or leave one out");
    }
    return places;
}

}  // namespace autolaunch
