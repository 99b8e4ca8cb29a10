#pragma once
#include "checkpoint/age/age_keys.hpp"
#include "checkpoint/commit/authentication.hpp"
#include "checkpoint/commit/writer_claim.hpp"
#include "checkpoint/format/read_plan.hpp"
#include "checkpoint/load/node_reader.hpp"
#include "checkpoint/load/read_keys.hpp"
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
#include <span>
#include <string>
#include <vector>

namespace autolaunch {

/// What the engine tells whoever watches the job. Called on rank 0, by the trainer's thread or the writer's; published
/// and pinned on the leader of every node where nodes have directories of their own.
struct CheckpointEvents {
    std::function<void(std::int64_t step, const std::filesystem::path& path, double stall_seconds)> published;
    std::function<void(const std::string& text)> note;
    std::chrono::milliseconds progress_every{10'000};  ///< a note, while rank 0 writes beside the trainer
    /// The step that is being copied elsewhere, and must stay.
    std::function<std::optional<std::int64_t>()> pinned = {};
};

/// The commit protocol and its reverse, over any storage. Owner: Checkpointer. Threads: one; it has a copier and a
/// writer of its own while a save_async() goes on, whose collectives run on a communicator split off for them, so that
/// they never come between the trainer's. Blocks: every function, in collectives and in storage, but save_async() only
/// until the ranks agreed and a save before is over.
class CheckpointEngine {
public:
    /// `leaders` of leaders_of_directories(), where nodes have directories of their own; else empty, or all 0.
    CheckpointEngine(std::shared_ptr<Storage> storage, Communicator world, const CheckpointOptions& options,
                     CheckpointEvents events, WriterIdentity identity = {}, std::vector<int> leaders = {});
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
    std::optional<CheckpointInfo> latest(std::int64_t before);
    /// engine_load.cpp: the following.
    std::vector<std::string> load(const CheckpointInfo& checkpoint, const fsdp::State& state,
                                  const LoadOptions& options = {});
    std::optional<CheckpointInfo> load_latest(const fsdp::State& state, const LoadOptions& options = {});
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
    using WriteFiles = std::function<Manifest(const std::filesystem::path& directory)>;  // the rank's fragment

    Job agreed_job(std::int64_t step, const fsdp::State& state, const SaveOptions& options);
    const AuthenticationKeys& authentication_keys();
    ReadKeys keys_for(const Manifest& manifest);
    CheckpointInfo commit(Communicator& world, Job& job, const WriteFiles& write);
    void commit_as_writer(Communicator& world, Job& job, const WriteFiles& write);
    void prepare_directory(Communicator& world, Job& job);
    void find_parent(Communicator& world);
    void note_remarks(Communicator& world);
    Manifest write_and_verify(Communicator& world, const Job& job, const WriteFiles& write);
    void complete(Manifest& manifest, const Job& job);
    std::string finished_manifest(Manifest& manifest, const Job& job);
    void stage(const std::filesystem::path& unfinished, const Manifest& manifest, const std::string& text);
    void publish(const std::filesystem::path& unfinished, std::int64_t step);
    std::optional<std::int64_t> newest_step();
    std::optional<CheckpointInfo> newest_anywhere(std::int64_t before);
    std::optional<CheckpointInfo> newest_there(std::int64_t before, bool needed);
    void tidy(std::int64_t step, const std::function<void()>& remove_others);
    void tidy_alone(std::int64_t step);
    void tidy_nodes(Communicator& world, std::int64_t step);

    // Where nodes have directories of their own: engine_nodes.cpp.
    bool spread() const;           // over several directories
    bool leads() const;            // does in this directory what one must do
    bool is_with(int rank) const;  // sees the same directory
    int neighbour() const;         // whose files this rank verifies
    std::string from_leader(Communicator& world, const std::string& text) const;
    std::optional<CheckpointInfo> newest_far(std::int64_t before, bool needed);
    std::optional<CheckpointInfo> latest_of_nodes(std::int64_t before);
    NodeSources sources_of(const CheckpointInfo& checkpoint);
    void read_from_nodes(const NodeSources& sources, const Manifest& manifest, std::span<const ReadPart> parts);
    std::vector<std::string> remove_list(Communicator& world, std::int64_t step);

    Manifest manifest_of(const CheckpointInfo& checkpoint, std::optional<NodeSources>& sources);
    void read(const CheckpointInfo& checkpoint, const std::optional<NodeSources>& sources, const Manifest& manifest,
              std::span<const ReadPart> parts);
    void reserve_staging(const WritePlan& plan);
    void note(const std::string& text) const;
    WriteProgress with_notes(WriteProgress inner) const;
    Manifest shared_manifest(const CheckpointInfo& checkpoint);

    std::shared_ptr<Storage> storage_;
    Communicator world_;
    CheckpointOptions options_;
    CheckpointEvents events_;
    WriterFence fence_;
    std::vector<int> leaders_;
    std::optional<std::int64_t> newest_known_;  // where no node alone can say which it is
    std::vector<age::Recipient> recipients_;
    FileSaver saver_;
    std::vector<age::Identity> identities_;  // read when the first encrypted checkpoint is loaded
    // Read on rank 0, before the first save begins or the first checkpoint is looked for; the writer's thread only uses
    // them.
    std::optional<AuthenticationKeys> authentication_keys_;

    std::optional<std::optional<Communicator>> readers_;  // the ranks of this node, once somebody loads

    AlignedMemory staging_;
    std::optional<Communicator> writers_;                             // the same ranks, for the writers' collectives
    std::atomic<double> stall_seconds_{0};                            // of the save that goes on
    std::atomic<double> cost_stall_seconds_{0}, durable_seconds_{0};  // of the last that was published
    std::atomic<bool> has_cost_{false};
    Job job_;
    std::unique_ptr<AsyncSave> in_flight_;  // last: it uses the others
};

}  // namespace autolaunch
