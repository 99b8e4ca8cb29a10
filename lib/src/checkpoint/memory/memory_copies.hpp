#pragma once
#include "checkpoint/memory/choice.hpp"
#include "checkpoint/memory/contents.hpp"
#include "checkpoint/memory/slot.hpp"
#include "checkpoint/memory/slot_files.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/session.hpp>

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::memory {

/// What is decided about all copies at once.
struct CopyOptions {
    int generation = 0;
    int node_rank = 0;
    bool looks = true;  ///< latest() looks for copies at all
    bool peers = true;  ///< a second copy of each shard on another node, where there is one
    int threads = 1;    ///< that copy and verify
    std::function<void(const std::string& text)> note = {};
};

/// Copies of the ranks' shards in memory, and the way back (docs/memory-checkpoints.md). Owner:
/// Checkpointer. Threads: one. Blocks: every function, in collectives and for what memory and
/// network take; all are collective.
class MemoryCopies {
public:
    MemoryCopies(std::unique_ptr<SlotFiles> files, Communicator world, CopyOptions options);

    /// Throws on every rank when any rank fails; the newest save that was finished is then still
    /// there.
    CheckpointInfo save(std::int64_t step, const fsdp::State& state, const SaveOptions& options);
    /// The newest save of a step before `before` of which every shard has a copy that is whole and
    /// undamaged.
    std::optional<CheckpointInfo> latest(std::int64_t before);
    /// What the last latest() found.
    /// Returns the names that no copy has, where options.allow_missing; types and cuts must be
    /// those that were saved.
    std::vector<std::string> load(const CheckpointInfo& checkpoint, const fsdp::State& state,
                                  const LoadOptions& options);
    std::vector<std::string> load_opaque(const CheckpointInfo& checkpoint, const std::string& name);
    /// Where copies are kept, in a few words.
    std::string describe();

private:
    struct Entry {
        std::optional<Slot> slot;
        bool ours = false;  ///< opened to be written in this process
    };
    using Entries = std::array<Entry, kSlots>;
    struct Statement;

    void meet();
    Entries& look(int shard);
    SlotStates states(int shard);
    Slot& slot_for_writing(int shard, std::uint64_t used_bytes);
    Slot* find(int shard, const SaveName& name);
    std::vector<int> kept_shards() const;
    std::vector<Statement> exchange_statements(const Statement& mine);
    std::vector<Copy> gather_copies();  // of all ranks, on rank 0
    std::optional<Restore> choose(const std::vector<Copy>& copies, std::int64_t before);
    std::vector<std::uint8_t> find_damaged(const Restore& choice);
    void require_found(const CheckpointInfo& checkpoint) const;
    void fetch_missing();
    Contents own_contents(const Slot*& slot);
    std::vector<std::string> fill(const fsdp::State& state, const LoadOptions& options);

    std::unique_ptr<SlotFiles> files_;
    Communicator world_;
    CopyOptions options_;
    std::optional<std::vector<int>> keepers_;  ///< by shard; from meet() on
    std::map<int, Entries> slots_;             ///< by shard, of those that were looked at
    bool told_ = false;                        ///< where copies are kept
    std::optional<SaveName>
        complete_;  ///< the newest that all ranks have finished, or were restored from
    std::optional<Restore> choice_;
};

/// For a rank that has an agent at `socket`, or none where that is empty.
std::unique_ptr<MemoryCopies> make_copies(const RankInfo& rank, const std::filesystem::path& socket,
                                          Communicator world, const CheckpointOptions& options,
                                          std::function<void(const std::string&)> note);

}  // namespace autolaunch::memory
