// One rank of tests/gpu/fsdp.sh: sharded models and optimizers on a GPU, against the same training
// on the CPU.
//
//   fsdp_gpu train [quick]     every strategy, optimizer and precision, bit by bit (f16 gradients
//   without NaN) fsdp_gpu checkpoint        saved beside training, each step's is what the CPU has
//   after that step, and loads fsdp_gpu bench [PARAMETERS [json]]   AdamW's bytes a second beside
//   those of a device copy; the state's way to the
//                              CPU's memory beside a copy to pinned memory. With `json` also as one
//                              line, for bench/gpu
//
// Prints "passed train" or "passed checkpoint"; exits with 77 where there is no GPU.
#include "comm/communicator_device.hpp"
#include "comm/nccl/cuda_device.hpp"
#include "comm/self/self_backend.hpp"
#include "fsdp/model_engine.hpp"
#include "fsdp/optimizer/algorithms.hpp"
#include "fsdp/optimizer/update_passes.hpp"
#include "no_gpu.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/fsdp/adamw.hpp>
#include <autolaunch/fsdp/lion.hpp>
#include <autolaunch/fsdp/sgd.hpp>
#include <autolaunch/session.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace autolaunch;
using namespace autolaunch::fsdp;

namespace {

/// The trainer's side of one device: the way in and out of its memory, on the trainer's stream.
class Trainer {
public:
    explicit Trainer(const Communicator& world) : device_(cuda_device_of(world)) {
        if (!device_)
            return;
        const CudaDevice::Current current(*device_);
        stream_ = device_->make_stream();
    }
    Stream stream() const {
        return device_ ? Stream::cuda(device_->index(), stream_.get()) : Stream();
    }
    void copy(void* to, const void* from, std::size_t bytes) const {
        if (!device_) {
            std::memcpy(to, from, bytes);
            return;
        }
        const CudaDevice::Current current(*device_);
        device_->copy(to, from, bytes, stream_.get());
        synchronize();
    }
    void synchronize() const {
        if (!device_)
            return;
        const CudaDevice::Current current(*device_);
        device_->wait(device_->record(stream_.get()), std::chrono::minutes(5));
    }
    CudaDevice& device() const { return *device_; }
    CUstream handle() const { return stream_.get(); }

private:
    std::shared_ptr<CudaDevice> device_;
    CudaDevice::Stream stream_;
};

std::vector<float> download(const Trainer& trainer, const TensorView& view) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(view.count) * size_of(view.type));
    trainer.copy(bytes.data(), view.bytes, bytes.size());
    std::vector<float> values(static_cast<std::size_t>(view.count));
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (view.type == f32)
            std::memcpy(&values[i], &bytes[4 * i], 4);
        std::uint16_t bits = 0;
        if (view.type != f32)
            std::memcpy(&bits, &bytes[2 * i], 2);
        bfloat16 brain;
        float16 half;
        brain.bits = half.bits = bits;
        if (view.type == bf16)
            values[i] = static_cast<float>(brain);
        if (view.type == f16)
            values[i] = static_cast<float>(half);
    }
    return values;
}

void upload(const Trainer& trainer, const std::vector<float>& values, const TensorView& view) {
    std::vector<std::byte> bytes(values.size() * size_of(view.type));
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (view.type == f32)
            std::memcpy(&bytes[4 * i], &values[i], 4);
        const std::uint16_t bits =
            view.type == bf16 ? bfloat16(values[i]).bits : float16(values[i]).bits;
        if (view.type != f32)
            std::memcpy(&bytes[2 * i], &bits, 2);
    }
    trainer.copy(view.bytes, bytes.data(), bytes.size());
}

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(ShardedModel&)>;

struct Variant {
    std::string name;
    ShardedModelOptions options;
    MakeOptimizer make;
};

/// Small numbers of 64ths, so that sums are exact in any order; or such that they are not, for
/// deterministic sums.
float gradient_of(bool exact, std::size_t sample, std::size_t index, float parameter) {
    if (!exact)
        return std::sin(static_cast<float>(sample * 131 + index * 7) + 3 * parameter);
    return (static_cast<float>((sample * 7919 + index * 104729) % 31) - 15 +
            std::floor(parameter * 8)) /
           64;
}

