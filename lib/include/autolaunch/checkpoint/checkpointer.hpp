#pragma once
#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/export.hpp>
#include <autolaunch/fsdp/shard_layout.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch {

class Session;

struct CheckpointOptions {
    std::filesystem::path directory;
    int keep = 2;  ///< complete checkpoints kept; older ones are deleted once a newer one is durable
};

struct SaveOptions {
    std::string extra = "{}";  ///< JSON text of the trainer's own (loader position, random state); rank 0's is kept
};

/// A complete checkpoint on disk.
struct CheckpointInfo {
    std::int64_t step = 0;
    std::filesystem::path path;
    std::string extra;                 ///< JSON text, as saved
    std::vector<std::string> skipped;  ///< newer directories that latest() passed over, with the reason
};

/// Saves and restores training state: safetensors shards plus a JSON manifest (docs/checkpoint-format.md). A checkpoint
/// is published by a rename after every byte is durable, so a directory named step-N is whole or absent.
/// The layout is a function of the manifest alone: it loads on any number of ranks.
///
/// Owner: the trainer; the session must outlive it, in its place. Threads: one. Blocks: save() until the checkpoint is
/// durable and published, latest() and load() until it is read; in collectives at most the communicator's timeout.
class AUTOLAUNCH_API Checkpointer {
public:
    Checkpointer(Session& session, Communicator world, const CheckpointOptions& options);
    Checkpointer(Checkpointer&&) noexcept;
    ~Checkpointer();

    /// Collective. Throws on every rank when any rank fails; the last complete checkpoint is then untouched.
    CheckpointInfo save(std::int64_t step, const fsdp::State& state, const SaveOptions& options = {});
    /// The same for anything with a state(), and any optimizer (fsdp/optimizer.hpp) or what has its state().
    template <class Model, class Optimizer>
    CheckpointInfo save(std::int64_t step, Model& model, Optimizer& optimizer, const SaveOptions& options = {}) {
        return save(step, joined(model.state(), optimizer.state()), options);
    }

    /// The newest complete checkpoint of a step before `before`, or nothing. Collective: rank 0 looks, all get its
    /// answer. Complete: the manifest is whole, and every file is there with its size. Damage inside a file shows in
    /// load(); then latest(info.step) is the one before.
    std::optional<CheckpointInfo> latest(std::int64_t before = INT64_MAX);
    /// Fills the state's memory from a checkpoint. Collective. Every tensor of the state must be in it with the same
    /// shape and type (Error{mismatch}); the digest of every block read is verified (Error{corrupt}). Throws on every
    /// rank when any rank fails; the state is then partly filled.
    void load(const CheckpointInfo& checkpoint, const fsdp::State& state);
    /// The same, and the optimizer's step count becomes the checkpoint's step.
    template <class Model, class Optimizer>
    void load(const CheckpointInfo& checkpoint, Model& model, Optimizer& optimizer) {
        load(checkpoint, joined(model.state(), optimizer.state()));
        if constexpr (requires { model.refresh_parameters(); }) model.refresh_parameters();
        optimizer.set_step_count(checkpoint.step);
    }

private:
    static fsdp::State joined(fsdp::State first, fsdp::State second) {
        for (auto& tensor : second) first.push_back(std::move(tensor));
        return first;
    }
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace autolaunch
