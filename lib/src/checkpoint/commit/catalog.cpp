#include "checkpoint/commit/catalog.hpp"

#include "base/hash.hpp"
#include "base/text.hpp"
#include "checkpoint/commit/retention.hpp"
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

}  // namespace

std::string checkpoint_name(std::int64_t step) { return kPrefix + padded(step, 8); }

std::vector<Candidate> list_candidates(Storage& storage, const fs::path& directory) {
    std::vector<Candidate> found;
    for (const std::string& name : storage.list(directory))
        if (const auto step = step_of(name))
            found.push_back({*step, name});
    std::sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
        return a.step != b.step ? a.step > b.step : a.name.size() < b.name.size();
    });
    return found;
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

std::optional<CheckpointInfo> find_newest(Storage& storage, const fs::path& directory,
                                          std::int64_t before, const AuthenticationKeys& keys) {
    std::vector<std::string> skipped;
    std::optional<NotAuthentic> refused;  // the newest
    for (const Candidate& candidate : list_candidates(storage, directory)) {
        if (candidate.step >= before)
            continue;
        try {
            const Manifest manifest = read_manifest(storage, directory / candidate.name, keys);
            if (manifest.step != candidate.step)
                throw Error(ErrorCode::corrupt,
                            "its manifest is of step " + std::to_string(manifest.step));
            return CheckpointInfo{manifest.step, directory / candidate.name, manifest.extra,
                                  std::move(skipped)};
        } catch (const Error& error) {
            skipped.push_back(candidate.name + ": " + error.what());
            const auto* not_authentic = dynamic_cast<const NotAuthentic*>(&error);
            if (not_authentic && !refused)
                refused = *not_authentic;
        }
    }
    if (refused)
        throw *refused;
    return std::nullopt;
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

void remove_leftovers(Storage& storage, const fs::path& directory, const WriterFence& fence) {
    const auto names = storage.list(directory);
    const std::set<std::string> present(names.begin(), names.end());
    for (const std::string& name : names) {
        if (fence.may_delete(name))
            remove_for_good(storage, directory / name);
        if (is_replaced(name) && step_of(name) && present.contains(without_suffix(name)))
            remove_checkpoint(storage, directory, name);
    }
}

void remove_checkpoint(Storage& storage, const fs::path& directory, const std::string& name) {
    fs::path doomed = directory / (name + kUnfinishedSuffix);
    if (!remove_for_good(storage, doomed))
        doomed = directory / (name + '.' + random_hex(4) + kUnfinishedSuffix);
    storage.rename(directory / name, doomed);
    remove_for_good(storage, doomed);
}

void remove_old(Storage& storage, const fs::path& directory, const CheckpointOptions& options,
                std::int64_t just_saved, std::optional<std::int64_t> pinned) {
    std::vector<KeptCheckpoint> checkpoints;
    for (const Candidate& candidate : list_candidates(storage, directory))
        checkpoints.push_back({candidate.step, candidate.name});
    const auto look = [&](const std::string& name) -> std::optional<CompleteCheckpoint> {
        try {
            return CompleteCheckpoint{read_manifest(storage, directory / name).metric};
        } catch (const Error&) {
            return std::nullopt;
        }
    };
    for (const std::string& name : no_longer_kept(checkpoints, options, just_saved, look))
        if (!pinned || step_of(name) != pinned)
            remove_checkpoint(storage, directory, name);
}

}  // namespace autolaunch
