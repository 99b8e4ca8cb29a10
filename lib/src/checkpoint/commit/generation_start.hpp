#pragma once
#include "checkpoint/commit/writer_claim.hpp"
#include "checkpoint/storage/storage.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch {

// The fence at the reader (docs/checkpoint-format.md, "What comes late"): a writer may stand still
// between its last look at writer.json and its rename, for as long as it likes.

/// What a generation found when it looked for a checkpoint to go on from: the content of
/// "start-….json". A plain value.
struct GenerationStart {
    WriterIdentity by = {};
    std::optional<std::int64_t> step = {};  ///< nothing: from the beginning

    /// Each generation of a run has its own: none can undo what another one has said.
    std::string file_name() const;
    std::string to_text() const;
    /// Throws Error{corrupt}; `name` is the file's in errors.
    static GenerationStart parse(std::string_view text, const std::string& name);
};

/// Of a checkpoint.
struct Published {
    WriterIdentity by = {};
    std::int64_t step = 0;
};

/// The start that a checkpoint came too late for: a generation after the one that wrote it found no
/// checkpoint so new. It counts for nobody. Null: it was in time, or of another run, or of a writer
/// that nobody launched. Pure.
const GenerationStart* fenced_by(std::span<const GenerationStart> starts,
                                 const Published& checkpoint);

/// Those that still say something: of each run those with fewer steps than all later ones. Pure.
std::vector<GenerationStart> needed(std::vector<GenerationStart> starts);

/// `names` are those in the directory. Throws Error{corrupt} or SystemError for one that cannot be
/// read: without it a late checkpoint could be taken for a good one.
std::vector<GenerationStart> read_starts(Storage& storage, const std::filesystem::path& directory,
                                         std::span<const std::string> names);

/// Durable when it returns. The first word of a generation counts: nothing is written where it has
/// one, nor in a directory without anything, in which no writer has begun: jobs whose checkpoints
/// are in memory alone leave none. Removes what needed() leaves out of its own run.
void write_start(Storage& storage, const std::filesystem::path& directory,
                 const GenerationStart& start);

/// Other runs', once another run writes here.
void remove_starts_but(Storage& storage, const std::filesystem::path& directory,
                       const std::string& run_id);

}  // namespace autolaunch
