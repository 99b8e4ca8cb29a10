#include "checkpoint/commit/catalog.hpp"

#include "base/hash.hpp"
#include "base/text.hpp"
#include "checkpoint/commit/retention.hpp"
#include "checkpoint/s3/s3_settings.hpp"
#include "checkpoint/storage/stale.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cerrno>
#include <set>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

constexpr char kPrefix[] = "step-";

std::string padded(std::int64_t number, std::size_t digits) {
    std::string text = std::to_string(number);
    if (text.size() < digits)
        text.insert(0, digits - text.size(), '0');
    return text;
}

bool is_replaced(const std::string& name) { return name.ends_with(kReplacedSuffix); }

std::string without_suffix(const std::string& name) {
    return is_replaced(name) ? name.substr(0, name.size() - (sizeof kReplacedSuffix - 1)) : name;
}

std::vector<Candidate> candidates_among(const std::vector<std::string>& names) {
    std::vector<Candidate> found;
    for (const std::string& name : names)
        if (const auto step = step_of(name))
            found.push_back({*step, name});
    std::sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
        return a.step != b.step ? a.step > b.step : a.name.size() < b.name.size();
    });
    return found;
}

// Published late, they count for nobody. What one has replaced counts again without it.
void remove_late(Storage& storage, const fs::path& directory, const WriterFence& fence,
                 std::vector<std::string>& lines, const TellDeleted& tell) {
    const Listing listing = list_with_starts(storage, directory);
    const auto has = [&](const std::string& name) {
        return std::any_of(listing.candidates.begin(), listing.candidates.end(),
                           [&](const Candidate& one) { return one.name == name; });
    };
    for (const Candidate& candidate : listing.candidates) {
        // What this writer published itself needs no look, unless somebody has come over it.
        const bool is_own =
            fence.has_published(candidate.name) && !has(candidate.name + kReplacedSuffix);
        if (listing.starts.empty() || is_own)
            continue;
        const Look look = look_at(storage, directory, candidate, listing.starts);
        if (look.manifest || look.unusable.why != Unusable::late)
            continue;
        remove_checkpoint(storage, directory, candidate.name, tell);
        lines.push_back("removed " + look.unusable.line());
    }
}

}  // namespace

// Only names this library writes: "step-" and digits, padded the same way.
std::optional<std::int64_t> step_of(const std::string& name) {
    long long step = 0;
    const std::string stem = without_suffix(name);
    if (!stem.starts_with(kPrefix) || !parse_integer(stem.substr(sizeof kPrefix - 1), step) ||
        step < 0)
        return std::nullopt;
    if (checkpoint_name(step) != stem)
        return std::nullopt;
    return step;
}

std::string checkpoint_name(std::int64_t step) { return kPrefix + padded(step, 8); }

std::vector<Candidate> list_candidates(Storage& storage, const fs::path& directory) {
    return candidates_among(storage.list(directory));
}

Listing list_with_starts(Storage& storage, const fs::path& directory) {
    const auto names = storage.list(directory);
    return {candidates_among(names), read_starts(storage, directory, names)};
}

void require_files(Storage& storage, const fs::path& checkpoint, const Manifest& manifest,
                   const std::function<bool(const Manifest::File& file)>& which) {
    for (const auto& file : manifest.files) {
        if (!which(file))
            continue;
        const std::uint64_t bytes =
            again_if_stale([&] { return storage.open(checkpoint / file.name)->size(); });
        if (bytes != file.bytes)
            throw Error(ErrorCode::corrupt, (checkpoint / file.name).string() + " has " +
                                                std::to_string(bytes) + " bytes, not " +
                                                std::to_string(file.bytes));
    }
}

Manifest read_manifest(Storage& storage, const fs::path& checkpoint,
                       const AuthenticationKeys& keys) {
    const std::string text = read_whole(storage, checkpoint / kManifestName, kMaxManifestBytes);
    keys.require_authentic(text, (checkpoint / kManifestName).string());
    Manifest manifest = Manifest::parse(text);
    manifest.require_complete();
    require_files(storage, checkpoint, manifest, [](const Manifest::File&) { return true; });
    return manifest;
}

UnusableCheckpoint why_unusable(Storage& storage, const fs::path& directory,
                                const Candidate& candidate, const Error& error) {
    UnusableCheckpoint unusable{candidate.step, candidate.name, Unusable::unreadable, error.what()};
    const auto* system = dynamic_cast<const SystemError*>(&error);
    const int number = system ? system->error_number() : 0;
    if (error.code() == ErrorCode::corrupt || number == EISDIR)
        unusable.why = Unusable::damaged;
    if (error.code() == ErrorCode::unsupported)
        unusable.why = Unusable::unsupported;
    if (number == ENOTDIR)  // a file of such a name
        unusable.why = Unusable::unpublished;
    if (number != ENOENT)
        return unusable;
    try {
        const auto names = storage.list(directory / candidate.name);
        const bool has_manifest = std::binary_search(names.begin(), names.end(), kManifestName);
        // In a directory the name comes last, in a bucket the manifest.
        const bool was_published =
            has_manifest || (!names.empty() && !s3::is_s3_url(directory.string()));
        unusable.why = was_published ? Unusable::damaged : Unusable::unpublished;
    } catch (const Error& cannot_list) {
        unusable.reason = cannot_list.what();
    }
    return unusable;
}

