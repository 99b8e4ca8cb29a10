// A torch::nn::Module cut over real processes trains as torch itself trains it on one rank.
#include <torch/nn.h>
#include <torch/optim/adamw.h>
#include <torch/serialize.h>
#include <torch/utils.h>
#include <autolaunch/torch.hpp>

#undef CHECK  // glog's, which libtorch's headers bring

#include "fsdp_ranks.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/fsdp/adamw.hpp>
#include <autolaunch/session.hpp>

#include <limits>
#include <sstream>
#include <stdexcept>

namespace torch_model_test {

using namespace autolaunch;
using namespace autolaunch::fsdp;
using namespace autolaunch::fsdp::testing;
namespace nn = torch::nn;

namespace {

constexpr std::int64_t kCharacters = 13, kWidth = 24, kLength = 6, kBatch = 8, kLayers = 3;
constexpr std::size_t kSteps = 6;
// Of losses and parameters, in f32: sums over ranks and samples differ in their order, so gradients
// do by some 1e-7 of their size, and AdamW divides by sqrt(v) + kEpsilon: an element whose gradient
// is noise moves by less than lr * 1e-7 / kEpsilon a step.
constexpr double kRate = 1e-2, kEpsilon = 1e-3, kDecay = 0.1, kTolerance = 2e-5;

struct BlockImpl : nn::Module {
    explicit BlockImpl(double dropout) {
        register_module("norm", norm);
        register_module("qkv", qkv);
        register_module("out", out);
        mlp = register_module(
            "mlp", nn::Sequential(nn::LayerNorm(nn::LayerNormOptions({kWidth})),
                                  nn::Linear(kWidth, 2 * kWidth), nn::GELU(), nn::Dropout(dropout),
                                  nn::Linear(2 * kWidth, kWidth)));
    }
    torch::Tensor forward(torch::Tensor x) {
        const auto parts = qkv(norm(x)).chunk(3, -1);
        const auto scores =
            torch::matmul(parts[0], parts[1].transpose(1, 2)) / std::sqrt(double(kWidth));
        const auto mask = torch::ones({x.size(1), x.size(1)}, torch::kBool).triu(1);
        x = x + out(torch::matmul(scores.masked_fill(mask, -1e9).softmax(-1), parts[2]));
        return x + mlp->forward(x);
    }
    nn::LayerNorm norm{nn::LayerNormOptions({kWidth})};
    nn::Linear qkv{kWidth, 3 * kWidth}, out{kWidth, kWidth};
    nn::Sequential mlp{nullptr};
};
TORCH_MODULE(Block);

// A block whose activations are computed again in backward: a pass forward and a backward within
// one.
struct Recomputed : torch::autograd::Function<Recomputed> {
    static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                                 std::int64_t block) {
        context->save_for_backward({x});
        context->saved_data["block"] = block;
        return reinterpret_cast<BlockImpl*>(block)->forward(x);
    }
    static torch::autograd::variable_list backward(
        torch::autograd::AutogradContext* context,
        const torch::autograd::variable_list& gradients) {
        const auto x = context->get_saved_variables()[0].detach().requires_grad_();
        const torch::AutoGradMode with_graph(true);
        reinterpret_cast<BlockImpl*>(context->saved_data["block"].toInt())
            ->forward(x)
            .backward(gradients[0]);
        return {x.grad(), torch::Tensor()};
    }
};

// A transformer whose last layer is its first: `head` is a second name of the embedding's weight.
struct NetImpl : nn::Module {
    NetImpl() {
        register_module("embedding", embedding);
        place = register_parameter("place", torch::randn({kLength, kWidth}));
        register_module("blocks", blocks);
        for (std::int64_t i = 0; i < kLayers; ++i)
            blocks->push_back(Block(0.0));
        register_module("norm", norm);
        head = register_parameter("head", embedding->weight);
        seen = register_buffer("seen", torch::zeros({1}, torch::kLong));
    }
    torch::Tensor forward(const torch::Tensor& characters) {
        if (is_training())
            seen += characters.size(0);
        torch::Tensor x = embedding(characters) + place;
        for (const auto& each : *blocks) {
            auto* block = each->as<Block>();
            x = recomputes ? Recomputed::apply(x, reinterpret_cast<std::int64_t>(block))
                           : block->forward(x);
        }
        return torch::linear(norm(x), head);
    }
    nn::Embedding embedding{kCharacters, kWidth};
    torch::Tensor place, head, seen;
    nn::ModuleList blocks;
    nn::LayerNorm norm{nn::LayerNormOptions({kWidth})};
    bool recomputes = false;
};

std::shared_ptr<NetImpl> make_net() {
    torch::set_num_threads(1);
    torch::manual_seed(7);
    return std::make_shared<NetImpl>();
}

torch::Tensor loss_of(NetImpl& net, const torch::Tensor& text) {
    const auto logits = net.forward(text.narrow(1, 0, kLength));
    return nn::functional::cross_entropy(logits.to(torch::kFloat).flatten(0, 1),
                                         text.narrow(1, 1, kLength).flatten());
}

// Rank r's part of a step's text; the same text on any number of ranks.
torch::Tensor text_of(std::size_t step, int rank, int ranks) {
    torch::Tensor text = torch::empty({kBatch, kLength + 1}, torch::kLong);
    for (std::int64_t i = 0; i < text.numel(); ++i)
        text.data_ptr<std::int64_t>()[i] =
            (i * i + 5 * i + static_cast<std::int64_t>(step) * 3) % kCharacters;
    return text.narrow(0, rank * kBatch / ranks, kBatch / ranks);
}

struct Recipe {
    bool frozen = false;  ///< embedding and the first block
    int micro_batches = 1;
    bool no_sync = false;
    bool recomputes = false;
    std::optional<double> max_grad_norm = std::nullopt;
};

void freeze(NetImpl& net) {
    net.embedding->weight.set_requires_grad(false);
    for (auto& parameter : net.blocks[0]->parameters())
        parameter.set_requires_grad(false);
}

// Losses of the steps, and then the parameters: from a process of its own, for a fork does not
// survive torch's threads.
using Result = std::vector<float>;
constexpr std::size_t kParameters =
    kCharacters * kWidth + kLength * kWidth + 2 * kWidth +
    kLayers * (4 * kWidth + 3 * kWidth * (kWidth + 1) + kWidth * (kWidth + 1) +
               2 * kWidth * (kWidth + 1) + kWidth * (2 * kWidth + 1));

void copy_parameters(NetImpl& net, float* to) {
    const torch::NoGradGuard no_grad;
    for (const auto& item : net.named_parameters()) {
        if (item.key() == "head")
            continue;
        const auto values = item.value().to(torch::kFloat).clone();
        std::memcpy(to, values.data_ptr(),
                    static_cast<std::size_t>(values.numel()) * sizeof(float));
        to += values.numel();
    }
}

void by_torch(const Recipe& recipe, float* result) {
    const auto net = make_net();
    if (recipe.frozen)
        freeze(*net);
    std::vector<torch::Tensor> parameters;
    for (const auto& item : net->named_parameters())
        if (item.key() != "head" && item.value().requires_grad())
            parameters.push_back(item.value());
    torch::optim::AdamW optimizer(
        parameters, torch::optim::AdamWOptions(kRate).weight_decay(kDecay).eps(kEpsilon));
    for (std::size_t step = 0; step < kSteps; ++step) {
        optimizer.zero_grad();
        for (int micro = 0; micro < recipe.micro_batches; ++micro) {
            const auto loss =
                loss_of(*net, text_of(step, micro, recipe.micro_batches)) / recipe.micro_batches;
            loss.backward();
            result[step] += loss.item<float>();
        }
        if (recipe.max_grad_norm)
            nn::utils::clip_grad_norm_(parameters, *recipe.max_grad_norm);
        optimizer.step();
    }
    copy_parameters(*net, result + kSteps);
}

AdamWOptions adamw() {
    AdamWOptions options;
    options.lr = kRate;
    options.eps = kEpsilon;
    options.weight_decay = kDecay;
    options.decays = [](const ParameterSpec&) { return true; };
    options.threads = 1;
    return options;
}

void by_ranks(Communicator& world, const ShardedModelOptions& sharding, const Recipe& recipe,
              float* result) {
    const auto net = make_net();
    if (recipe.frozen)
        freeze(*net);
    net->recomputes = recipe.recomputes;
    TorchModel model(world, net, {.sharding = sharding});
    AdamW optimizer(model.sharded(), adamw());
    const int parts = world.size() * recipe.micro_batches;
    for (std::size_t step = 0; step < kSteps; ++step) {
        float loss = 0;
        for (int micro = 0; micro < recipe.micro_batches; ++micro) {
            std::optional<TorchModel::NoSync> no_sync;
            if (recipe.no_sync && micro + 1 < recipe.micro_batches)
                no_sync.emplace(model.no_sync());
            const auto part =
                loss_of(*net, text_of(step, micro * world.size() + world.rank(), parts));
            part.backward();
            loss += part.item<float>();
        }
        StepOptions how;
        how.max_grad_norm = recipe.max_grad_norm;
        how.micro_batches = recipe.micro_batches;
        optimizer.step(how);
        loss = world.all_reduce_value(loss) / static_cast<float>(parts);
        if (world.rank() == 0)
            result[step] = loss;
    }
    const auto whole = model.whole();
    if (world.rank() == 0)
        copy_parameters(*net, result + kSteps);
}

Result train(int ranks, const ShardedModelOptions& sharding, const Recipe& recipe = {}) {
    Shared<float> result(kSteps + kParameters);
    on_ranks(ranks, [&](Communicator& world) { by_ranks(world, sharding, recipe, result.data()); });
    return result.copy();
}

Result train_by_torch(const Recipe& recipe = {}) {
    Shared<float> result(kSteps + kParameters);
    on_ranks(1, [&](Communicator&) { by_torch(recipe, result.data()); });
    CHECK(result[kSteps - 1] < 0.8f * result[0]);  // it learns
    return result.copy();
}

double difference(const Result& a, const Result& b) {
    double most = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        most = std::max(most, std::abs(double(a[i]) - double(b[i])));
    return most;
}

void on_one_rank(const std::function<void(Communicator&)>& body) { on_ranks(1, body); }

}  // namespace

