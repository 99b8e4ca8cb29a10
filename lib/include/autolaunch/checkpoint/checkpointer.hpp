#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/checkpoint/opaque_state.hpp>
#include <autolaunch/checkpoint/save_schedule.hpp>
#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/export.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch {

class Session;

/// What a rank reads of its neighbour's files before a checkpoint is published. Sizes are always
/// compared.
enum class SaveVerification {
    ends,  ///< the first and the last block: finds a file that another machine does not see whole
    every_block,  ///< all of it, which takes about as long as writing it
};

/// A second place for checkpoints, filled in the background (docs/checkpoint-tiers.md).
struct DrainOptions {
    std::string place = {};       ///< a directory, or "s3://bucket/prefix"; empty: there is none
    int keep = 2;                 ///< complete checkpoints kept there
    std::int64_t keep_every = 0;  ///< and those of steps that are multiples of it
    int keep_best =
        0;  ///< and so many of the others by SaveOptions::metric; CheckpointOptions says which way
    /// How long the end of the Checkpointer waits for what is not there yet; less where the job's
    /// time ends before. It holds for CheckpointOptions::tiers, too, all together.
    std::chrono::milliseconds wait_at_end = std::chrono::seconds(60);
};

/// One of several further places (docs/checkpoint-tiers.md).
struct TierOptions {
    std::string place = {};  ///< a directory, or "s3://bucket/prefix"
    /// What comes there, both 0: what is newest whenever it has copied the last. Else a checkpoint
    /// of at least so many steps after the newest there, or saved so many seconds after it; and
    /// those of keep_every, and the newest at the end.
    std::int64_t every_steps = 0;
    double every_seconds = 0;
    int keep = 2;                 ///< complete checkpoints kept there
    std::int64_t keep_every = 0;  ///< and those of steps that are multiples of it
    int keep_best = 0;            ///< and so many of the others by SaveOptions::metric
    /// That draining moves to and from there, over all nodes of the job; 0: no limit.
    std::uint64_t bytes_per_second = 0;
};

/// How the files of checkpoints are spread over the servers of a parallel file system, where it is
/// Lustre or BeeGFS (docs/checkpoints.md). Nothing set: as the directory is.
struct StripeOptions {
    bool automatic = false;   ///< by the files' sizes as they grow, with Lustre; else as it is
    int count = 0;            ///< servers (OSTs, targets) of a file; -1: all; 0: as it is
    std::uint64_t bytes = 0;  ///< in one piece on each; 0: as it is

    bool is_set() const noexcept { return automatic || count != 0 || bytes != 0; }
};

/// Files that only who has a key can read, and checkpoints that only who has a key can write
/// (docs/encryption.md). The two need not go together.
struct EncryptionOptions {
    std::vector<std::string> recipients =
        {};  ///< public keys of age, "age1…"; none: files are not encrypted
    std::filesystem::path identity_file =
        {};  ///< the secret key, for loading; nobody else may open the file
    std::string identity_command = {};  ///< or a command that prints it
    /// A secret that writers and readers share: what is saved gets a MAC of it, and nothing without
    /// one is loaded.
    std::filesystem::path authentication_key_file =
        {};  ///< nobody else may open the file; rank 0 alone reads it
    std::string authentication_key_command = {};  ///< or a command that prints it
    /// A key of Ed25519: what is saved is signed with it, and whoever has the public key can verify
    /// who saved it (docs/encryption.md). Nobody else may open the file; rank 0 alone reads it.
    /// Without it: the file that AUTOLAUNCH_SIGNING_KEY names, if it does.
    std::filesystem::path signing_key_file = {};
};

