#pragma once
#include "checkpoint/commit/authentication.hpp"
#include "checkpoint/commit/generation_start.hpp"
#include "checkpoint/commit/usable.hpp"
#include "checkpoint/commit/writer_claim.hpp"
#include "checkpoint/storage/storage.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/checkpoint/manifest.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace autolaunch {

// Which checkpoints are in a directory. The names are described in docs/checkpoint-format.md.

inline constexpr char kManifestName[] = "manifest.json";
inline constexpr char kLatestName[] = "latest";
inline constexpr char kUnfinishedSuffix[] = ".tmp";
inline constexpr char kReplacedSuffix[] = ".replaced";

/// What calls itself a manifest and is larger is none, and is not read.
inline constexpr std::uint64_t kMaxManifestBytes = 1 << 28;

std::string checkpoint_name(std::int64_t step);  ///< "step-00001200"
/// Of such a name, or one that is to be replaced; nothing for other names.
std::optional<std::int64_t> step_of(const std::string& name);

/// A directory that is named like a complete checkpoint.
struct Candidate {
    std::int64_t step = 0;
    std::string name;
};

/// Newest first; of one step, the one in place before the one it was to replace.
std::vector<Candidate> list_candidates(Storage& storage, const std::filesystem::path& directory);

/// What a directory has: what may be a checkpoint, newest first, and what fences late ones.
struct Listing {
    std::vector<Candidate> candidates;
    std::vector<GenerationStart> starts;
};
Listing list_with_starts(Storage& storage, const std::filesystem::path& directory);

/// Throws Error{corrupt} or SystemError unless these files of it are there with the right sizes.
void require_files(Storage& storage, const std::filesystem::path& checkpoint,
                   const Manifest& manifest,
                   const std::function<bool(const Manifest::File& file)>& which);

/// Reads and checks a checkpoint's manifest, and that its files are there with the right sizes.
/// Digests of the shards are not read. With keys, nothing is looked at before the manifest's MAC.
/// Throws Error{corrupt} (NotAuthentic) or SystemError.
Manifest read_manifest(Storage& storage, const std::filesystem::path& checkpoint,
                       const AuthenticationKeys& keys = {});

/// What an error says of the checkpoint in which it was met. One without a manifest was published
/// once where something is in its directory, unless that is a bucket's: there the manifest comes
/// last, and here the name.
UnusableCheckpoint why_unusable(Storage& storage, const std::filesystem::path& directory,
                                const Candidate& candidate, const Error& error);

/// A complete checkpoint's manifest that counts, or why there is none.
struct Look {
    std::optional<Manifest> manifest = {};
    UnusableCheckpoint unusable = {};  ///< without a manifest
};
Look look_at(Storage& storage, const std::filesystem::path& directory, const Candidate& candidate,
             std::span<const GenerationStart> starts, const AuthenticationKeys& keys = {});
/// Why it came too late; nothing: it did not.
std::optional<UnusableCheckpoint> why_late(const Candidate& candidate, const Manifest& manifest,
                                           std::span<const GenerationStart> starts);

/// The newest complete checkpoint of the range, and those before it that cannot be used. `also` are
/// another directory's starts, which fence here, too. Throws where the directory cannot be listed.
Search search_newest(Storage& storage, const std::filesystem::path& directory,
                     const StepRange& range = {}, const AuthenticationKeys& keys = {},
                     std::span<const GenerationStart> also = {});

/// The same of one directory, as choose_checkpoint() chooses: throws where that throws.
std::optional<CheckpointInfo> find_newest(Storage& storage, const std::filesystem::path& directory,
                                          std::int64_t before, const AuthenticationKeys& keys = {});

/// What the files in a checkpoint's directory have; one that cannot be opened is not counted.
std::uint64_t bytes_in(Storage& storage, const std::filesystem::path& checkpoint);

/// Told of each checkpoint that counted until it was deleted, once it is.
using TellDeleted = std::function<void(const std::filesystem::path& checkpoint)>;

/// As Storage::remove_all(); false when nothing is left but what somebody has open on NFS.
bool remove_for_good(Storage& storage, const std::filesystem::path& path);

/// Deletes what crashed saves left behind: "*.tmp" that the writer may delete, "*.replaced" whose
/// replacement is in place, and what was published late. One of those replaced that cannot be read
/// gets another name instead. Lines for people.
std::vector<std::string> remove_leftovers(Storage& storage, const std::filesystem::path& directory,
                                          const WriterFence& fence, const TellDeleted& tell = {});

/// Renames the directory to "<name>.tmp" first, so that what is named like a checkpoint is never
/// half deleted.
void remove_checkpoint(Storage& storage, const std::filesystem::path& directory,
                       const std::string& name, const TellDeleted& tell = {});

/// Deletes what no_longer_kept() (retention.hpp) names, but not the steps `pinned`. Asks for no
/// MAC: with a wrong key it would delete what is right. Returns what stays because it cannot be
/// read.
std::vector<UnusableCheckpoint> remove_old(Storage& storage, const std::filesystem::path& directory,
                                           const CheckpointOptions& options,
                                           std::int64_t just_saved,
                                           const std::set<std::int64_t>& pinned = {},
                                           const TellDeleted& tell = {});

}  // namespace autolaunch
