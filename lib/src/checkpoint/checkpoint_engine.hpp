#pragma once
#include "checkpoint/age/age_keys.hpp"
#include "checkpoint/checkpoint_keys.hpp"
#include "checkpoint/commit/lineage.hpp"
#include "checkpoint/commit/writer_claim.hpp"
#include "checkpoint/place/place.hpp"
#include "checkpoint/save/async_save.hpp"
#include "checkpoint/save/file_saver.hpp"
#include "checkpoint/storage/aligned_memory.hpp"
#include "checkpoint/storage/storage.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/checkpoint/manifest.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace autolaunch {

/// What the engine tells whoever watches the job. Called on rank 0, by the trainer's thread or the
/// writer's; published and pinned on the leader of every node where nodes have directories of their
/// own.
struct CheckpointEvents {
    std::function<void(std::int64_t step, const std::filesystem::path& path, double stall_seconds)>
        published;
    std::function<void(const std::string& text)> note;
    std::chrono::milliseconds progress_every{
        10'000};  ///< a note, while rank 0 writes beside the trainer
    /// The steps that are being copied elsewhere, and must stay.
    std::function<std::set<std::int64_t>()> pinned = {};
    /// A checkpoint's state was read by all ranks.
    std::function<void(std::int64_t step, const std::filesystem::path& path)> loaded = {};
    /// One that counted is gone; on the leader of every node, as published.
    std::function<void(const std::filesystem::path& path)> deleted = {};
};

/// Copies that are nearer than any file (memory/memory_copies.hpp): their newest of a step before
/// `before`, and how it is loaded. Empty: there are none.
struct CopiesInMemory {
    std::function<std::optional<CheckpointInfo>(std::int64_t before)> latest = {};
    std::function<void(const CheckpointInfo& newest)> load = {};
};

/// The commit protocol and its reverse, over any storage. Owner: Checkpointer. Threads: one; it has
/// a copier and a writer of its own while a save_async() goes on, whose collectives run on a
/// communicator split off for them, so that they never come between the trainer's. Blocks: every
/// function, in collectives and in storage, but save_async() only until the ranks agreed and a save
/// before is over.
class CheckpointEngine {
public:
    /// `leaders` of leaders_of_directories(), where nodes have directories of their own; else
    /// empty, or all 0.
    CheckpointEngine(std::shared_ptr<Storage> storage, Communicator world,
                     const CheckpointOptions& options, CheckpointEvents events,
                     WriterIdentity identity = {}, std::vector<int> leaders = {});
    CheckpointEngine(const CheckpointEngine&) = delete;
    /// Finishes a save that goes on; while an exception unwinds the stack, it aborts it instead.
    ~CheckpointEngine();

    CheckpointInfo save(std::int64_t step, const fsdp::State& state, const SaveOptions& options);
    void prepare_async(const fsdp::State& state);
    void save_async(std::int64_t step, const fsdp::State& state, const SaveOptions& options);
    void wait_copied();
    std::optional<CheckpointInfo> finish();
    std::optional<SaveProgress> progress() const;
    /// What the last published save cost; nothing when this was asked before.
    struct Cost {
        double stall_seconds = 0;    ///< the trainer stood still
        double durable_seconds = 0;  ///< from its begin until it was published
    };
    std::optional<Cost> take_cost();
    /// Of the last save that was published, also from within Events::published.
    double durable_seconds() const { return durable_seconds_; }
    std::int64_t published_bytes() const { return published_bytes_; }  ///< rank 0 knows
    /// `at_hand`: a copy in memory, which is taken where nothing is newer.
    std::optional<CheckpointInfo> latest(std::int64_t before,
                                         const std::optional<CheckpointInfo>& at_hand = {});
    /// engine_load.cpp: the following, and latest().
    std::vector<std::string> load(const CheckpointInfo& checkpoint, const fsdp::State& state,
                                  const LoadOptions& options = {});
    std::optional<CheckpointInfo> load_latest(const fsdp::State& state,
                                              const LoadOptions& options = {},
                                              const CopiesInMemory& copies = {});
    std::vector<std::string> load_opaque(const CheckpointInfo& checkpoint, const std::string& name);

private:
    struct Job {
        std::int64_t step = 0;
        std::string extra;
        std::vector<OpaqueState> opaque;
        std::optional<double> metric;
        fsdp::Arrangement arrangement;
        WritePlan plan;
        std::filesystem::path unfinished = {};
        std::chrono::steady_clock::time_point begin = {};
        bool in_place = false;    // the trainer waits for all of it
        bool has_frozen = false;  // tensors; the same on all ranks
    };
    using WriteFiles =
        std::function<Manifest(const std::filesystem::path& directory)>;  // the rank's fragment

    Job agreed_job(std::int64_t step, const fsdp::State& state, const SaveOptions& options);
    CheckpointInfo commit(Communicator& world, Job& job, const WriteFiles& write);
    void commit_as_writer(Communicator& world, Job& job, const WriteFiles& write);
    void prepare_directory(Communicator& world, Job& job);
    void stripe_once();
    void find_parent(Communicator& world);
    void note_remarks(Communicator& world);
    Manifest write_and_verify(Communicator& world, const Job& job, const WriteFiles& write);
    void complete(Manifest& manifest, const Job& job);
    std::string finished_manifest(Manifest& manifest, const Job& job);
    std::optional<LineageParent> parent_at(std::int64_t step);
    void stage(const std::filesystem::path& unfinished, const std::string& text);
    void publish(const std::filesystem::path& unfinished, std::int64_t step);
    void note_start(const std::optional<CheckpointInfo>& found);
    std::vector<int> neighbours() const;  // of each rank: whose files it verifies
    void reserve_staging(const WritePlan& plan);
    void note(const std::string& text) const;
    void tell_loaded(const PublishedCheckpoint& checkpoint) const;
    WriteProgress with_notes(WriteProgress inner) const;

    std::shared_ptr<Storage> storage_;
    Communicator world_;
    CheckpointOptions options_;
    CheckpointEvents events_;
    WriterFence fence_;
    // Rank 0 asks for those that authenticate before the first save begins or the first checkpoint
    // is looked for, so the writer's thread only uses them.
    CheckpointKeys keys_;
    std::unique_ptr<CheckpointPlace> place_;
    std::vector<age::Recipient> recipients_;
    FileSaver saver_;
    bool has_striped_ = false;
    bool has_looked_ = false;  // for the newest checkpoint of all

    AlignedMemory staging_;
    std::optional<Communicator> writers_;   // the same ranks, for the writers' collectives
    std::atomic<double> stall_seconds_{0};  // of the save that goes on
    std::atomic<double> cost_stall_seconds_{0},
        durable_seconds_{0};  // of the last that was published
    std::atomic<bool> has_cost_{false};
    std::atomic<std::int64_t> published_bytes_{0};
    Job job_;
    std::optional<LineageParent> saved_last_;  // by this process, on rank 0
    std::unique_ptr<AsyncSave> in_flight_;     // last: it uses the others
};

}  // namespace autolaunch
