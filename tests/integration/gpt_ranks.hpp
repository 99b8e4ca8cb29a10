#pragma once
// examples/gpt cut over ranks, whatever it computes with: each rank against one process on the CPU.
#include "fsdp_ranks.hpp"
#include "gpt/cpu_math.hpp"
#include "gpt/network.hpp"

#include <autolaunch/fsdp/adamw.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gpt::testing {

using autolaunch::Communicator;
using autolaunch::DataType;
using autolaunch::fsdp::ShardedModel;
using autolaunch::fsdp::ShardedModelOptions;
using autolaunch::fsdp::ShardingStrategy;
using autolaunch::fsdp::testing::expect;

inline const ModelConfig kOwnHead = {.layers = 3, .heads = 2, .width = 24, .context = 10};
inline const ModelConfig kTiedHead = {
    .layers = 2, .heads = 2, .width = 16, .context = 10, .vocabulary = 260, .tied_head = true};
inline constexpr std::array kStrategies = {
    ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op,
    ShardingStrategy::shard_optimizer, ShardingStrategy::no_shard, ShardingStrategy::hybrid_shard};

/// For two ranks.
inline ShardedModelOptions options_of(ShardingStrategy strategy, DataType type = autolaunch::f32) {
    ShardedModelOptions options = autolaunch::fsdp::testing::unmerged(strategy);
    options.shard_group = strategy == ShardingStrategy::hybrid_shard ? 2 : 0;
    options.precision = {.param = type, .reduce = type};
    return options;
}

/// Far enough from the start for gradients of every size.
inline void fill(const ModelConfig& config, const std::string& name, std::int64_t first,
                 std::span<float> values) {
    initial_values(config, 5, name, first, values);
    for (float& value : values)
        value *= 5;
}

/// One rank's model. `math` must outlive it.
template <class T>
struct Rank {
    Rank(Communicator& world, const ModelConfig& config, const ShardedModelOptions& options,
         Math<T>& math, int recompute = 0)
        : sharded(world, options) {
        add_units(sharded, unit_shapes(config));
        sharded.initialize([&](const std::string& name, std::span<const std::int64_t>,
                               std::int64_t first,
                               std::span<float> values) { fill(config, name, first, values); });
        network = std::make_unique<NetworkOf<T>>(config, math, sharded, recompute);
    }
    ShardedModel sharded;
    std::unique_ptr<Network> network;
};

inline Batch batch_of(std::int64_t sequences) {
    std::vector<std::uint8_t> text(400);
    for (std::size_t i = 0; i < text.size(); ++i)
        text[i] = static_cast<std::uint8_t>((i * i * 7 + i / 3) % 251);
    return training_batch(text, 3, 1, {0, sequences}, 10);
}
/// Sequences 2 * rank and 2 * rank + 1 of four.
inline Batch half_of_batch(int rank) {
    Batch batch = batch_of(4);
    const auto half = static_cast<std::ptrdiff_t>(batch.tokens.size() / 2);
    for (auto* bytes : {&batch.tokens, &batch.targets}) {
        const auto first = bytes->begin() + rank * half;
        *bytes = std::vector<std::uint8_t>(first, first + half);
    }
    batch.shape.sequences = 2;
    return batch;
}
inline std::vector<std::uint8_t> prompt() {
    const auto tokens = batch_of(1).tokens;
    return {tokens.begin(), tokens.begin() + 7};
}

/// What one process makes of the batch.
struct Expected {
    double loss = 0;
    double norm = 0;  ///< of the gradient of the sum
    std::vector<float> logits;
};

inline Expected expected_of(const ModelConfig& config) {
    ThreadPool pool(1);
    CpuMath<float> math(pool);
    Model<float> model(config, math);
    const auto shapes = unit_shapes(config);
    LocalParameters<float> parameters(shapes);
    for (std::size_t unit = 0; unit < shapes.size(); ++unit) {
        for (std::size_t tensor = 0; tensor < shapes[unit].tensors.size(); ++tensor)
            fill(config, shapes[unit].name + "." + shapes[unit].tensors[tensor].name, 0,
                 parameters.values(unit, tensor));
    }
    const auto batch = batch_of(4);
    Expected expected;
    expected.loss =
        model.loss_and_gradients(parameters, batch.shape, batch.tokens, batch.targets, 1);
    double squares = 0;
    for (std::size_t unit = 0; unit < shapes.size(); ++unit) {
        for (std::size_t tensor = 0; tensor < shapes[unit].tensors.size(); ++tensor) {
            for (const float value : parameters.gradients(unit, tensor))
                squares += double{value} * double{value};
        }
    }
    expected.norm = std::sqrt(squares);
    const auto logits = model.forward_last(parameters, prompt());
    expected.logits.assign(logits.begin(), logits.end());
    return expected;
}

inline void expect_near(double got, double wanted, double relative, const std::string& what) {
    expect(std::abs(got - wanted) <= relative * std::abs(wanted),
           what + " " + std::to_string(wanted) + ", got " + std::to_string(got));
}

/// Two steps whose learning rate is 0, each with an evaluation and a look at the logits; in the
/// second the order of units is frozen. One of two ranks.
template <class T>
void check_training(Communicator& world, const ModelConfig& config,
                    const ShardedModelOptions& options, Math<T>& math, const Expected& expected,
                    double tolerance, int recompute = 0) {
    Rank<T> rank(world, config, options, math, recompute);
    autolaunch::fsdp::AdamW optimizer(rank.sharded, {.lr = 0});
    const auto batch = half_of_batch(world.rank());
    for (int step = 0; step < 2; ++step) {
        const double loss = rank.network->loss_and_gradients(batch, 1);
        expect_near(world.all_reduce_value(loss), expected.loss, tolerance, "loss");
        expect_near(optimizer.step({}, math.stream()).grad_norm * 2, expected.norm, 10 * tolerance,
                    "norm of gradient");
        const auto evaluation = rank.sharded.evaluation();
        expect_near(world.all_reduce_value(rank.network->loss(batch)), expected.loss, tolerance,
                    "evaluation");
        const auto logits = rank.network->next_logits(prompt());
        expect(logits.size() == expected.logits.size(), "logits of every class");
        for (std::size_t i = 0; i < logits.size(); ++i)
            expect(std::abs(logits[i] - expected.logits[i]) < 10 * tolerance,
                   "the logits of one process");
    }
}

}  // namespace gpt::testing