void add_units(ShardedModel& model) {
    model.add_unit("first", {{"w", {310, 333}}, {"b", {310}}});
    model.add_unit("second", {{"w", {77, 40}}, {"scale", {1}}});
    model.add_unit("third", {{"w", {129, 257}}});
    model.finalize();
}

/// Around each step.
struct Hooks {
    std::function<void()> before = [] {};
    std::function<void(int step, ShardedModel&, Optimizer&)> after = [](int, ShardedModel&,
                                                                        Optimizer&) {};
};

/// A few steps of `samples` samples each, spread over the ranks: at once, or each reduced by itself
/// for deterministic sums. The parameters at the end, and the last norm.
std::vector<float> train(const Communicator& given, const Variant& variant, int samples,
                         const Hooks& hooks = {}) {
    Communicator world = given;
    const Trainer trainer(world);
    ShardedModel model(world, variant.options);
    add_units(model);
    model.initialize([](const std::string& name, std::span<const std::int64_t>, std::int64_t at,
                        std::span<float> values) {
        for (float& value : values)
            value = std::sin(0.37f * static_cast<float>(at++ + std::ssize(name) * 11));
    });
    const auto optimizer = variant.make(model);
    double norm = 0;
    const bool at_once = !variant.options.deterministic;
    const int passes = at_once ? 1 : samples / world.size();
    for (int pass = 0; pass < 4 * passes; ++pass) {
        const int step = pass / passes, begin = at_once ? 0 : pass % passes * world.size();
        const int end = at_once ? samples : begin + world.size();
        for (const auto& unit : model.units())
            (void)unit->unshard(trainer.stream());
        for (std::size_t u = model.units().size(); u-- > 0;) {
            Unit& unit = *model.units()[u];
            const auto parameters = unit.unshard(trainer.stream());
            for (const ParameterSpec& parameter : unit.parameters()) {
                const auto values = download(trainer, parameters[parameter.name]);
                const TensorView into = unit.grad(parameter.name);
                auto gradient = download(trainer, into);
                for (int sample = begin + world.rank(); sample < end; sample += world.size())
                    for (std::size_t i = 0; i < gradient.size(); ++i)
                        gradient[i] +=
                            gradient_of(at_once, static_cast<std::size_t>(step * samples + sample),
                                        i, values[i]);
                upload(trainer, gradient, into);
            }
            unit.reduce_grads(trainer.stream());
        }
        if (pass % passes != passes - 1)
            continue;
        StepOptions how;
        how.max_grad_norm = 0.5;
        how.micro_batches = samples / world.size();
        how.measure_norm = step % 2 == 1;
        if (!how.measure_norm)
            how.on_nonfinite = NonFinite::apply;
        hooks.before();
        norm = optimizer->step(how, trainer.stream()).grad_norm;
        hooks.after(step, model, *optimizer);
    }
    std::vector<float> all{static_cast<float>(norm)};
    const auto evaluation = model.evaluation();
    for (const auto& unit : model.units()) {
        const auto parameters = unit->unshard(trainer.stream());
        for (const ParameterSpec& parameter : unit->parameters()) {
            const auto values = download(trainer, parameters[parameter.name]);
            all.insert(all.end(), values.begin(), values.end());
        }
    }
    return all;
}

