// The character model as a libtorch module, cut over the ranks. docs/guides/shard-a-torch-module.md
// goes through it.
//
//     torch_train [--pass-over-unusable] [STEPS [FOLDER]]
//
// goes on from the newest checkpoint in the folder, and leaves one at its end. With the option it
// goes on without checkpoints that cannot be read, and anew where none can be used.
#include "char_model.hpp"

#include <torch/nn.h>
#include <autolaunch/autolaunch.hpp>
#include <autolaunch/torch.hpp>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace al = autolaunch;
namespace fsdp = autolaunch::fsdp;
namespace nn = torch::nn;
using namespace char_model;

// [module]
struct CharNetImpl : nn::Module {
    CharNetImpl() {
        register_module("embedding", embedding);
        register_module("hidden", hidden);
        register_module("output", output);
    }
    torch::Tensor forward(const torch::Tensor& characters) {
        return output(torch::tanh(hidden(embedding(characters).flatten(1))));
    }
    nn::Embedding embedding{kCharacters, kEmbedding};
    nn::Linear hidden{kInput, kHidden}, output{kHidden, kCharacters};
};
TORCH_MODULE(CharNet);
// [/module]

// The values of char_single, so that the losses can be compared.
CharNet make_net() {
    CharNet net;
    std::size_t tensor = 0;
    for (torch::Tensor& parameter : net->parameters()) {
        auto* values = parameter.data_ptr<float>();
        for (std::size_t i = 0; i < kTensors[tensor].count(); ++i)
            values[i] = initial_value(tensor, i);
        ++tensor;
    }
    return net;
}

// This rank's part of a step's batch.
std::pair<torch::Tensor, torch::Tensor> batch_of(int step, const al::Communicator& world) {
    const int each = Batch::kSamples / world.size();
    Batch batch = load_batch(step, world.rank() * each, (world.rank() + 1) * each);
    const auto inputs = torch::from_blob(batch.inputs.data(), {batch.count, kContext}, torch::kInt);
    const auto targets = torch::from_blob(batch.targets.data(), {batch.count}, torch::kInt);
    return {inputs.to(torch::kLong), targets.to(torch::kLong)};
}

// [model]
fsdp::TorchModel make_model(al::Communicator world, const CharNet& net) {
    fsdp::TorchModelOptions options;
    options.sharding.strategy = fsdp::ShardingStrategy::full_shard;
    return fsdp::TorchModel(std::move(world), net.ptr(), options);
}
// [/model]

fsdp::AdamWOptions adamw_options() {
    fsdp::AdamWOptions options;
    options.lr = kLearningRate;
    options.weight_decay = kWeightDecay;
    return options;
}

// [train]
struct Training {
    explicit Training(al::Communicator world)
        : model(make_model(std::move(world), net)), optimizer(model.sharded(), adamw_options()) {}

    CharNet net = make_net();
    fsdp::TorchModel model;
    fsdp::AdamW optimizer;
};

void train(al::Session& session, al::Communicator world, int steps,
           const al::CheckpointOptions& saved) {
    al::Checkpointer checkpoints(session, world, saved);
    std::optional<Training> training(world);
    const auto newest = checkpoints.load_latest(training->model, training->optimizer);
    if (!newest && saved.pass_over_unusable)
        training.emplace(world);  // what was passed over may have been read in part
    if (newest && world.rank() == 0)
        for (const std::string& reason : newest->skipped)
            std::printf("note: passed over %s\n", reason.c_str());

    auto& [net, model, optimizer] = *training;
    for (int step = static_cast<int>(optimizer.step_count()) + 1; step <= steps; ++step) {
        const auto [inputs, targets] = batch_of(step, world);
        const auto loss = nn::functional::cross_entropy(net->forward(inputs), targets);
        loss.backward();
        optimizer.step();
        const float mean =
            world.all_reduce_value(loss.item<float>()) / static_cast<float>(world.size());
        if (world.rank() == 0)
            std::printf("step %d loss %.6f\n", step, mean);
    }
    checkpoints.save(steps, model, optimizer);
}
// [/train]

int main(int argc, char** argv) {
    torch::set_num_threads(1);  // a small model
    al::CheckpointOptions saved;
    std::vector<std::string> arguments(argv + 1, argv + argc);
    saved.pass_over_unusable = std::erase(arguments, "--pass-over-unusable") > 0;
    saved.directory = arguments.size() > 1 ? arguments[1] : "torch_train.checkpoints";
    try {
        auto session = al::Session::from_environment();
        auto world = al::Communicator::world(session, {.backend = "cpu"});  // where the module is
        train(session, world, arguments.empty() ? kSteps : std::stoi(arguments[0]), saved);
    } catch (const al::Error& error) {
        std::fprintf(stderr, "%s\n  %s\n", error.what(), error.hint().c_str());
        return 1;
    }
}