/// Where autolaunch has started the job, its spec's section `checkpoint` wins over these, for the
/// Checkpointer of `checkpoint_dir` (docs/checkpoints.md).
struct CheckpointOptions {
    std::filesystem::path directory = {};
    int keep =
        2;  ///< complete checkpoints kept; older ones are deleted once a newer one is durable
    std::int64_t keep_every = 0;  ///< and those of steps that are multiples of it; 0: none for this
    int keep_best = 0;            ///< and so many of the others by SaveOptions::metric
    bool lower_is_better = true;  ///< of the metric
    SaveSchedule schedule = {};   ///< for should_save()
    DrainOptions drain = {};
    /// Of `directory`, and of further places that are directories.
    StripeOptions stripe = {};
    /// In place of drain.place: several places, the nearest first, such as a shared file system and
    /// a bucket. Each is filled from the nearest place that has the checkpoint whole.
    std::vector<TierOptions> tiers = {};
    EncryptionOptions encryption = {};
    SaveVerification verify = SaveVerification::ends;
    /// Files of frozen tensors (fsdp::StateTensor::frozen) that have the same bytes as in the
    /// checkpoint before become hard links to that one's, where the file system has them
    /// (docs/checkpoints.md).
    bool link_unchanged = true;
    /// latest() and load_latest() throw where they would have to choose: where a newer checkpoint
    /// than the one they found cannot be read (no permission, an I/O error, another version of the
    /// format), and where checkpoints are there and none can be used. With this they go on from the
    /// older one, or find nothing: then training starts anew beside them. What cannot be read is
    /// never deleted. A job may leave it set: what it saves itself is found again.
    bool pass_over_unusable = false;
    /// Memory that save_async() may take on each rank for its copy of the state; 0: as much as the
    /// state. With less, wait_copied() also waits for the storage.
    std::uint64_t staging_bytes = 0;
    bool memory = true;  ///< latest() looks for copies of save_to_memory(), too
    bool memory_peers =
        true;  ///< save_to_memory() keeps a second copy on the next node, where there is one
    /// Where training goes on from while `directory`, the second place and memory have nothing: a
    /// checkpoint, or a place that has some, of which the newest; a directory or "s3://…". Nothing
    /// is written there. latest() and load_latest() throw where it has none.
    std::string restore_from = {};
    /// `directory` is each node's own, such as one on its NVMe: it holds its ranks' files alone,
    /// and every node drains its own; drain.place or tiers must be set. A checkpoint counts when it
    /// is in the first of them. The constructor is then collective.
    bool node_local = false;
};

struct SaveOptions {
    std::string extra = "{}";  ///< JSON text of the trainer's own; rank 0's is kept
    std::vector<OpaqueState> opaque = {};
    std::optional<double> metric =
        {};  ///< such as the validation loss, for CheckpointOptions::keep_best; rank 0's
    /// For the manifest, rank 0's; calls that take a model ask that.
    fsdp::Arrangement arrangement = {};
};

struct LoadOptions {
    bool cast =
        false;  ///< f32, bf16 and f16 become each other; otherwise another type is Error{mismatch}
    bool allow_missing = false;  ///< tensors that the checkpoint has not keep what they hold
    bool fall_back = true;  ///< load_latest(): where a checkpoint is damaged, take the one before;
                            ///< not where it cannot be read (CheckpointOptions::pass_over_unusable)
};

/// How far a save_async() of this rank is.
struct SaveProgress {
    std::int64_t step = 0;
    std::uint64_t bytes_written = 0;  ///< or linked
    std::uint64_t total_bytes = 0;    ///< of this rank
    bool copied = false;              ///< the state may change
    bool over = false;                ///< published, or failed: finish() says which
};

/// A complete checkpoint on disk, or in memory.
struct CheckpointInfo {
    std::int64_t step = 0;
    std::filesystem::path path;
    std::string extra;  ///< JSON text, as saved
    std::vector<std::string>
        skipped;             ///< newer directories that latest() passed over, with the reason
    bool in_memory = false;  ///< by save_to_memory(); its path is "memory"
};

/// Saves and restores training state: safetensors shards plus a JSON manifest
/// (docs/checkpoint-format.md). A checkpoint is published by a rename after every byte is durable,
/// so a directory named step-N is whole or absent. The layout is a function of the manifest alone:
/// it loads on any number of ranks.
///
/// Owner: the trainer; the session must outlive it, in its place. Threads: one. Blocks: save() and
/// finish() until the checkpoint is durable and published, save_async() and wait_copied() as they
/// say, latest() and load() until it is read; in collectives at most the communicator's timeout.
class AUTOLAUNCH_API Checkpointer {
public:
    /// Collective. With GPUs (backend nccl) on one node the ranks agree through the CPUs' memory
    /// instead of `world`. On several nodes pass a communicator of the CPUs where there is one
    /// (backend "cpu", which takes MPI there): a save beside training then puts nothing on the
    /// GPUs.
    Checkpointer(Session& session, Communicator world, const CheckpointOptions& options);
    Checkpointer(Checkpointer&&) noexcept;
    /// Ends the one that was here as its destructor does: collective.
    Checkpointer& operator=(Checkpointer&&) noexcept;
    ~Checkpointer();

