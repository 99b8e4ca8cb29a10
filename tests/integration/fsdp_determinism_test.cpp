// The same training, to the bit, on any power of two of ranks.
#include "fsdp_ranks.hpp"

#include <autolaunch/fsdp/adamw.hpp>

#include <array>

namespace fsdp_determinism_test {

using namespace autolaunch;
using namespace autolaunch::fsdp;
using namespace autolaunch::fsdp::testing;

namespace {

constexpr std::size_t kInputs = 24, kHidden = 40, kParts = 8, kSamples = 3, kSteps = 200;

float pseudo_random(std::size_t number) {
    return std::sin(static_cast<float>(number * number % 10'007));
}

// A perceptron with one hidden layer, whose gradients are no round numbers.
struct Perceptron {
    Perceptron(Communicator world, const ShardedModelOptions& options)
        : model(std::move(world), options),
          hidden(model.add_unit("hidden", {{"w", {kHidden, kInputs}}, {"b", {kHidden}}})),
          output(model.add_unit("output", {{"w", {kHidden}}})) {
        model.finalize();
        model.initialize([](const std::string& name, auto, std::int64_t first,
                            std::span<float> values) {
            for (float& value : values)
                value = 0.3f * pseudo_random(static_cast<std::size_t>(first++) * 7 + name.size());
        });
    }

    static std::array<float, kInputs> inputs(std::size_t sample) {
        std::array<float, kInputs> values{};
        for (std::size_t i = 0; i < kInputs; ++i)
            values[i] = pseudo_random(sample * 31 + i * 3 + 1);
        return values;
    }

    // The loss of one part of the global batch; adds its gradients and reduces them.
    double train(std::size_t part) {
        std::array<std::array<float, kHidden>, kSamples> active{};
        std::array<float, kSamples> error{};
        {
            const auto parameters = hidden.unshard();
            const auto w = parameters["w"].as<const float>(), b = parameters["b"].as<const float>();
            for (std::size_t s = 0; s < kSamples; ++s) {
                const auto x = inputs(part * kSamples + s);
                for (std::size_t h = 0; h < kHidden; ++h) {
                    float sum = b[h];
                    for (std::size_t i = 0; i < kInputs; ++i)
                        sum += w[h * kInputs + i] * x[i];
                    active[s][h] = std::tanh(sum);
                }
            }
        }
        std::array<float, kHidden> scale{};
        {
            const auto parameters = output.unshard();
            const auto w = parameters["w"].as<const float>();
            std::copy(w.begin(), w.end(), scale.begin());
            const auto gradient = output.grad("w").as<float>();
            for (std::size_t s = 0; s < kSamples; ++s) {
                error[s] = -std::sin(pseudo_random(part * kSamples + s));
                for (std::size_t h = 0; h < kHidden; ++h)
                    error[s] += w[h] * active[s][h];
                for (std::size_t h = 0; h < kHidden; ++h)
                    gradient[h] += 2 * error[s] * active[s][h];
            }
        }
        output.reduce_grads();
        {
            const auto parameters = hidden.unshard();
            const auto to_w = hidden.grad("w").as<float>(), to_b = hidden.grad("b").as<float>();
            for (std::size_t s = 0; s < kSamples; ++s) {
                const auto x = inputs(part * kSamples + s);
                for (std::size_t h = 0; h < kHidden; ++h) {
                    const float slope = 2 * error[s] * scale[h] * (1 - active[s][h] * active[s][h]);
                    to_b[h] += slope;
                    for (std::size_t i = 0; i < kInputs; ++i)
                        to_w[h * kInputs + i] += slope * x[i];
                }
            }
        }
        hidden.reduce_grads();
        double loss = 0;
        for (const float each : error)
            loss += static_cast<double>(each) * each;
        return loss;
    }

    ShardedModel model;
    Unit& hidden;
    Unit& output;
};

// The losses of all parts in all steps.
std::vector<double> losses(int ranks, ShardedModelOptions options, std::size_t steps = kSteps) {
    Shared<double> found(steps * kParts);
    on_ranks(ranks, [&](Communicator& world) {
        options.merge_below = 0;
        options.overlap = ranks == 2;
        Perceptron perceptron(world, options);
        AdamW optimizer(perceptron.model, {.lr = 0.01, .decays = {}});
        const auto rank = static_cast<std::size_t>(world.rank()),
                   count = static_cast<std::size_t>(world.size());
        for (std::size_t step = 0; step < steps; ++step) {
            for (std::size_t part = rank; part < kParts; part += count)
                found[step * kParts + part] = perceptron.train(step % 5 * kParts + part);
            optimizer.step({.lr = {},
                            .max_grad_norm = 0.5,
                            .micro_batches = static_cast<int>(kParts / count)});
        }
    });
    return found.copy();
}

ShardedModelOptions with(ShardingStrategy strategy, bool deterministic) {
    ShardedModelOptions options;
    options.strategy = strategy;
    options.deterministic = deterministic;
    options.shard_group = 2;
    return options;
}

}  // namespace

TEST_CASE("200 steps have bit-identical losses on 1, 2, 4 and 8 ranks") {
    const auto one = losses(1, with(ShardingStrategy::full_shard, true));
    double first = 0, last = 0;
    for (std::size_t part = 0; part < kParts; ++part) {
        first += one[part];
        last += one[(kSteps - 5) * kParts + part];  // of the same samples
    }
    CHECK(last < 0.2 * first);
    for (const int ranks : {2, 4, 8}) {
        CAPTURE(ranks);
        CHECK(same_bits(losses(ranks, with(ShardingStrategy::full_shard, true)), one));
    }
}

TEST_CASE("so they have under every strategy, and without the mode they have not") {
    constexpr std::size_t kFew = 20;
    const auto one = losses(1, with(ShardingStrategy::no_shard, true), kFew);
    for (const auto strategy : {ShardingStrategy::shard_grad_op, ShardingStrategy::shard_optimizer,
                                ShardingStrategy::no_shard, ShardingStrategy::hybrid_shard}) {
        CAPTURE(name_of(strategy));
        CHECK(same_bits(losses(4, with(strategy, true), kFew), one));
    }
    CHECK_FALSE(same_bits(losses(4, with(ShardingStrategy::no_shard, false), kFew), one));
}

}  // namespace fsdp_determinism_test