std::optional<UnusableCheckpoint> why_late(const Candidate& candidate, const Manifest& manifest,
                                           std::span<const GenerationStart> starts) {
    const GenerationStart* const start = fenced_by(
        starts, {{manifest.run_id, static_cast<std::int64_t>(manifest.generation)}, manifest.step});
    if (start == nullptr)
        return std::nullopt;
    return UnusableCheckpoint{
        candidate.step, candidate.name, Unusable::late,
        "generation " + std::to_string(manifest.generation) + " published it when generation " +
            std::to_string(start->by.generation) + " had begun from " +
            (start->step ? "step " + std::to_string(*start->step) : "the beginning")};
}

Look look_at(Storage& storage, const fs::path& directory, const Candidate& candidate,
             std::span<const GenerationStart> starts, const AuthenticationKeys& keys) {
    try {
        Manifest manifest = read_manifest(storage, directory / candidate.name, keys);
        if (manifest.step != candidate.step)
            throw Error(ErrorCode::corrupt,
                        "its manifest is of step " + std::to_string(manifest.step));
        if (auto late = why_late(candidate, manifest, starts))
            return {std::nullopt, std::move(*late)};
        return {std::move(manifest), {}};
    } catch (const Error& error) {
        return {std::nullopt, why_unusable(storage, directory, candidate, error)};
    }
}

Search search_newest(Storage& storage, const fs::path& directory, const StepRange& range,
                     const AuthenticationKeys& keys, std::span<const GenerationStart> also) {
    Search search;
    auto [candidates, starts] = list_with_starts(storage, directory);
    starts.insert(starts.end(), also.begin(), also.end());
    for (const Candidate& candidate : candidates) {
        if (!range.contains(candidate.step))
            continue;
        Look look = look_at(storage, directory, candidate, starts, keys);
        if (look.manifest) {
            search.found = {
                candidate.step, directory / candidate.name, std::move(look.manifest->extra), {}};
            break;
        }
        search.unusable.push_back(std::move(look.unusable));
    }
    return search;
}

std::optional<CheckpointInfo> find_newest(Storage& storage, const fs::path& directory,
                                          std::int64_t before, const AuthenticationKeys& keys) {
    const Search search = search_newest(storage, directory, {.before = before}, keys);
    return choose_checkpoint(std::span(&search, 1), false, directory).found;
}

std::uint64_t bytes_in(Storage& storage, const fs::path& checkpoint) {
    std::uint64_t bytes = 0;
    for (const std::string& name : storage.list(checkpoint)) {
        try {
            bytes += storage.open(checkpoint / name)->size();
        } catch (const SystemError&) {
            // It was deleted just now, or cannot be opened.
        }
    }
    return bytes;
}

bool remove_for_good(Storage& storage, const fs::path& path) {
    try {
        storage.remove_all(path);
        return true;
    } catch (const SystemError& error) {
        if (error.error_number() != ENOTEMPTY && error.error_number() != EBUSY)
            throw;
        for (const std::string& name : storage.list(path))
            if (!name.starts_with(kOpenOnNfs))
                throw;
        return false;
    }
}

std::vector<std::string> remove_leftovers(Storage& storage, const fs::path& directory,
                                          const WriterFence& fence, const TellDeleted& tell) {
    std::vector<std::string> lines;
    remove_late(storage, directory, fence, lines, tell);
    const auto names = storage.list(directory);
    const std::set<std::string> present(names.begin(), names.end());
    for (const std::string& name : names) {
        if (fence.may_delete(name))
            remove_for_good(storage, directory / name);
        const auto step = step_of(name);
        if (!is_replaced(name) || !step || !present.contains(without_suffix(name)))
            continue;
        const Look look = look_at(storage, directory, {*step, name}, {});
        if (look.manifest || !is_unknown(look.unusable.why)) {
            remove_checkpoint(storage, directory, name, tell);
            continue;
        }
        const std::string aside = without_suffix(name) + ".unread-" + random_hex(4);
        storage.rename(directory / name, directory / aside);
        lines.push_back("what was replaced by " + without_suffix(name) + " is kept as " + aside +
                        ", for it cannot be read: " + look.unusable.reason);
    }
    return lines;
}

void remove_checkpoint(Storage& storage, const fs::path& directory, const std::string& name,
                       const TellDeleted& tell) {
    fs::path doomed = directory / (name + kUnfinishedSuffix);
    if (!remove_for_good(storage, doomed))
        doomed = directory / (name + '.' + random_hex(4) + kUnfinishedSuffix);
    storage.rename(directory / name, doomed);
    if (tell)  // from here on nobody finds it
        tell(directory / name);
    remove_for_good(storage, doomed);
}

std::vector<UnusableCheckpoint> remove_old(Storage& storage, const fs::path& directory,
                                           const CheckpointOptions& options,
                                           std::int64_t just_saved,
                                           const std::set<std::int64_t>& pinned,
                                           const TellDeleted& tell) {
    std::vector<KeptCheckpoint> checkpoints;
    std::vector<UnusableCheckpoint> unknown;
    const Listing listing = list_with_starts(storage, directory);
    for (const Candidate& candidate : listing.candidates)
        checkpoints.push_back({candidate.step, candidate.name});
    const auto look = [&](const KeptCheckpoint& checkpoint) {
        Look found =
            look_at(storage, directory, {checkpoint.step, checkpoint.name}, listing.starts);
        if (found.manifest)
            return LookedAt{LookedAt::complete, found.manifest->metric};
        if (!is_unknown(found.unusable.why))
            return LookedAt{LookedAt::incomplete, {}};
        unknown.push_back(std::move(found.unusable));
        return LookedAt{LookedAt::unknown, {}};
    };
    for (const std::string& name : no_longer_kept(checkpoints, options, just_saved, look))
        if (!pinned.contains(step_of(name).value_or(-1)))
            remove_checkpoint(storage, directory, name, tell);
    return unknown;
}

}  // namespace autolaunch
