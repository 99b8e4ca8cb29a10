#include "retention/left_checkpoints.hpp"

#include "base/deadline.hpp"
#include "base/file_system.hpp"
#include "base/text.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/commit/retention.hpp"
#include "checkpoint/commit/writer_claim.hpp"
#include "checkpoint/drain/tier.hpp"
#include "report/units.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::minutes kRemoveTime(10);
constexpr std::uint64_t kLargestClaim = 1 << 16;

bool is_bucket(const std::string& place) { return place.starts_with("s3://"); }

std::optional<std::string> claimed_by(Storage& storage, const fs::path& directory) {
    const auto names = storage.list(directory);
    if (std::find(names.begin(), names.end(), kClaimName) == names.end())
        return std::nullopt;
    return WriterClaim::parse(read_whole(storage, directory / kClaimName, kLargestClaim))
        .writer.run_id;
}

std::string why_still_written(const std::string& run_id, const CheckpointSurroundings& around) {
    for (const LeftRun& run : around.runs)
        if (run.run_id == run_id) {
            if (run.is_running)
                return "the job in " + run.folder + " writes there";
            return run.doubt.empty() ? std::string() : run.folder + ": " + run.doubt;
        }
    return "?";
}

// Why nothing may be removed: a job that is not over writes there, or nobody knows.
std::string why_untouched(Storage& storage, const CheckpointPlace& place, const fs::path& directory,
                          const CheckpointSurroundings& around) {
    if (place.keep == 0)
        return "the spec has no checkpoint.keep";
    const std::string writer = claimed_by(storage, directory).value_or("");
    std::string why = why_still_written(writer, around);
    if (why != "?")
        return why;
    const std::string job = writer.substr(0, writer.find_first_of("._"));
    if (!job.empty() && job.find_first_not_of("0123456789") == job.npos)
        if (const auto state = around.ask(job))
            return *state == "over" ? std::string() : "job " + job + " is " + *state;
    struct stat facts {};
    if (is_bucket(place.place) || ::stat(directory.c_str(), &facts) != 0)
        return "whether a job still writes there cannot be told: name its run directory";
    const std::chrono::seconds age(around.now_s - facts.st_mtim.tv_sec);
    return age > around.older_than
               ? std::string()
               : fmt::format("who writes there is not known, and it changed {} ago",
                             format_duration(age));
}

/// What the rules are told of each, and how much it holds.
class Looks {
public:
    Looks(Storage& storage, const fs::path& directory, const Listing& listing)
        : storage_(storage), directory_(directory), listing_(listing) {}

    LookedAt operator()(const KeptCheckpoint& one) {
        const Look look = look_at(storage_, directory_, {one.step, one.name}, listing_.starts);
        if (look.manifest)
            return {LookedAt::complete, look.manifest->metric};
        const bool unknown = is_unknown(look.unusable.why);
        if (unknown)
            unknown_[one.name] = look.unusable.reason;
        return {unknown ? LookedAt::unknown : LookedAt::incomplete, {}};
    }
    std::string why_unknown(const std::string& name) const {
        const auto found = unknown_.find(name);
        return found == unknown_.end() ? std::string() : found->second;
    }

private:
    Storage& storage_;
    const fs::path& directory_;
    const Listing& listing_;
    std::map<std::string, std::string> unknown_;
};

std::string words_of(const CheckpointPlace& place) {
    std::string words = fmt::format("the newest {}", place.keep);
    if (place.keep_every > 0)
        words += fmt::format(", multiples of {}", place.keep_every);
    if (place.keep_best > 0)
        words += fmt::format(", the best {}", place.keep_best);
    return words + " stay";
}

// Who may go on from which of them, by their names. A plan may be large, and is read once.
std::map<std::string, std::string> who_needs(const std::vector<KeptCheckpoint>& known,
                                             const fs::path& directory,
                                             const CheckpointSurroundings& around) {
    std::map<std::string, std::string> needs;
    const auto path_of = [&](const KeptCheckpoint& one) { return (directory / one.name).string(); };
    for (const KeptCheckpoint& one : known)
        if (std::find(around.named.begin(), around.named.end(), path_of(one)) != around.named.end())
            needs[one.name] = "the spec's checkpoint.restore_from names it";
    for (const LeftRun& run : around.runs) {
        const std::string plan = plan_to_go_on(run);
        for (const KeptCheckpoint& one : known)
            if (names(plan, path_of(one)))
                needs.emplace(one.name, "the job of " + run.folder + " names it");
    }
    return needs;
}

}  // namespace

LeftCheckpoints collect_checkpoints(const CheckpointPlace& place,
                                    const CheckpointSurroundings& around, bool apply) {
    LeftCheckpoints left{.place = place.place};
    if (!is_bucket(place.place) && !is_folder(place.place))
        return left;
    const auto tier = make_tier(place.place);
    Storage& storage = tier->storage();
    const fs::path directory = tier->directory();
    left.untouched = why_untouched(storage, place, directory, around);
    const Listing listing = list_with_starts(storage, directory);
    std::vector<KeptCheckpoint> known;
    for (const Candidate& one : listing.candidates)
        if (!one.name.ends_with(kReplacedSuffix))  // a save goes on, or the next one clears it
            known.push_back({one.step, one.name});
    Looks looks(storage, directory, listing);
    std::set<std::string> going;
    if (left.untouched.empty()) {
        CheckpointOptions rules;
        rules.keep = place.keep;
        rules.keep_every = place.keep_every;
        rules.keep_best = place.keep_best;
        rules.lower_is_better = place.lower_is_better;
        for (std::string& name : no_longer_kept(
                 known, rules, -1, [&](const KeptCheckpoint& one) { return looks(one); }))
            going.insert(std::move(name));
    }
    const auto needs = who_needs(known, directory, around);
    for (const KeptCheckpoint& one : known) {
        LeftCheckpoint found{one.name, one.step, bytes_in(storage, directory / one.name), {}};
        found.verdict = {going.contains(one.name), words_of(place)};
        if (const std::string why = looks.why_unknown(one.name); !why.empty())
            found.verdict = {false, "it cannot be read: " + why};
        if (const auto who = needs.find(one.name); who != needs.end())
            found.verdict = {false, who->second};
        if (!left.untouched.empty())
            found.verdict = {false, left.untouched};
        if (found.verdict.goes && apply)
            tier->remove({one.name, one.step, true, false, {}}, Deadline::after(kRemoveTime));
        left.all.push_back(std::move(found));
    }
    return left;
}

}  // namespace autolaunch::launcher
