// examples/gpt on two real processes in every sharding strategy, with its own head and a tied one: gradients are those
// of one process, and evaluation and sampling between steps need no memory for gradients.
#include "fsdp_ranks.hpp"
#include "gpt/cpu_math.hpp"
#include "gpt/network.hpp"
#include "gpt/sampling.hpp"

#include <autolaunch/fsdp/adamw.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

using namespace autolaunch;
using namespace autolaunch::fsdp;
using namespace autolaunch::fsdp::testing;

namespace {

const gpt::ModelConfig kOwnHead = {.layers = 3, .heads = 2, .width = 24, .context = 10};
const gpt::ModelConfig kTiedHead = {
    .layers = 2, .heads = 2, .width = 16, .context = 10, .vocabulary = 260, .tied_head = true};

ShardedModelOptions options_of(ShardingStrategy strategy, DataType param = f32) {
    ShardedModelOptions options = unmerged(strategy);
    options.shard_group = strategy == ShardingStrategy::hybrid_shard ? 2 : 0;
    options.precision = {.param = param, .reduce = param};
    return options;
}

/// One rank's model, on one thread.
struct Rank {
    Rank(Communicator& world, const gpt::ModelConfig& config, const ShardedModelOptions& options)
        : pool(1), math(pool), sharded(world, options) {
        gpt::add_units(sharded, gpt::unit_shapes(config));
        sharded.initialize(
            [&](const std::string& name, std::span<const std::int64_t>, std::int64_t first, std::span<float> values) {
                gpt::initial_values(config, 5, name, first, values);
                for (float& value : values) value *= 5;  // far enough from the start for gradients of every size
            });
        network = std::make_unique<gpt::NetworkOf<float>>(config, math, sharded);
    }
    gpt::ThreadPool pool;
    gpt::CpuMath<float> math;
    ShardedModel sharded;
    std::unique_ptr<gpt::Network> network;
};

gpt::Batch batch_of(std::int64_t sequences, std::uint64_t seed) {
    std::vector<std::uint8_t> text(400);
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::uint8_t>((i * i * 7 + i / 3) % 251);
    return gpt::training_batch(text, seed, 1, {0, sequences}, 10);
}

/// The same parameters in this process's memory.
gpt::LocalParameters<float> local_parameters(const gpt::ModelConfig& config) {
    const auto shapes = gpt::unit_shapes(config);
    gpt::LocalParameters<float> parameters(shapes);
    for (std::size_t unit = 0; unit < shapes.size(); ++unit) {
        for (std::size_t tensor = 0; tensor < shapes[unit].tensors.size(); ++tensor) {
            auto& values = parameters.values(unit, tensor);
            gpt::initial_values(config, 5, shapes[unit].name + "." + shapes[unit].tensors[tensor].name, 0, values);
            for (float& value : values) value *= 5;
        }
    }
    return parameters;
}

struct Expected {
    double loss = 0;
    double norm = 0;  ///< of the gradient of the sum
    std::vector<float> logits;
};

Expected expected_of(const gpt::ModelConfig& config) {
    gpt::ThreadPool pool(1);
    gpt::CpuMath<float> math(pool);
    gpt::Model<float> model(config, math);
    auto parameters = local_parameters(config);
    const auto batch = batch_of(4, 3);
    Expected expected;
    expected.loss = model.loss_and_gradients(parameters, batch.shape, batch.tokens, batch.targets, 1);
    const auto shapes = gpt::unit_shapes(config);
    double squares = 0;
    for (std::size_t unit = 0; unit < shapes.size(); ++unit) {
        for (std::size_t tensor = 0; tensor < shapes[unit].tensors.size(); ++tensor) {
            for (const float value : parameters.gradients(unit, tensor)) squares += double{value} * double{value};
        }
    }
    expected.norm = std::sqrt(squares);
    const auto logits = model.forward_last(parameters, std::span(batch.tokens).first(7));
    expected.logits.assign(logits.begin(), logits.end());
    return expected;
}

void expect_near(double got, double wanted, double relative, const std::string& what) {
    expect(std::abs(got - wanted) <= relative * std::abs(wanted),
           what + " " + std::to_string(wanted) + ", got " + std::to_string(got));
}

}  // namespace

TEST_CASE("loss, gradient and logits are those of one process, in every strategy") {
    for (const auto& config : {kOwnHead, kTiedHead}) {
        const Expected expected = expected_of(config);
        for (const auto strategy :
             {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op, ShardingStrategy::shard_optimizer,
              ShardingStrategy::no_shard, ShardingStrategy::hybrid_shard}) {
            CAPTURE(name_of(strategy));
            on_ranks(2, [&](Communicator& world) {
                Rank rank(world, config, options_of(strategy));
                AdamW optimizer(rank.sharded, {.lr = 0});
                // Each rank's half of the four samples; a second step repeats the order of units, now frozen.
                auto batch = batch_of(4, 3);
                const std::vector<std::uint8_t> prompt(batch.tokens.begin(), batch.tokens.begin() + 7);
                const auto half = static_cast<std::ptrdiff_t>(batch.tokens.size() / 2);
                for (auto* bytes : {&batch.tokens, &batch.targets}) {
                    const auto first = bytes->begin() + world.rank() * half;
                    *bytes = std::vector<std::uint8_t>(first, first + half);
                }
                batch.shape.sequences = 2;
                for (int step = 0; step < 2; ++step) {
                    const double loss = rank.network->loss_and_gradients(batch, 1);
                    expect_near(world.all_reduce_value(loss), expected.loss, 1e-5, "loss");
                    expect_near(optimizer.step().grad_norm * 2, expected.norm, 1e-4, "norm of the gradient");
                    const auto evaluation = rank.sharded.evaluation();
                    expect_near(world.all_reduce_value(rank.network->loss(batch)), expected.loss, 1e-5, "evaluation");
                    const auto logits = rank.network->next_logits(prompt);
                    for (std::size_t i = 0; i < logits.size(); ++i) {
                        expect(std::abs(logits[i] - expected.logits[i]) < 1e-4f, "the logits of one process");
                    }
                }
            });
        }
    }
}

TEST_CASE("evaluation and sampling allocate no gradients and one block's activations") {
    for (const DataType param : {f32, bf16, f16}) {
        for (const auto strategy :
             {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op, ShardingStrategy::shard_optimizer,
              ShardingStrategy::no_shard, ShardingStrategy::hybrid_shard}) {
            CAPTURE(name_of(strategy));
            CAPTURE(name_of(param));
            on_ranks(2, [&](Communicator& world) {
                Rank rank(world, kOwnHead, options_of(strategy, param));
                const auto batch = batch_of(2, 3);
                std::size_t evaluating = 0;
                {
                    const auto evaluation = rank.sharded.evaluation();
                    rank.network->loss(batch);
                    const std::vector<std::uint8_t> prompt = {'a'};
                    const auto text = gpt::continue_text(
                        [&](std::span<const std::uint8_t> seen) { return rank.network->next_logits(seen); },
                        kOwnHead.context, prompt, 3, 1, 1);
                    expect(text.size() == 3, "three bytes");
                    const ModelMemory memory = rank.sharded.memory();
                    expect(memory.whole_gradients == 0 && memory.gradients == 0, "no memory for gradients");
                    evaluating = rank.math.allocated();
                }
                rank.network->loss_and_gradients(batch, 1);
                const ModelMemory memory = rank.sharded.memory();
                expect(memory.whole_gradients + memory.gradients > 0, "memory for gradients once it trains");
                expect(rank.math.allocated() > 2 * evaluating, "activations of three blocks once it trains");
            });
        }
    }
}
