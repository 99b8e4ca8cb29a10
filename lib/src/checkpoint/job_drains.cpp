#include "checkpoint/job_drains.hpp"

#include "base/hash.hpp"
#include "checkpoint/agreement.hpp"
#include "checkpoint/place/further_places.hpp"
#include "checkpoint/s3/routed_storage.hpp"
#include "checkpoint/s3/s3_settings.hpp"
#include "checkpoint/storage/striping.hpp"

#include <algorithm>
#include <utility>

namespace autolaunch {

namespace {

std::vector<int> members_of(const std::vector<int>& leaders) {
    std::vector<int> members = leaders;
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    return members;
}

// Nothing for those who do not lead. Collective: a checkpointer of the same place before may have
// left messages.
std::shared_ptr<DrainCrew> make_crew(Communicator& world, const std::vector<int>& members,
                                     const JobDrainEvents& events) {
    const std::string mark = broadcast_text(world, random_hex(8), 0);
    const auto me = std::find(members.begin(), members.end(), world.rank());
    std::shared_ptr<DrainCrew> crew;
    together(world, [&] {
        if (me == members.end())
            return;
        crew = std::make_shared<DrainCrew>(events.make_board("drain/" + mark + '/'),
                                           static_cast<int>(me - members.begin()),
                                           static_cast<int>(members.size()));
    });
    return crew;
}

DrainSettings settings_of(const TierOptions& tier, bool lower_is_better) {
    DrainSettings settings;
    settings.retention = {.keep = tier.keep,
                          .keep_every = tier.keep_every,
                          .keep_best = tier.keep_best,
                          .lower_is_better = lower_is_better,
                          .every_steps = tier.every_steps,
                          .every_ms = static_cast<std::int64_t>(tier.every_seconds * 1000)};
    settings.bytes_per_second = tier.bytes_per_second;
    return settings;
}

// What is made in it takes over how it is spread.
void stripe_place(const std::string& place, const StripeOptions& stripe,
                  const std::function<void(const std::string& text)>& note) {
    make_posix_storage()->create_directories(place);
    const std::string why = stripe_directory(parallel_file_system_of(place), stripe, place);
    if (!why.empty())
        note("warning: checkpoint: " + why);
}

DrainEvents events_of(const JobDrainEvents& job, bool is_first) {
    DrainEvents events{job.drained, job.note, job.deleted};
    if (is_first && job.counts)
        events.drained = [job](const DrainedCheckpoint& checkpoint) {
            job.counts(checkpoint);
            job.drained(checkpoint);
        };
    return events;
}

// Each from the directory and from the places before it. Directories of nodes have no checkpoint
// whole: what is in the first place is the nearest one then.
std::vector<DrainLink> links_of(const CheckpointOptions& options,
                                const std::vector<TierOptions>& places, bool is_spread,
                                const JobDrainEvents& events) {
    std::vector<DrainLink> links;
    std::vector<DrainSource> sources;
    if (!is_spread)
        sources.push_back({make_posix_storage(), options.directory});
    for (std::size_t i = 0; i < places.size(); ++i) {
        DrainLink link{nullptr, make_tier(places[i].place),
                       settings_of(places[i], options.lower_is_better), events_of(events, i == 0)};
        if (sources.empty()) {
            link.near = make_posix_storage();
            link.settings.directory = options.directory;
        } else {
            link.near = sources.front().storage;
            link.settings.directory = sources.front().directory;
            link.settings.others.assign(sources.begin() + 1, sources.end());
        }
        if (options.stripe.is_set() && !s3::is_s3_url(places[i].place))
            link.settings.before_first = [place = places[i].place, stripe = options.stripe,
                                          note = events.note] {
                stripe_place(place, stripe, note);
            };
        sources.push_back({make_routed_storage(), places[i].place});
        links.push_back(std::move(link));
    }
    return links;
}

}  // namespace

std::unique_ptr<DrainChain> make_job_drains(Communicator& world, const CheckpointOptions& options,
                                            const std::vector<int>& leaders,
                                            const JobDrainEvents& events) {
    const auto places = further_places(options);
    if (places.empty())
        return nullptr;
    const std::vector<int> members = members_of(leaders);
    const bool is_spread = members.size() > 1 || (members.size() == 1 && members.front() != 0);
    std::vector<DrainLink> links = links_of(options, places, is_spread, events);
    if (is_spread) {
        auto crew = make_crew(world, members, events);
        if (!crew)
            return nullptr;
        DrainSettings& first = links.front().settings;
        first.crew = std::move(crew);
        // The nodes share the limit alike.
        if (first.bytes_per_second > 0)
            first.bytes_per_second = std::max<std::uint64_t>(
                1, first.bytes_per_second / static_cast<std::uint64_t>(members.size()));
    }
    if (is_spread && world.rank() != 0)
        links.resize(1);
    else if (world.rank() != 0)
        return nullptr;
    return std::make_unique<DrainChain>(std::move(links));
}

}  // namespace autolaunch
