#pragma once
#include "checkpoint/storage/storage.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace autolaunch {

inline constexpr char kClaimName[] = "writer.json";

/// Which job writes.
struct WriterIdentity {
    std::string run_id = {};  ///< empty when nobody launched it
    std::int64_t generation = 0;
};

/// The content of writer.json: who may publish and delete in a directory of checkpoints
/// (docs/checkpoint-format.md).
struct WriterClaim {
    std::uint64_t epoch = 0;  ///< grows by one whenever somebody takes over
    WriterIdentity writer = {};
    std::string token = {};  ///< random: two that take over at once see who won

    std::string to_text() const;
    /// Throws Error{corrupt}.
    static WriterClaim parse(std::string_view text);
};

/// The name of a directory that is not published yet: "step-00001300.7-0011223344556677.tmp". An
/// epoch of 0 for other names that end in ".tmp".
struct UnfinishedName {
    std::uint64_t epoch = 0;
    std::string token = {};

    static std::optional<UnfinishedName> parse(std::string_view name);
};

/// Keeps two jobs, or two generations of one, from publishing or deleting side by side: the last
/// one that took the directory over is the writer, and a generation cannot take it from a later one
/// of its own run. The others notice before they publish or delete. Owner: the engine of rank 0.
/// Threads: one. Blocks: in storage.
class WriterFence {
public:
    WriterFence(Storage& storage, std::filesystem::path directory, WriterIdentity identity);

    /// Takes the directory over at the first call; later calls are require_held(). The directory
    /// must exist.
    void take();
    /// Reads the claim anew. Throws Error{aborted} that names who took over.
    void require_held();
    bool was_taken() const noexcept { return held_; }
    /// Whoever wrote here last is of the same run, this generation or an earlier one. False where
    /// nobody knows.
    bool is_of_this_run() const;
    /// Somebody else's directory, that this writer has not taken over.
    bool is_of_others() const;
    /// Whether an unfinished directory is ours, or of a writer that lost its claim before.
    bool may_delete(std::string_view unfinished_name) const;
    const WriterIdentity& identity() const noexcept { return mine_.writer; }
    std::string unfinished_name(const std::string& published_name) const;
    void note_published(const std::string& name) { published_.insert(name); }
    bool has_published(const std::string& name) const { return published_.contains(name); }

private:
    std::optional<WriterClaim> read() const;

    Storage& storage_;
    std::filesystem::path directory_;
    WriterClaim mine_;
    bool held_ = false;
    std::set<std::string> published_;
};

}  // namespace autolaunch