    /// Collective. Throws on every rank when any rank fails; the last complete checkpoint is then
    /// untouched.
    CheckpointInfo save(std::int64_t step, const fsdp::State& state,
                        const SaveOptions& options = {});
    /// The same for anything with a state(), and any optimizer (fsdp/optimizer.hpp) or what has its
    /// state().
    template <class Model, class Optimizer>
    CheckpointInfo save(std::int64_t step, Model& model, Optimizer& optimizer,
                        const SaveOptions& options = {}) {
        wait_copied();  // of a save before, from what is copied anew now
        return save(step, joined(state_to_save(model), state_to_save(optimizer)),
                    arranged(model, options));
    }

    /// Begins to save and returns: the state is copied while the trainer goes on, then written and
    /// published. Until wait_copied() the state must not change, so the order of a step is
    ///     compute gradients;  checkpointer.wait_copied();  optimizer.step();
    ///     checkpointer.save_async(…);
    /// and only what of the copy the gradients' time did not cover is waited for. What is on a GPU
    /// is copied to pinned memory of the CPU by a stream of its own, and the optimizer's step waits
    /// for that on the GPU. One save at a time: a second one first waits for the first (and says so
    /// in the job's events). A save that failed is an event at once, and the next save_async(),
    /// save() or finish() throws what it failed with, on every rank. Collective.
    void save_async(std::int64_t step, const fsdp::State& state, const SaveOptions& options = {});
    template <class Model, class Optimizer>
    void save_async(std::int64_t step, Model& model, Optimizer& optimizer,
                    const SaveOptions& options = {}) {
        wait_copied();
        save_async(step, joined(state_to_save(model), state_to_save(optimizer)),
                   arranged(model, options));
    }
    /// Takes the memory for save_async() now, so that the first one does not wait for it.
    /// Collective.
    void prepare_async(const fsdp::State& state);
    /// Returns when the state of the last save_async() may change; this thread helps to copy it.
    /// Not collective. Throws TimeoutError when the storage gives no staging memory back for 10
    /// minutes.
    void wait_copied();
    /// Waits until the last save_async() is published, and throws what it failed with. Nothing when
    /// none was begun since the last finish(). Collective. The destructor does the same without
    /// throwing.
    std::optional<CheckpointInfo> finish();
    /// Nothing when no save_async() was begun since the last finish(). Never blocks.
    std::optional<SaveProgress> progress() const;

    /// Whether to save now that `step` is over, by CheckpointOptions::schedule, the launcher's
    /// requests and the end of the job; the same on every rank. Like Session::stop_requested(),
    /// asking declares that the trainer stops by itself: when the decision says stop(). Collective:
    /// a few bytes. Saving resets the time it counts from.
    [[nodiscard]] SaveDecision should_save(std::int64_t step);

    /// Copies every rank's part of the state into memory that its node's agent keeps, and to the
    /// next node: after the loss of a rank, latest() finds it and load() takes it from there.
    /// Nothing of it is left when the job ends. Only the same number of ranks can load it.
    /// Collective; throws on every rank when any rank fails, also where checkpoint.memory_limit is
    /// too low: the newest copy that was finished is then still there. Without autolaunch's agent a
    /// copy lives as long as this process. docs/memory-checkpoints.md.
    CheckpointInfo save_to_memory(std::int64_t step, const fsdp::State& state,
                                  const SaveOptions& options = {});
    template <class Model, class Optimizer>
    CheckpointInfo save_to_memory(std::int64_t step, Model& model, Optimizer& optimizer,
                                  const SaveOptions& options = {}) {
        return save_to_memory(step, joined(model.state(), optimizer.state()), options);
    }

