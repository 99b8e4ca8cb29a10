#pragma once
#include "parameters.hpp"

#include <autolaunch/fsdp/sharding.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace gpt {

/// A fault to show recovery with: in the job's first generation `rank` raises `signal` when it
/// comes to `step`.
struct FailConfig {
    int rank = 0;
    std::int64_t step = 1;
    int signal = 0;
};

/// automatic: GPUs where this build can use them and every rank has one, else CPUs.
enum class ComputeDevice { automatic, cpu, cuda };

/// What can be set, by the JSON's sections. Defaults make a run of about a minute on two cores.
struct TrainerConfig {
    ModelConfig
        model;  ///< model.preset names a preset (presets.hpp); the other keys count beside it

    struct {
        std::filesystem::path path = "/usr/share/common-licenses";
        std::int64_t global_batch = 16;  ///< sequences per step, over all ranks
        std::int64_t micro_batch =
            0;  ///< sequences a rank takes at once, for less memory; 0: all of its part
    } dataloader;

    struct {
        double lr = 4e-3;
        double min_lr = 4e-4;
        double beta1 = 0.9;
        double beta2 = 0.99;
        double weight_decay = 0.1;
        double max_grad_norm = 1.0;
    } optimizer;

    struct {
        std::int64_t max_steps = 1000;
        std::int64_t warmup_steps = 50;
        std::int64_t checkpoint_every = 200;
        std::int64_t copy_every = 0;  ///< the same, of copies in memory; 0: none
        std::int64_t log_every = 50;
        std::int64_t evaluate_every = 0;  ///< 0: at the end only
    } step_scheduler;

    struct {
        bool enabled = false;
        std::filesystem::path
            directory;  ///< empty: "checkpoints" in the run directory, or here without one
        int keep = 2;
        bool pass_over_unusable = false;  ///< al::CheckpointOptions::pass_over_unusable
    } checkpoint;

    // distributed
    autolaunch::fsdp::ShardingStrategy sharding_strategy =
        autolaunch::fsdp::ShardingStrategy::full_shard;
    int shard_group =
        0;  ///< hybrid_shard: ranks that share a copy of the model; 0: those of a node
    autolaunch::fsdp::Precision
        precision;  ///< of what is kept and sent; mixed_precision, or trainer.config.precision

    // trainer.config
    ComputeDevice device = ComputeDevice::automatic;
    std::uint64_t seed = 1;
    std::int64_t sample_bytes = 300;
    double temperature = 0.7;
    int recompute = 0;  ///< layers whose activations are computed again together; 0: none
    bool offload_optimizer = false;  ///< ShardedModelOptions::offload_optimizer
    bool in_place = true;  ///< after the loss of another rank this process goes on (Session::run())
    std::optional<FailConfig> fail;
};

/// Reads the sections model, dataloader, optimizer, step_scheduler, distributed, checkpoint and
/// trainer.config of a JSON text; what it does not name keeps its default. Throws
/// std::invalid_argument naming the key that is unknown, of the wrong type or out of range. In
/// `distributed` and `checkpoint`, which the launcher reads too, other keys are its. `preset`
/// counts before model.preset.
TrainerConfig parse_trainer_config(const std::string& json_text, const std::string& preset = {});

/// Learning rate of `step` (from 1): linear from 0 over the warm-up, then half a cosine down to
/// min_lr at max_steps.
double learning_rate(const TrainerConfig& config, std::int64_t step);

}  // namespace gpt
