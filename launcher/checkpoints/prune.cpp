#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/drain/tier.hpp"
#include "checkpoints/commands.hpp"
#include "checkpoints/open_checkpoint.hpp"
#include "report/units.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::chrono::minutes kRemoveTime(10);

struct Doomed {
    Candidate candidate;
    std::string why;
};

/// What prune makes of a directory.
struct Sorted {
    std::vector<Doomed> doomed;
    std::vector<UnusableCheckpoint> unknown;  // nobody can say that they may go
};

// Doomed is what is neither among the newest nor of a kept step. Nothing before the first complete
// one is found: what follows it is older, and there is one to go back to.
Sorted sorted_out(Storage& storage, const std::filesystem::path& directory,
                  const CheckpointRequest& request) {
    Sorted sorted;
    int complete = 0;
    const Listing listing = list_with_starts(storage, directory);
    for (const Candidate& candidate : listing.candidates) {
        if (candidate.name.ends_with(kReplacedSuffix))
            continue;  // a save goes on, or the next one clears it
        Look look = look_at(storage, directory, candidate, listing.starts);
        if (!look.manifest && is_unknown(look.unusable.why)) {
            sorted.unknown.push_back(std::move(look.unusable));
            continue;
        }
        if (!look.manifest) {
            if (complete > 0)
                sorted.doomed.push_back({candidate, "not complete, and there is a newer one"});
            continue;
        }
        ++complete;
        const bool of_kept_step = request.every > 0 && candidate.step % request.every == 0;
        if (complete > request.keep && !of_kept_step)
            sorted.doomed.push_back(
                {candidate, fmt::format("older than the newest {}", request.keep)});
    }
    return sorted;
}

}  // namespace

CheckpointOutcome prune_checkpoints(const CheckpointRequest& request) {
    const std::filesystem::path directory = request.paths.at(0);
    require_directory(directory);
    const auto tier = make_tier(directory.string());
    const auto [doomed, unknown] = sorted_out(tier->storage(), directory, request);
    auto deleted = nlohmann::ordered_json::array(), kept = nlohmann::ordered_json::array();
    CheckpointOutcome outcome;
    std::uint64_t bytes = 0;
    for (const Doomed& one : doomed) {
        const std::string& name = one.candidate.name;
        bytes += bytes_in(tier->storage(), directory / name);
        if (!request.dry_run)
            tier->remove({name, one.candidate.step, true, false}, Deadline::after(kRemoveTime));
        deleted.push_back({{"name", name}, {"why", one.why}});
        outcome.text +=
            fmt::format("{} {}: {}\n", request.dry_run ? "would delete" : "deleted", name, one.why);
    }
    for (const UnusableCheckpoint& one : unknown) {
        kept.push_back({{"name", one.name}, {"why", one.reason}});
        outcome.text +=
            fmt::format("kept {}, for it cannot be read: {}\n", one.name, shown(one.reason));
    }
    if (request.json)
        outcome.text = made_json("prune", {{"dry_run", request.dry_run},
                                           {"deleted", deleted},
                                           {"unreadable", kept},
                                           {"bytes", bytes}});
    else
        outcome.text += fmt::format("{} checkpoints, {}\n", doomed.size(), format_bytes(bytes));
    return outcome;
}

}  // namespace autolaunch::launcher