TEST_CASE("every strategy on 1, 2 and 4 ranks trains as torch does, with tied weights") {
    const Result torch_alone = train_by_torch();
    for (const auto strategy : {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op,
                                ShardingStrategy::shard_optimizer, ShardingStrategy::no_shard,
                                ShardingStrategy::hybrid_shard}) {
        for (const int ranks : {1, 2, 4}) {
            ShardedModelOptions options = unmerged(strategy);
            if (strategy == ShardingStrategy::hybrid_shard)
                options.shard_group = ranks == 4 ? 2 : ranks;
            CAPTURE(name_of(strategy));
            CAPTURE(ranks);
            const double most = difference(train(ranks, options), torch_alone);
            MESSAGE(name_of(strategy), " on ", ranks, " ranks differs by ", most);
            CHECK(most < kTolerance);
        }
    }
}

TEST_CASE(
    "merged units, recomputed blocks, frozen parameters, clipping and micro-batches train as torch "
    "does") {
    ShardedModelOptions merged;
    merged.merge_below = 20'000;
    CHECK(difference(train(2, merged), train_by_torch()) < kTolerance);
    CHECK(difference(train(2, unmerged(), {.recomputes = true}), train_by_torch()) < kTolerance);
    const Recipe frozen{.frozen = true};
    CHECK(difference(train(2, unmerged(), frozen), train_by_torch(frozen)) < kTolerance);
    const Recipe clipped{.max_grad_norm = 0.1};
    CHECK(difference(train(2, unmerged(), clipped), train_by_torch(clipped)) < kTolerance);
    Recipe micro{.micro_batches = 2};
    const Result torch_alone = train_by_torch(micro);
    CHECK(difference(train(2, unmerged(), micro), torch_alone) < kTolerance);
    micro.no_sync = true;
    CHECK(difference(train(2, unmerged(), micro), torch_alone) < kTolerance);
    CHECK(difference(train(2, unmerged(ShardingStrategy::no_shard), micro), torch_alone) <
          kTolerance);
}

