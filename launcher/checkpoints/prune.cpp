#include "checkpoint/commit/catalog.hpp"
#include "checkpoints/commands.hpp"
#include "checkpoints/open_checkpoint.hpp"
#include "report/units.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

namespace autolaunch::launcher {

namespace {

struct Doomed {
    std::string name;
    std::string why;
};

// What is neither among the newest nor of a kept step. Nothing before the first complete one is found: what follows it
// is older, and there is one to go back to.
std::vector<Doomed> doomed_of(Storage& storage, const std::filesystem::path& directory,
                              const CheckpointRequest& request) {
    std::vector<Doomed> doomed;
    int complete = 0;
    for (const Candidate& candidate : list_candidates(storage, directory)) {
        if (candidate.name.ends_with(kReplacedSuffix)) continue;  // a save goes on, or the next one clears it
        try {
            read_manifest(storage, directory / candidate.name);
        } catch (const Error&) {
            if (complete > 0) doomed.push_back({candidate.name, "not complete, and there is a newer one"});
            continue;
        }
        ++complete;
        const bool of_kept_step = request.every > 0 && candidate.step % request.every == 0;
        if (complete > request.keep && !of_kept_step)
            doomed.push_back({candidate.name, fmt::format("older than the newest {}", request.keep)});
    }
    return doomed;
}

std::uint64_t bytes_in(const std::filesystem::path& directory) {
    std::uint64_t bytes = 0;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
         entry.increment(error)) {
        std::error_code ignored;
        const auto size = entry->file_size(ignored);
        if (!ignored) bytes += size;
    }
    return bytes;
}

}  // namespace

CheckpointOutcome prune_checkpoints(const CheckpointRequest& request) {
    const std::filesystem::path directory = request.paths.at(0);
    require_directory(directory);
    const auto storage = make_posix_storage();
    const auto doomed = doomed_of(*storage, directory, request);
    CheckpointOutcome outcome;
    std::uint64_t bytes = 0;
    for (const Doomed& one : doomed) {
        bytes += bytes_in(directory / one.name);
        if (!request.dry_run) remove_checkpoint(*storage, directory, one.name);
        outcome.text += fmt::format("{} {}: {}\n", request.dry_run ? "would delete" : "deleted", one.name, one.why);
    }
    outcome.text += fmt::format("{} checkpoints, {}\n", doomed.size(), format_bytes(bytes));
    return outcome;
}

}  // namespace autolaunch::launcher
