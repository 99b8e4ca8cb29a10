// After: the same trainer with its model cut over the ranks. docs/guides/shard-your-trainer.md goes
// through it.
#include "char_model.hpp"

#include <autolaunch/autolaunch.hpp>

#include <cstdio>
#include <span>
#include <string>
#include <utility>

using namespace char_model;
namespace al = autolaunch;
namespace fsdp = autolaunch::fsdp;

// [model]
fsdp::ShardedModel make_model(al::Communicator world) {
    fsdp::ShardedModelOptions options;
    options.strategy = fsdp::ShardingStrategy::full_shard;
    fsdp::ShardedModel model(std::move(world), options);
    model.add_unit("embedding", {{"wte", {kCharacters, kEmbedding}}});
    model.add_unit("hidden", {{"w1", {kHidden, kInput}}, {"b1", {kHidden}}});
    model.add_unit("output", {{"w2", {kCharacters, kHidden}}, {"b2", {kCharacters}}});
    model.finalize();
    return model;
}
// [/model]

// [initialize]
void initialize(fsdp::ShardedModel& model) {
    model.initialize(
        [](const std::string& name, auto /*shape*/, std::int64_t first, std::span<float> values) {
            for (std::size_t t = 0; t < kTensors.size(); ++t) {
                if (name != std::string(kTensors[t].layer) + "." + kTensors[t].name)
                    continue;
                for (std::size_t i = 0; i < values.size(); ++i)
                    values[i] = initial_value(t, static_cast<std::size_t>(first) + i);
            }
        });
}
// [/initialize]

// [step]
float forward_backward(fsdp::ShardedModel& model, const Batch& batch, Activations& acts) {
    fsdp::Unit& embedding = model.unit("embedding");
    fsdp::Unit& hidden = model.unit("hidden");
    fsdp::Unit& output = model.unit("output");
    {
        auto params = embedding.unshard();
        embedding_forward(params["wte"].data(), batch, acts);
    }
    auto hidden_params = hidden.unshard();
    hidden_forward(hidden_params["w1"].data(), hidden_params["b1"].data(), batch, acts);
    float loss = 0;
    {
        auto params = output.unshard();
        loss = output_forward(params["w2"].data(), params["b2"].data(), batch, acts);
        output_backward(params["w2"].data(), output.grad("w2").data(), output.grad("b2").data(),
                        batch, acts);
        output.reduce_grads();
    }
    hidden_backward(hidden_params["w1"].data(), hidden.grad("w1").data(), hidden.grad("b1").data(),
                    batch, acts);
    hidden.reduce_grads();
    embedding_backward(embedding.grad("wte").data(), batch, acts);
    embedding.reduce_grads();
    return loss;
}
// [/step]

// [loop]
int main() {
    auto session = al::Session::from_environment();
    auto world = al::Communicator::world(session, {.backend = "cpu"});  // its loops are a CPU's
    fsdp::ShardedModel model = make_model(world);
    initialize(model);
    fsdp::AdamWOptions options;
    options.lr = kLearningRate;
    options.weight_decay = kWeightDecay;
    fsdp::AdamW optimizer(model, options);

    static Activations acts;
    const int each = Batch::kSamples / world.size();
    for (int step = 1; step <= kSteps; ++step) {
        const Batch batch = load_batch(step, world.rank() * each, (world.rank() + 1) * each);
        float loss = forward_backward(model, batch, acts);
        optimizer.step();
        loss = world.all_reduce_value(loss) / static_cast<float>(world.size());
        if (world.rank() == 0)
            std::printf("step %d loss %.6f\n", step, loss);
    }
}
// [/loop]