namespace {

// What operators with lists of parameters, buffers and views of parameters do.
struct ReadyMadeImpl : nn::Module {
    ReadyMadeImpl() {
        register_module("conv", conv);
        register_module("norm", norm);
        register_module("lstm", lstm);
        register_module("encoder", encoder);
        register_module("attention", attention);
    }
    torch::Tensor forward(const torch::Tensor& x) {
        const auto sequence = norm(conv(x)).permute({2, 0, 1});
        const auto encoded = encoder(std::get<0>(lstm(sequence)));
        return std::get<0>(attention(encoded, encoded, encoded)).select(0, 0);
    }
    nn::Conv1d conv{nn::Conv1dOptions(4, 8, 3)};
    nn::BatchNorm1d norm{8};
    nn::LSTM lstm{nn::LSTMOptions(8, 8).num_layers(2)};
    nn::TransformerEncoder encoder{
        nn::TransformerEncoderLayer(
            nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(0)),
        2};
    nn::MultiheadAttention attention{8, 2};
};

}  // namespace

TEST_CASE("what a trainer drops in the middle of a step is gone") {
    const auto train = [](Communicator& world, bool drops) {
        const auto net = make_net();
        TorchModel model(world, net, {.sharding = unmerged()});
        AdamW optimizer(model.sharded(), adamw());
        const auto backward = [&](std::size_t step, float scale = 1) {
            (loss_of(*net, text_of(step, world.rank(), world.size())) * scale).backward();
        };
        for (std::size_t step = 0; step < kSteps; ++step) {
            if (drops) {  // a step is given up, with gradients reduced and not
                {
                    const auto waits = model.no_sync();
                    backward(50, 1000);
                }
                backward(51, 1000);
                model.discard_step();
            }
            {
                const auto waits =
                    model.no_sync();  // a micro-batch that is worth nothing, or worse
                backward(step, drops ? std::numeric_limits<float>::quiet_NaN() : 0.0f);
                for (auto& parameter : net->parameters())
                    parameter.mutable_grad().reset();
            }
            backward(step);
            optimizer.step();
        }
        const auto whole = model.whole();
        std::vector<float> values(kParameters);
        copy_parameters(*net, values.data());
        return values;
    };
    on_ranks(2, [&](Communicator& world) {
        expect(same_bits(train(world, true), train(world, false)), "the same parameters");
    });
}