    /// Until everything that shall be in the further places is there; false when the time is over.
    /// Not collective: rank 0 waits, the others return true at once. finish() comes first.
    bool wait_drained(std::chrono::milliseconds timeout);

    /// The newest complete checkpoint of a step before `before`, or nothing; from the second place
    /// where there is none as new in the first. Collective: rank 0 looks, all get its answer.
    /// Complete: the manifest is whole, and every file is there with its size. Damage inside a file
    /// shows in load(); then latest(info.step) is the one before. What is damaged is passed over
    /// where an older one is complete; what cannot be read is not, and nothing is returned only
    /// where nothing was ever published. Else this throws an Error that lists each checkpoint with
    /// its reason (CheckpointOptions::pass_over_unusable).
    [[nodiscard]] std::optional<CheckpointInfo> latest(std::int64_t before = INT64_MAX);
    /// Fills the state's memory from a checkpoint, on any number of ranks and cut in any way; a
    /// state of fewer tensors than were saved, such as the weights alone, gets those. Collective;
    /// the ranks name the same tensors, and each block that all need is read once on each node.
    /// Every tensor of the state must be in it with the same shape and type (Error{mismatch}), but
    /// for what the options allow; the digest of every block read is verified (Error{corrupt} names
    /// file, bytes and tensor). Returns the names that the checkpoint has not. Throws on every rank
    /// when any rank fails; the state is then partly filled.
    std::vector<std::string> load(const CheckpointInfo& checkpoint, const fsdp::State& state,
                                  const LoadOptions& options = {});
    /// The same, and the optimizer's step count becomes the checkpoint's step.
    template <class Model, class Optimizer>
    void load(const CheckpointInfo& checkpoint, Model& model, Optimizer& optimizer,
              const LoadOptions& options = {}) {
        load(checkpoint, joined(model.state(), optimizer.state()), options);
        refresh(model);
        optimizer.set_step_count(checkpoint.step);
    }
    /// The model's parameters alone: to evaluate, or to train anew from them.
    template <class Model>
    void load_weights(const CheckpointInfo& checkpoint, Model& model,
                      const LoadOptions& options = {}) {
        load(checkpoint, model.state(), options);
        refresh(model);
    }
    /// latest() and load() in one; nothing when nothing was saved. Where a checkpoint turns out to
    /// be damaged, the one before is loaded, and CheckpointInfo::skipped says so; throws when all
    /// are, and where latest() does. With pass_over_unusable nothing is returned instead: the state
    /// may then be partly filled, and all of it has to be set. Collective.
    [[nodiscard]] std::optional<CheckpointInfo> load_latest(const fsdp::State& state,
                                                            const LoadOptions& options = {});
    template <class Model, class Optimizer>
    [[nodiscard]] std::optional<CheckpointInfo> load_latest(Model& model, Optimizer& optimizer,
                                                            const LoadOptions& options = {}) {
        const auto loaded = load_latest(joined(model.state(), optimizer.state()), options);
        if (!loaded)
            return loaded;
        refresh(model);
        optimizer.set_step_count(loaded->step);
        return loaded;
    }
    /// The bytes that were saved under a name: one string when they were rank 0's, else one of each
    /// rank that saved, by rank. Empty when there are none. Collective; every rank gets all.
    [[nodiscard]] std::vector<std::string> load_opaque(const CheckpointInfo& checkpoint,
                                                       const std::string& name);

private:
    template <class Owner>
    static fsdp::State state_to_save(Owner& owner) {
        if constexpr (requires { owner.state_to_save(); })
            return owner.state_to_save();
        else
            return owner.state();
    }
    template <class Model>
    static void refresh(Model& model) {
        if constexpr (requires { model.refresh_parameters(); })
            model.refresh_parameters();
    }
    template <class Model>
    static SaveOptions arranged(Model& model, SaveOptions options) {
        if constexpr (requires { model.arrangement(); })
            if (options.arrangement.strategy.empty())
                options.arrangement = model.arrangement();
        return options;
    }
    static fsdp::State joined(fsdp::State first, fsdp::State second) {
        for (auto& tensor : second)
            first.push_back(std::move(tensor));
        return first;
    }
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace autolaunch