std::vector<Variant> variants(bool quick) {
    const std::vector<std::pair<std::string, MakeOptimizer>> optimizers = {
        {"AdamW",
         [](ShardedModel& model) {
             return std::make_unique<AdamW>(model, AdamWOptions{.lr = 1e-2, .weight_decay = 0.1});
         }},
        {"SGD",
         [](ShardedModel& model) { return std::make_unique<SGD>(model, SGDOptions{.lr = 1e-2}); }},
        {"SGD with dampening",
         [](ShardedModel& model) {
             return std::make_unique<SGD>(
                 model, SGDOptions{.lr = 1e-2, .momentum = 0.9, .dampening = 0.25});
         }},
        {"Lion",
         [](ShardedModel& model) {
             return std::make_unique<Lion>(model, LionOptions{.lr = 1e-2, .weight_decay = 0.1});
         }},
    };
    const std::vector<std::pair<std::string, Precision>> precisions = {
        {"f32", {}},
        {"bf16", {.param = bf16}},
        {"f16", {.param = f16}},
        {"bf16 sums", {.param = bf16, .reduce = bf16}},
        {"bf16 gradients", {.param = bf16, .reduce = bf16, .accumulate = bf16}},
        {"bf16 masters", {.param = bf16, .master = bf16}},
    };
    std::vector<Variant> all;
    const auto add = [&](ShardingStrategy strategy, const auto& precision, const auto& optimizer,
                         bool offload, bool deterministic = false) {
        ShardedModelOptions options;
        options.strategy = strategy;
        options.precision = precision.second;
        options.merge_below = 0;
        options.offload_optimizer = offload;
        options.deterministic = deterministic;
        all.push_back({std::string(name_of(strategy)) + ", " + precision.first + ", " +
                           optimizer.first + (offload ? ", offloaded" : "") +
                           (deterministic ? ", deterministic" : ""),
                       options, optimizer.second});
    };
    for (const auto strategy : {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op,
                                ShardingStrategy::shard_optimizer, ShardingStrategy::no_shard}) {
        add(strategy, precisions[0], optimizers[0], false);
        add(strategy, precisions[1], optimizers[0], true);
        add(strategy, precisions[1], optimizers[0], false, true);
    }
    for (const auto& precision : precisions)
        for (const auto& optimizer : optimizers)
            if (!quick || &precision == &precisions[1])
                add(ShardingStrategy::full_shard, precision, optimizer, false);
    return all;
}

int run_train(Communicator& world, bool quick) {
    int failures = 0;
    Communicator alone(std::make_shared<SelfBackend>());
    for (const Variant& variant : variants(quick)) {
        // Halves are rounded on their way between ranks: compared bit by bit with one rank only.
        const bool is_exact = variant.options.precision.reduce == f32 || world.size() == 1;
        const auto got = train(world, variant, 4);
        const auto expected = train(alone, variant, 4);
        std::size_t different = 0;
        for (std::size_t i = 0; i < got.size(); ++i)
            different += is_exact ? std::memcmp(&got[i], &expected[i], sizeof(float)) != 0
                                  : std::abs(got[i] - expected[i]) > 0.05f;
        if (different == 0)
            continue;
        ++failures;
        std::printf("FAILED: %s: %zu of %zu values differ\n", variant.name.c_str(), different,
                    got.size());
    }
    if (failures == 0)
        std::printf("passed train\n");
    return failures == 0 ? 0 : 1;
}

/// Every f32 of the state that this rank holds, by the tensor's name: masters and moments.
using Numbers = std::map<std::string, std::vector<float>>;
Numbers numbers_of(ShardedModel& model, Optimizer& optimizer) {
    Numbers numbers;
    for (const State& state : {model.state(), optimizer.state()})
        for (const StateTensor& tensor : state)
            for (const auto& piece : tensor.pieces) {
                if (tensor.type != f32)
                    continue;
                auto& all = numbers[tensor.name];
                all.resize(all.size() + static_cast<std::size_t>(piece.count));
                std::memcpy(&all[all.size() - static_cast<std::size_t>(piece.count)], piece.data,
                            static_cast<std::size_t>(piece.count) * sizeof(float));
            }
    return numbers;
}