TEST_CASE("libtorch's own modules train as without sharding") {
    on_ranks(2, [](Communicator& world) {
        torch::set_num_threads(1);
        const auto make = [] {
            torch::manual_seed(3);
            return std::make_shared<ReadyMadeImpl>();
        };
        const auto plain = make(), sharded = make();
        torch::manual_seed(4);
        const auto x = torch::randn({5, 4, 9}), y = torch::randn({5, 8});  // the same on both ranks
        torch::optim::AdamW reference(
            plain->parameters(),
            torch::optim::AdamWOptions(kRate).weight_decay(kDecay).eps(kEpsilon));
        TorchModel model(world, sharded, {.sharding = unmerged()});
        AdamW optimizer(model.sharded(), adamw());
        for (int step = 0; step < 4; ++step) {
            reference.zero_grad();
            (plain->forward(x) - y).square().mean().backward();
            reference.step();
            (sharded->forward(x) - y).square().mean().backward();
            optimizer.step();
        }
        const auto whole = model.whole();
        for (const auto& item : plain->named_parameters()) {
            const auto most =
                (item.value() - sharded->named_parameters()[item.key()]).abs().max().item<float>();
            expect(most < kTolerance, item.key() + " differs by " + std::to_string(most));
        }
        expect(at::allclose(plain->norm->running_mean, sharded->norm->running_mean),
               "buffers are as without");
    });
}

TEST_CASE("units are the layers, and names are torch's") {
    on_one_rank([](Communicator& world) {
        const auto names_of = [&](const TorchModelOptions& options) {
            TorchModel model(world, make_net(), options);
            std::string names;
            for (const auto& unit : model.sharded().units())
                names += unit->name() + " ";
            return names;
        };
        expect(names_of({}) == "root blocks.0 blocks.1 blocks.2 norm ", "got " + names_of({}));
        expect(names_of({.units = {"blocks.*.mlp"}}) ==
                   "root blocks blocks.0.mlp blocks.1.mlp blocks.2.mlp norm ",
               "got " + names_of({.units = {"blocks.*.mlp"}}));
        expect_error(ErrorCode::invalid_argument, "did you mean blocks.2?",
                     [&] { names_of({.units = {"block.2"}}); });

        TorchModel model(world, make_net());
        const State state = model.state();
        const auto has = [&](const std::string& name) {
            return std::any_of(state.begin(), state.end(),
                               [&](const auto& tensor) { return tensor.name == name; });
        };
        expect(has("blocks.1.mlp.4.bias") && has("root.head") && has("root.place") && has("seen"),
               "names");
        expect(!has("embedding.weight"), "a tied parameter is there once");
    });
}

TEST_CASE("memory is that of two units, and parameters lie in it") {
    on_ranks(2, [](Communicator& world) {
        const auto net = make_net();
        TorchModel model(world, net, {.sharding = unmerged()});
        AdamW optimizer(model.sharded(), adamw());
        const auto data = [&] {
            return net->blocks[1]->as<Block>()->qkv->weight.storage().data_ptr().get();
        };
        for (std::size_t step = 0; step < 3; ++step) {
            expect(data() == nullptr, "no memory before forward");
            const auto loss = loss_of(*net, text_of(step, world.rank(), world.size()));
            expect(data() == nullptr, "no memory after forward");
            loss.backward();
            for (const auto& parameter : net->parameters())
                expect(!parameter.grad().defined(), "gradients are given back");
            optimizer.step();
        }
        // Shards are cut, and parameters start, on multiples of 128 elements; buffers are of whole
        // pages.
        std::size_t largest = 0;
        for (const auto& unit : model.sharded().units())
            largest = std::max(
                largest, sizeof(float) * static_cast<std::size_t>(
                                             ShardLayout(unit->parameters(), 2).arena_elements()));
        const ModelMemory memory = model.sharded().memory();
        expect(memory.gathered <= 2 * (largest + 4096),
               "two units are gathered: " + std::to_string(memory.gathered));
        expect(memory.whole_gradients <= 2 * (largest + 4096),
               "two units' gradients are whole: " + std::to_string(memory.whole_gradients));

        const auto whole = model.whole();
        Unit& unit = model.sharded().unit("blocks.1");
        const auto parameters = unit.unshard();
        expect(data() == parameters["qkv.weight"].bytes, "the parameter is the gathered buffer");
    });
}

TEST_CASE("evaluation anywhere, and a module saved by torch") {
    on_ranks(2, [](Communicator& world) {
        const auto net = make_net();
        TorchModel model(world, net, {.sharding = unmerged()});
        AdamW optimizer(model.sharded(), adamw());
        const auto evaluate = [&] {
            const torch::NoGradGuard no_grad;
            net->eval();
            const float loss = loss_of(*net, text_of(99, 0, 1)).item<float>();
            net->train();
            return loss;
        };
        float last = 0;
        for (std::size_t step = 0; step < 4; ++step) {
            const auto loss = loss_of(*net, text_of(step, world.rank(), world.size()));
            if (step == 1 || step == 3) {  // between forward and backward, and not in each step
                const auto scope = model.evaluation();
                evaluate();
            }
            loss.backward();
            optimizer.step();
            const auto scope = model.evaluation();
            last = evaluate();
        }
        std::stringstream file;
        {
            const auto whole = model.whole();
            torch::save(std::static_pointer_cast<NetImpl>(net), file);
        }
        const auto copy = std::make_shared<NetImpl>();
        auto loaded = copy;
        torch::load(loaded, file);
        const torch::NoGradGuard no_grad;
        loaded->head = loaded->embedding->weight;
        expect(std::abs(loss_of(*loaded, text_of(99, 0, 1)).item<float>() - last) < 1e-6f,
               "the same loss");
    });
}

TEST_CASE("parameters in bf16, masters in f32") {
    on_ranks(2, [](Communicator& world) {
        const auto net = make_net();
        ShardedModelOptions options = unmerged();
        options.precision.param = DataType::bf16;
        TorchModel model(world, net, {.sharding = options});
        AdamW optimizer(model.sharded(), adamw());
        expect(net->norm->weight.scalar_type() == torch::kBFloat16, "the parameters are bf16");
        float first = 0, last = 0;
        for (std::size_t step = 0; step < 2 * kSteps; ++step) {
            const auto loss = loss_of(*net, text_of(step, world.rank(), world.size()));
            loss.backward();
            optimizer.step();
            (step == 0 ? first : last) = world.all_reduce_value(loss.item<float>()) / 2;
        }
        expect(last < 0.8f * first,
               "it learns: " + std::to_string(first) + " to " + std::to_string(last));
    });
}