/// `alone`, one rank of CPUs, loads what ranks of GPUs saved; and so do these.
int run_checkpoint(Session& session, Communicator& world) {
    Communicator alone(std::make_shared<SelfBackend>());
    const auto job = world.all_reduce_value<std::int64_t>(world.rank() == 0 ? ::getpid() : 0);
    const CheckpointOptions where{
        .directory = "/tmp/autolaunch-gpu-checkpoint-" + std::to_string(job),
        .keep = 99,
        .memory = false};
    int failures = 0;
    for (const Variant& variant : variants(true)) {
        if (variant.options.precision.master != f32)
            continue;
        std::vector<Numbers> expected;
        Hooks record;
        record.after = [&](int, ShardedModel& model, Optimizer& optimizer) {
            expected.push_back(numbers_of(model, optimizer));
        };
        train(alone, variant, 4, record);
        {
            Checkpointer checkpointer(session, world, where);
            Hooks save;
            save.before = [&] { checkpointer.wait_copied(); };
            save.after = [&](int step, ShardedModel& model, Optimizer& optimizer) {
                checkpointer.save_async(step, model, optimizer);
                if (step == 3)
                    checkpointer.finish();
            };
            train(world, variant, 4, save);
        }
        const auto is_loaded = [&](const Communicator& ranks, std::int64_t step) {
            ShardedModel model(ranks, variant.options);
            add_units(model);
            const auto optimizer = variant.make(model);
            Checkpointer checkpointer(session, ranks, where);
            const auto found = checkpointer.latest(step + 1);
            if (!found || found->step != step)
                return false;
            checkpointer.load(*found, model, *optimizer);
            return ranks.size() > 1 ||
                   numbers_of(model, *optimizer) == expected[static_cast<std::size_t>(step)];
        };
        for (std::int64_t step = 0; step < 4; ++step) {
            const bool by_gpus = is_loaded(world, step), by_cpu = is_loaded(alone, step);
            if (by_gpus && by_cpu)
                continue;
            ++failures;
            std::printf("FAILED: %s: step %lld as %s loads it\n", variant.name.c_str(),
                        static_cast<long long>(step), by_cpu ? "GPUs" : "the CPU");
        }
        world.barrier();
        if (world.rank() == 0)
            std::filesystem::remove_all(where.directory);
        world.barrier();
    }
    if (failures == 0)
        std::printf("passed checkpoint\n");
    return failures == 0 ? 0 : 1;
}

double seconds_of(const Trainer& trainer, int times, const std::function<void()>& work) {
    work();
    trainer.synchronize();
    double best = 1e9;
    for (int round = 0; round < 5; ++round) {
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < times; ++i)
            work();
        trainer.synchronize();
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        best = std::min(best, took.count() / times);
    }
    return best;
}

/// What a copy moves, reading and writing, in the best of five rounds.
double copy_bandwidth(const Trainer& trainer, std::size_t bytes) {
    const CudaDevice::Current current(trainer.device());
    const auto from = trainer.device().allocate(bytes), to = trainer.device().allocate(bytes);
    const double seconds = seconds_of(
        trainer, 10, [&] { trainer.device().copy(to.get(), from.get(), bytes, trainer.handle()); });
    return 2 * static_cast<double>(bytes) / seconds;
}

/// What gets from the GPU to the CPU's pinned memory in one copy.
double pinned_bandwidth(const Trainer& trainer, std::size_t bytes) {
    const CudaDevice::Current current(trainer.device());
    const auto from = trainer.device().allocate(bytes),
               to = trainer.device().allocate_pinned(bytes);
    const double seconds = seconds_of(
        trainer, 2, [&] { trainer.device().copy(to.get(), from.get(), bytes, trainer.handle()); });
    return static_cast<double>(bytes) / seconds;
}

/// Bytes a second of what a checkpoint takes: masters and AdamW's moments, as state() gives them.
double state_bandwidth(Communicator& world, std::int64_t parameters) {
    const Trainer trainer(world);
    ShardedModel model(world, {.merge_below = 0});
    for (int i = 0; i < 8; ++i)
        model.add_unit("h." + std::to_string(i), {{"w", {parameters / 8}}});
    model.finalize();
    AdamW optimizer(model);
    const double seconds = seconds_of(trainer, 1, [&] {
        const State masters = model.state(), moments = optimizer.state();
        if (masters.size() != 8 || moments.size() != 16)
            throw std::runtime_error("the state is another one");
    });
    return 12 * static_cast<double>(parameters) / seconds;
}

using Figures = std::vector<std::pair<std::string, double>>;