TEST_CASE("a checkpoint of two ranks goes on, on one") {
    const TemporaryDirectory directory;
    Shared<float> losses(2);
    const auto run = [&](Communicator& world, bool resume) {
        Session session = Session::from_environment();
        const auto net = make_net();
        TorchModel model(world, net, {.sharding = unmerged()});
        AdamW optimizer(model.sharded(), adamw());
        Checkpointer checkpoint(session, world, {.directory = directory.path()});
        const auto train_step = [&](std::size_t step) {
            const auto loss = loss_of(*net, text_of(step, world.rank(), world.size()));
            loss.backward();
            checkpoint.wait_copied();
            optimizer.step();
            return world.all_reduce_value(loss.item<float>()) / static_cast<float>(world.size());
        };
        if (resume) {
            checkpoint.load(checkpoint.latest().value(), model, optimizer);
            // Half a batch in each of two steps: what it was when the save began.
            expect(net->seen.item<std::int64_t>() == kBatch, "the buffer is restored");
        } else {
            train_step(0);
            train_step(1);
            checkpoint.save_async(2, model, optimizer);
        }
        const float loss = train_step(2);
        checkpoint.finish();
        if (world.rank() == 0)
            losses[resume] = loss;
    };
    on_ranks(2, [&](Communicator& world) { run(world, false); });
    on_ranks(1, [&](Communicator& world) { run(world, true); });
    CHECK(losses[0] > 0);
    CHECK(losses[1] == doctest::Approx(losses[0]).epsilon(1e-6));
}

namespace {

// One rank that says it is of GPUs.
class GpuRank final : public CommunicatorBackend {
public:
    std::string_view name() const noexcept override { return "nccl"; }
    int rank() const noexcept override { return 0; }
    int size() const noexcept override { return 1; }
    DeviceType device_type() const noexcept override { return DeviceType::cuda; }
    Work start(const CollectiveCall&, Stream) override {
        throw std::logic_error("nothing may reach it");
    }
    Work start_group(std::span<const CollectiveCall>, Stream) override { return start({}, {}); }
    void barrier() override { start({}, {}); }
    std::shared_ptr<CommunicatorBackend> split(int, int) override { return nullptr; }
    void abort(const std::string&) override {}
    CommunicatorStatus status() const override { return {}; }
};

}  // namespace

TEST_CASE("what is not in the CPU's memory is refused before anything is sent") {
    on_one_rank([](Communicator& world) {
        Communicator gpus(std::make_shared<GpuRank>());
        expect_error(ErrorCode::unsupported, "the communicator is of GPUs",
                     [&] { TorchModel(gpus, make_net()); });
        const auto elsewhere = make_net();
        elsewhere->register_parameter("far", torch::empty({kWidth}, torch::kMeta));
        expect_error(ErrorCode::unsupported, "parameter far is on meta",
                     [&] { TorchModel(world, elsewhere); });
    });
}

TEST_CASE("what goes wrong is thrown where it happens") {
    on_one_rank([](Communicator& world) {
        const auto net = make_net();
        net->to(torch::kDouble);
        expect_error(ErrorCode::unsupported, "is of type Double", [&] { TorchModel(world, net); });
        const auto graphs = make_net();
        TorchModel model(world, graphs);
        const auto loss = loss_of(*graphs, text_of(0, 0, 1));
        expect_error(ErrorCode::unsupported, "create_graph",
                     [&] { loss.backward({}, /*retain_graph=*/true, /*create_graph=*/true); });
        const auto moved = make_net();
        TorchModel second(world, moved);
        moved->norm->weight.set_data(torch::ones({kWidth}));
        expect_error(ErrorCode::invalid_argument, "norm.weight was given other data",
                     [&] { loss_of(*moved, text_of(0, 0, 1)); });
    });
    // Another order on one rank: an operator throws there, and none waits on the other.
    on_ranks(2, [](Communicator& world) {
        const auto net = make_net();
        TorchModel model(world, net, {.sharding = unmerged()});
        AdamW optimizer(model.sharded(), adamw());
        const auto text = text_of(0, world.rank(), world.size());
        loss_of(*net, text).backward();
        optimizer.step();
        world.barrier();  // or the abort meets rank 0 in the step before
        const bool deviates = world.rank() == 1;
        const auto step = [&] {
            if (deviates)
                net->blocks[2]->as<Block>()->qkv->weight.sum();
            loss_of(*net, text).backward();
        };
        if (deviates) {
            expect_error(ErrorCode::mismatch, "expected unshard of root, got unshard of blocks.2",
                         step);
        } else {
            expect_error(ErrorCode::aborted, "rank 1", step);
        }
    });
}

}  // namespace torch_model_test