void bench(Communicator& world, std::int64_t parameters, const Precision& precision,
           const std::string& name, double copy, Figures& figures) {
    const Trainer trainer(world);
    ShardedModelOptions options;
    options.precision = precision;
    ShardedModel model(world, options);
    for (int i = 0; i < 8; ++i)
        model.add_unit("h." + std::to_string(i), {{"w", {parameters / 8}}});
    model.finalize();
    ModelEngine& engine = model.units()[0]->impl().engine();
    engine.begin_training();
    engine.use_stream(trainer.stream());
    UpdateOptions how;
    how.defaults.weight_decay = 0.1;
    how.defaults.beta1 = 0.9;
    how.defaults.beta2 = 0.999;
    how.defaults.eps = 1e-8;
    const auto passes = UpdatePasses::make(engine, adamw_algorithm(), how);
    for (OptimizerShard* shard : engine.optimizer_shards())
        shard->has_gradient = true;
    const double size = static_cast<double>(size_of(precision.param));
    const double copies = precision.master == precision.param ? 0 : size;  // the rounded parameters
    const double bytes = (precision.master == bf16 ? 24 : 28) + copies;
    for (const bool clips : {false, true}) {
        StepPlan plan;
        plan.lr = 1e-3;
        plan.returns_norm = plan.needs_finite = false;
        if (clips)
            plan.max_grad_norm = 1.0;
        const double seconds = seconds_of(trainer, 10, [&] { passes->run(plan); });
        figures.emplace_back(name + (clips ? "_clipped" : ""), seconds);
        const double moved = (bytes + (clips ? 4 : 0)) * static_cast<double>(parameters) / seconds;
        std::printf("AdamW %s/%s%s: %.3f ms for %lld parameters, %.0f GB/s, %.1f %% of a copy\n",
                    std::string(name_of(precision.param)).c_str(),
                    std::string(name_of(precision.master)).c_str(), clips ? " clipped" : "",
                    seconds * 1e3, static_cast<long long>(parameters), moved / 1e9,
                    100 * moved / copy);
    }
}

/// The last line is JSON where that is wanted: seconds of steps, and bytes a second.
int run_bench(Communicator& world, std::int64_t parameters, bool as_json) {
    const double copy = copy_bandwidth(Trainer(world), static_cast<std::size_t>(parameters) * 8);
    const double pinned = pinned_bandwidth(Trainer(world), std::size_t{1} << 30);
    std::printf("copy: %.0f GB/s, to pinned memory: %.1f GB/s\n", copy / 1e9, pinned / 1e9);
    Figures figures = {{"copy", copy}, {"pinned", pinned}};
    bench(world, parameters, {}, "adamw", copy, figures);
    bench(world, parameters, {.param = bf16}, "adamw_bf16", copy, figures);
    bench(world, parameters, {.param = bf16, .master = bf16}, "adamw_bf16_masters", copy, figures);
    const std::int64_t kept =
        std::min<std::int64_t>(parameters, std::int64_t{1} << 28);  // 3 GiB of pinned memory
    figures.emplace_back("state", state_bandwidth(world, kept));
    std::printf("state to the CPU: %.1f GB/s, %.1f %% of a copy to pinned memory\n",
                figures.back().second / 1e9, 100 * figures.back().second / pinned);
    if (!as_json)
        return 0;
    for (const auto& [name, value] : figures)
        std::printf("%s\"%s\": %.9g", &name == &figures.front().first ? "{" : ", ", name.c_str(),
                    value);
    std::puts("}");
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "train";
    skip_without_gpu();
    try {
        Session session = Session::from_environment();
        CommunicatorOptions options;
        options.backend = "nccl";
        Communicator world = Communicator::world(session, options);
        if (what == "train")
            return run_train(world, argc > 2 && std::string(argv[2]) == "quick");
        if (what == "checkpoint")
            return run_checkpoint(session, world);
        if (what == "bench")
            return run_bench(world, argc > 2 ? std::stoll(argv[2]) : std::int64_t{1} << 29,
                             argc > 3 && std::string(argv[3]) == "json");
        std::fprintf(stderr, "there is no %s: train, checkpoint or bench\n", what.c_str());
        return 2;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", what.c_str(), error.what());
        return 1;
    }
}
