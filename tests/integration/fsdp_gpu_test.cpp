// Models on (fake) GPUs: the engine on streams, and the optimizers' kernels, against the same
// training on the CPU.
#include "comm/reduce.hpp"
#include "fsdp/model_engine.hpp"
#include "fsdp_gpu_ranks.hpp"

#include <autolaunch/fsdp/adamw.hpp>
#include <autolaunch/fsdp/lion.hpp>
#include <autolaunch/fsdp/memory_plan.hpp>
#include <autolaunch/fsdp/sgd.hpp>

#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <thread>

namespace fsdp_gpu_test {

using namespace autolaunch;
using namespace autolaunch::fsdp;
using namespace autolaunch::fsdp::testing;

namespace {

constexpr std::size_t kSteps = 6;

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(ShardedModel&)>;

std::unique_ptr<Optimizer> adamw(ShardedModel& model) {
    return std::make_unique<AdamW>(model, AdamWOptions{.lr = 1e-2, .weight_decay = 0.1});
}

struct Recipe {
    ShardedModelOptions options = unmerged();
    MakeOptimizer optimizer = adamw;
    std::optional<double> max_grad_norm = std::nullopt;
    bool measure_norm = true;
    bool reduce_each = true;  // each of the two micro-batches, or both at once
    int jitter_us = 0;
};

struct Training {
    std::vector<float> parameters;
    std::vector<double> norms;
};

template <class Param, class Grad>
void train_on_rank(Communicator& world, const Recipe& recipe, const Computation& where,
                   float* parameters, double* norms) {
    TinyModel tiny(world, recipe.options, where);
    const auto optimizer = recipe.optimizer(tiny.model);
    for (std::size_t step = 0; step < kSteps; ++step) {
        tiny.backward<Param, Grad>(2 * step, 12, recipe.reduce_each);
        tiny.backward<Param, Grad>(2 * step + 1, 12);
        StepOptions how{
            .lr = {}, .max_grad_norm = recipe.max_grad_norm, .micro_batches = 24 / world.size()};
        how.measure_norm = recipe.measure_norm;
        if (!how.measure_norm)
            how.on_nonfinite = NonFinite::apply;
        const double norm = optimizer->step(how, where.stream).grad_norm;
        if (world.rank() == 0)
            norms[step] = norm;
    }
    std::vector<float> whole(TinyModel::kParameters);
    tiny.copy_parameters<Param>(whole.data());
    if (world.rank() == 0)
        std::copy(whole.begin(), whole.end(), parameters);
}

void train_on_rank(Communicator& world, const Recipe& recipe, const Computation& where,
                   float* parameters, double* norms) {
    const Precision& precision = recipe.options.precision;
    if (precision.param == bf16 && precision.reduce == bf16)
        train_on_rank<bfloat16, bfloat16>(world, recipe, where, parameters, norms);
    else if (precision.param == bf16)
        train_on_rank<bfloat16, float>(world, recipe, where, parameters, norms);
    else if (precision.param == f16)
        train_on_rank<float16, float>(world, recipe, where, parameters, norms);
    else
        train_on_rank<float, float>(world, recipe, where, parameters, norms);
}

Training train_on_gpus(int ranks, const Recipe& recipe, const std::string& library = FAKE_GPU) {
    Shared<float> parameters(TinyModel::kParameters);
    Shared<double> norms(kSteps);
    on_gpus(
        ranks,
        [&](Communicator& world, Trainee& trainee) {
            trainee.control().jitter_us = recipe.jitter_us;
            train_on_rank(world, recipe, trainee.computation(), parameters.data(), norms.data());
        },
        library);
    return {parameters.copy(), norms.copy()};
}

Training train_on_cpus(int ranks, const Recipe& recipe) {
    Shared<float> parameters(TinyModel::kParameters);
    Shared<double> norms(kSteps);
    on_ranks(ranks, [&](Communicator& world) {
        train_on_rank(world, recipe, {}, parameters.data(), norms.data());
    });
    return {parameters.copy(), norms.copy()};
}

void check_equal(const Training& got, const Training& expected) {
    CHECK(same_bits(got.parameters, expected.parameters));
    CHECK(same_bits(got.norms, expected.norms));
}

const Training& on_one_cpu() {
    static const Training one = train_on_cpus(1, {});
    return one;
}

const ShardingStrategy kPlain[] = {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op,
                                   ShardingStrategy::shard_optimizer, ShardingStrategy::no_shard};

}  // namespace

TEST_CASE("every strategy on GPUs gives the bits of one CPU, whenever streams get to their work") {
    CHECK(on_one_cpu().norms[0] > 0);
    check_equal(train_on_gpus(1, {}), on_one_cpu());
    for (const auto strategy : kPlain) {
        CAPTURE(name_of(strategy));
        Recipe recipe{.options = unmerged(strategy), .jitter_us = 300};
        check_equal(train_on_gpus(2, recipe), on_one_cpu());
        recipe.options.merge_below = 4000;  // the second and the third unit share a bucket
        check_equal(train_on_gpus(3, recipe, FAKE_GPU_218), on_one_cpu());
        recipe.options.overlap = false;
        check_equal(train_on_gpus(2, recipe), on_one_cpu());
    }
}

TEST_CASE("a GPU alone waits for its parameters, too, on whatever stream they were written") {
    Shared<float> expected(TinyModel::kParameters), got(TinyModel::kParameters);
    ShardedModelOptions options = unmerged();
    options.precision = {.param = bf16};
    on_ranks(1, [&](Communicator& world) {
        TinyModel(world, options).copy_parameters<bfloat16>(expected.data());
    });
    on_gpus(1, [&](Communicator& world, Trainee& trainee) {
        trainee.control().jitter_us = 5000;
        TinyModel(world, options, trainee.computation()).copy_parameters<bfloat16>(got.data());
    });
    CHECK(same_bits(got.copy(), expected.copy()));
}

TEST_CASE("copies of a model on groups of GPUs give the same bits") {
    Recipe recipe{.options = unmerged(ShardingStrategy::hybrid_shard), .jitter_us = 200};
    for (const int group : {1, 2, 4}) {
        CAPTURE(group);
        recipe.options.shard_group = group;
        check_equal(train_on_gpus(4, recipe), on_one_cpu());
    }
}

TEST_CASE("one slot, and micro-batches that are reduced at once, change nothing on GPUs") {
    for (const auto strategy : kPlain) {
        CAPTURE(name_of(strategy));
        Recipe recipe{.options = unmerged(strategy), .reduce_each = false, .jitter_us = 200};
        check_equal(train_on_gpus(2, recipe), on_one_cpu());
        recipe.reduce_each = true;
        recipe.options.gather_slots = recipe.options.reduce_slots = 1;
        check_equal(train_on_gpus(2, recipe), on_one_cpu());
    }
}

TEST_CASE("every optimizer gives the CPU's bits on GPUs, clipped too, in every precision") {
    const std::pair<const char*, MakeOptimizer> optimizers[] = {
        {"AdamW", adamw},
        {"SGD",
         [](ShardedModel& model) { return std::make_unique<SGD>(model, SGDOptions{.lr = 1e-2}); }},
        {"SGD with dampening",
         [](ShardedModel& model) {
             return std::make_unique<SGD>(
                 model, SGDOptions{.lr = 1e-2, .momentum = 0.9, .dampening = 0.25});
         }},
        {"Lion",
         [](ShardedModel& model) {
             return std::make_unique<Lion>(
                 model, LionOptions{.lr = 1e-2,
                                    .weight_decay = 0.1,
                                    .groups = {{.pattern = "*.b", .lr_scale = 3}}});
         }},
    };
    const Precision precisions[] = {
        {},
        {.param = bf16},
        {.param = f16},
        {.param = bf16, .reduce = bf16},
        {.param = bf16, .reduce = bf16, .accumulate = bf16},
        {.param = bf16, .master = bf16},
    };
    for (const auto& [name, make] : optimizers) {
        for (std::size_t i = 0; i < std::size(precisions); ++i) {
            CAPTURE(name);
            CAPTURE(i);
            Recipe recipe{.optimizer = make, .max_grad_norm = 0.5};
            recipe.options.precision = precisions[i];
            // Two terms have one sum, in whatever order: bf16 has the same roundings on both.
            const Training expected = train_on_cpus(2, recipe);
            CHECK(expected.norms[0] > 0.5);
            check_equal(train_on_gpus(2, recipe), expected);
            recipe.measure_norm = false;
            CHECK(same_bits(train_on_gpus(2, recipe).parameters, expected.parameters));
        }
    }
}

TEST_CASE(
    "an optimizer that is offloaded to the CPU changes no bit, and takes the GPU's memory of "
    "none") {
    const Precision precisions[] = {
        {}, {.param = bf16}, {.param = bf16, .reduce = bf16}, {.param = bf16, .master = bf16}};
    for (const auto strategy : {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op,
                                ShardingStrategy::shard_optimizer, ShardingStrategy::no_shard}) {
        for (std::size_t i = 0; i < std::size(precisions); ++i) {
            CAPTURE(name_of(strategy));
            CAPTURE(i);
            Recipe recipe{.options = unmerged(strategy), .max_grad_norm = 0.5, .jitter_us = 200};
            recipe.options.precision = precisions[i];
            const Training expected = train_on_cpus(2, recipe);
            recipe.options.offload_optimizer = true;
            check_equal(train_on_gpus(2, recipe), expected);
            recipe.measure_norm = i % 2 == 0;
            recipe.options.merge_below = 4000;
            CHECK(same_bits(train_on_gpus(2, recipe).parameters, expected.parameters));
        }
    }
    on_gpus(2, [](Communicator& world, Trainee& trainee) {
        ShardedModelOptions options = unmerged();
        options.precision = {.param = bf16};
        options.offload_optimizer = true;
        TinyModel tiny(world, options, trainee.computation());
        const int before = trainee.control().allocations;
        tiny.backward<bfloat16>(0, 4);
        const int with_gradients = trainee.control().allocations;
        expect(with_gradients > before, "gradients are on the GPU");
        const auto optimizer = adamw(tiny.model);
        optimizer->step({}, trainee.stream());
        expect(trainee.control().allocations == with_gradients, "the optimizer has nothing there");
        const ModelMemory memory = tiny.model.memory();
        constexpr std::size_t kShard = 768 + 256 + 256;
        expect(memory.masters == 0 && memory.parameters == kShard * 2,
               "parameters, without masters");
        expect(memory.on_host == kShard * (4 + 4 + 2 + 8),
               "masters, gradients and rounded parameters, and AdamW's moments");
        expect(memory.optimizer == 0, "which are not on the GPU");
    });
}

TEST_CASE("the host waits for nothing in a step whose norm it does not read") {
    for (const auto& [ranks, deterministic] : {std::pair{1, false}, {2, false}, {2, true}}) {
        on_gpus(ranks, [&](Communicator& world, Trainee& trainee) {
            ShardedModelOptions options = unmerged();
            options.deterministic = deterministic;
            TinyModel tiny(world, options, trainee.computation());
            const auto optimizer = adamw(tiny.model);
            const StepOptions how{
                .max_grad_norm = 1.0, .on_nonfinite = NonFinite::apply, .measure_norm = false};
            for (std::size_t step = 0; step < 3; ++step) {
                std::atomic<bool> go{step == 0};  // the first step allocates
                trainee.run([&] { go.wait(false); });
                tiny.backward(step, 4);
                optimizer->step(how, trainee.stream());
                go = true;
                go.notify_all();
                trainee.synchronize();
            }
        });
    }
}

TEST_CASE(
    "a model that ends right behind its last step waits for what streams still do with its "
    "memory") {
    for (const auto strategy : kPlain) {
        CAPTURE(name_of(strategy));
        on_gpus(2, [&](Communicator& world, Trainee& trainee) {
            {
                TinyModel tiny(world, unmerged(strategy), trainee.computation());
                const auto optimizer = adamw(tiny.model);
                tiny.backward(0, 4);
                trainee.control().jitter_us = 20'000;
                optimizer->step({.on_nonfinite = NonFinite::apply, .measure_norm = false},
                                trainee.stream());
            }
            trainee.synchronize();
        });
    }
}

TEST_CASE("memory on GPUs is what it is on CPUs, and gathers are as many") {
    for (const auto strategy : kPlain) {
        CAPTURE(name_of(strategy));
        Shared<std::size_t> numbers(12);
        const auto measure = [&](Communicator& world, const Computation& where, std::size_t* into) {
            ShardedModelOptions options = unmerged(strategy);
            options.overlap = true;
            TinyModel tiny(world, options, where);
            const auto optimizer = adamw(tiny.model);
            for (std::size_t step = 0; step < 3; ++step) {
                tiny.backward(step, 4);
                optimizer->step({}, where.stream);
            }
            if (world.rank() != 0)
                return;
            const ModelMemory memory = tiny.model.memory();
            const std::size_t found[] = {
                memory.parameters,      memory.masters,
                memory.gradients,       memory.gathered,
                memory.whole_gradients, tiny.first.impl().engine().gatherer().gather_count()};
            std::copy(std::begin(found), std::end(found), into);
        };
        on_ranks(2, [&](Communicator& world) { measure(world, {}, numbers.data()); });
        on_gpus(2, [&](Communicator& world, Trainee& trainee) {
            measure(world, trainee.computation(), numbers.data() + 6);
        });
        for (std::size_t i = 0; i < 6; ++i)
            CHECK(numbers[i] == numbers[i + 6]);
        CHECK(numbers[0] > 0);
    }
}

TEST_CASE("a NaN is named on every GPU's rank, the step is undone, and training can go on") {
    on_gpus(2, [](Communicator& world, Trainee& trainee) {
        TinyModel tiny(world, unmerged(), trainee.computation());
        const auto optimizer = adamw(tiny.model);
        std::vector<float> before(TinyModel::kParameters), after(TinyModel::kParameters);
        const auto spoil = [&](float value) {
            const auto gradient = tiny.second.grad("w").as<float>();
            trainee.run([=] { gradient[7] = value; });
        };
        const auto step = [&] { optimizer->step({}, trainee.stream()); };
        tiny.backward(0, 4);
        step();
        tiny.copy_parameters(before.data());
        if (world.rank() == 1)
            spoil(std::numeric_limits<float>::quiet_NaN());
        tiny.backward(1, 4);
        expect_error(ErrorCode::invalid_argument, "rank 1's gradient of second.w", step);
        spoil(3e38f);  // only the sum overflows
        tiny.backward(2, 4);
        expect_error(ErrorCode::invalid_argument,
                     "the gradient of second.w (unit second) is infinite at element 7", step);
        tiny.copy_parameters(after.data());
        expect(before == after && optimizer->step_count() == 1, "nothing was updated");
        if (world.rank() == 0)
            spoil(-std::numeric_limits<float>::infinity());
        tiny.backward(3, 4);
        expect(optimizer->step({.on_nonfinite = NonFinite::skip}, trainee.stream()).skipped,
               "skipped on every rank");
        tiny.backward(4, 4);
        step();
        tiny.copy_parameters(after.data());
        expect(before != after && optimizer->step_count() == 2, "the next step works");
    });
}

TEST_CASE("training goes on from a state on GPUs as if it had not stopped") {
    const auto make = [](ShardedModel& model) {
        return std::make_unique<SGD>(model,
                                     SGDOptions{.lr = 1e-2, .momentum = 0.9, .dampening = 0.25});
    };
    for (int variant = 0; variant < 4; ++variant) {
        CAPTURE(variant);
        const Precision precision = variant % 2 == 0 ? Precision{} : Precision{.param = bf16};
        on_gpus(2, [&](Communicator& world, Trainee& trainee) {
            ShardedModelOptions options = unmerged();
            options.precision = precision;
            options.offload_optimizer = variant >= 2;
            const auto train = [&](TinyModel& tiny, Optimizer& optimizer, std::size_t from,
                                   std::size_t to) {
                for (std::size_t step = from; step < to; ++step) {
                    if (precision.param == bf16)
                        tiny.backward<bfloat16>(step, 4);
                    else
                        tiny.backward(step, 4);
                    optimizer.step({}, trainee.stream());
                }
            };
            const auto parameters = [&](TinyModel& tiny) {
                std::vector<float> values(TinyModel::kParameters);
                precision.param == bf16 ? tiny.copy_parameters<bfloat16>(values.data())
                                        : tiny.copy_parameters(values.data());
                return values;
            };
            const auto bytes_of = [](const State& state, std::vector<std::vector<std::byte>>* save,
                                     const std::vector<std::vector<std::byte>>* load) {
                std::size_t at = 0;
                for (const StateTensor& tensor : state)
                    for (const auto& piece : tensor.pieces) {
                        const auto bytes =
                            static_cast<std::size_t>(piece.count) * size_of(tensor.type);
                        if (save)
                            save->emplace_back(piece.data, piece.data + bytes);
                        if (load)
                            std::copy((*load)[at].begin(), (*load)[at].end(), piece.data);
                        ++at;
                    }
            };
            std::vector<std::vector<std::byte>> model_bytes, optimizer_bytes;
            std::vector<float> expected;
            {
                TinyModel tiny(world, options, trainee.computation());
                const auto optimizer = make(tiny.model);
                train(tiny, *optimizer, 0, 3);
                bytes_of(tiny.model.state(), &model_bytes, nullptr);
                bytes_of(optimizer->state(), &optimizer_bytes, nullptr);
                train(tiny, *optimizer, 3, 5);
                tiny.model.refresh_parameters();  // what was read before is out of date: it is not
                                                  // written back
                expected = parameters(tiny);
            }
            TinyModel tiny(world, options, trainee.computation());
            const auto optimizer = make(tiny.model);
            expect(parameters(tiny) != expected, "another model");
            bytes_of(tiny.model.state(), nullptr, &model_bytes);
            bytes_of(optimizer->state(), nullptr, &optimizer_bytes);
            tiny.model.refresh_parameters();
            optimizer->set_step_count(3);
            train(tiny, *optimizer, 3, 5);
            expect(parameters(tiny) == expected, "the same as without a stop");
        });
    }
}

namespace {

constexpr std::size_t kParts = 8;

/// A part of the global batch, with gradients whose sums have other bits in another order.
void train_part(TinyModel& tiny, std::size_t part) {
    const Stream stream = tiny.computation.stream;
    for (Unit* unit : {&tiny.first, &tiny.second, &tiny.third})
        (void)unit->unshard(stream);
    for (Unit* unit : {&tiny.third, &tiny.second, &tiny.first}) {
        const auto parameters = unit->unshard(stream);
        for (const ParameterSpec& parameter : unit->parameters()) {
            const auto values = parameters[parameter.name].as<const float>();
            const auto into = unit->grad(parameter.name).as<float>();
            tiny.computation.run([=] {
                for (std::size_t i = 0; i < values.size(); ++i)
                    into[i] += std::sin(static_cast<float>(part * 131 + i * 7) + 3 * values[i]);
            });
        }
        unit->reduce_grads(stream);
    }
}

void train_deterministically(Communicator& world, const ShardedModelOptions& options,
                             const Computation& where, float* parameters, double* norms) {
    TinyModel tiny(world, options, where);
    const auto optimizer = adamw(tiny.model);
    const auto rank = static_cast<std::size_t>(world.rank()),
               ranks = static_cast<std::size_t>(world.size());
    for (std::size_t step = 0; step < kSteps; ++step) {
        for (std::size_t part = rank; part < kParts; part += ranks)
            train_part(tiny, step * kParts + part);
        const StepOptions how{
            .lr = {}, .max_grad_norm = 0.5, .micro_batches = static_cast<int>(kParts / ranks)};
        const double norm = optimizer->step(how, where.stream).grad_norm;
        if (world.rank() == 0)
            norms[step] = norm;
    }
    std::vector<float> whole(TinyModel::kParameters);
    tiny.copy_parameters(whole.data());
    if (world.rank() == 0)
        std::copy(whole.begin(), whole.end(), parameters);
}

Training train_deterministically_on_gpus(int ranks, const ShardedModelOptions& options,
                                         const std::string& library = FAKE_GPU) {
    Shared<float> parameters(TinyModel::kParameters);
    Shared<double> norms(kSteps);
    on_gpus(
        ranks,
        [&](Communicator& world, Trainee& trainee) {
            trainee.control().jitter_us = 200;
            train_deterministically(world, options, trainee.computation(), parameters.data(),
                                    norms.data());
        },
        library);
    return {parameters.copy(), norms.copy()};
}

ShardedModelOptions deterministic(ShardingStrategy strategy, int shard_group = 0) {
    ShardedModelOptions options = unmerged(strategy);
    options.deterministic = true;
    options.shard_group = shard_group;
    return options;
}

Training deterministic_on_one_cpu() {
    Shared<float> parameters(TinyModel::kParameters);
    Shared<double> norms(kSteps);
    on_ranks(1, [&](Communicator& world) {
        train_deterministically(world, deterministic(ShardingStrategy::no_shard), {},
                                parameters.data(), norms.data());
    });
    return {parameters.copy(), norms.copy()};
}

}  // namespace

TEST_CASE(
    "deterministic sums on 1, 2, 4 and 8 GPUs have the bits of one CPU, and without the mode they "
    "have not") {
    const Training expected = deterministic_on_one_cpu();
    CHECK(expected.norms[0] > 0.5);
    for (const int ranks : {1, 2, 4, 8}) {
        CAPTURE(ranks);
        check_equal(
            train_deterministically_on_gpus(ranks, deterministic(ShardingStrategy::full_shard)),
            expected);
    }
    const Training other =
        train_deterministically_on_gpus(4, unmerged(ShardingStrategy::full_shard));
    CHECK_FALSE(same_bits(other.parameters, expected.parameters));
}

TEST_CASE(
    "so they have under every strategy, with one slot, without overlap, and with the optimizer on "
    "the CPU") {
    const Training expected = deterministic_on_one_cpu();
    for (const auto strategy : kPlain) {
        CAPTURE(name_of(strategy));
        ShardedModelOptions options = deterministic(strategy);
        check_equal(train_deterministically_on_gpus(4, options), expected);
        options.overlap = false;
        options.merge_below = 4000;
        check_equal(train_deterministically_on_gpus(2, options, FAKE_GPU_218), expected);
        options.overlap = std::nullopt;
        options.gather_slots = options.reduce_slots = 1;
        options.offload_optimizer = true;
        check_equal(train_deterministically_on_gpus(2, options), expected);
    }
    for (const int group : {1, 2, 4}) {
        CAPTURE(group);
        check_equal(train_deterministically_on_gpus(
                        4, deterministic(ShardingStrategy::hybrid_shard, group)),
                    expected);
    }
}

TEST_CASE(
    "ordered sums of any number of GPUs are the CPU's, also with room for a part of what comes "
    "only") {
    for (const int ranks : {2, 3, 4, 6}) {
        on_gpus(ranks, [&](Communicator& world, Trainee& trainee) {
            trainee.control().jitter_us = 100;
            const auto size = static_cast<std::size_t>(ranks),
                       own = static_cast<std::size_t>(world.rank());
            const auto device = ModelDevice::of(world);
            const auto sums = device->make_ordered_sums(world, (size - 1) * kBlockQuantum);
            for (const std::size_t count :
                 {std::size_t{128}, std::size_t{640}, std::size_t{1300}}) {
                const std::size_t all = count * size;
                const auto value = [](std::size_t rank, std::size_t i) {
                    return std::sin(static_cast<float>(rank * 977 + i));
                };
                std::vector<std::vector<float>> inputs(size, std::vector<float>(all));
                for (std::size_t rank = 0; rank < size; ++rank)
                    for (std::size_t i = 0; i < all; ++i)
                        inputs[rank][i] = value(rank, i);
                std::vector<const void*> pointers;
                for (const auto& input : inputs)
                    pointers.push_back(input.data());
                std::vector<float> expected(all), got(all);
                void* output = expected.data();
                reduce_elements({.inputs = pointers, .outputs = {&output, 1}}, all, f32,
                                ReduceOp::sum);
                const auto memory = device->allocate({}, all * sizeof(float));
                const auto run = [&](auto sum) {
                    device->write(memory.data(), inputs[own].data(), memory.bytes(),
                                  trainee.stream());
                    sum(static_cast<float*>(memory.data()));
                    device->read(got.data(), memory.data(), memory.bytes(), trainee.stream());
                };
                run([&](float* whole) {
                    sums->reduce_scatter(world, whole, count, trainee.stream());
                });
                const auto begin = static_cast<std::ptrdiff_t>(own * count);
                const auto length = static_cast<std::ptrdiff_t>(count);
                expect(std::equal(got.begin() + begin, got.begin() + begin + length,
                                  expected.begin() + begin),
                       "this rank's block is summed");
                run([&](float* whole) {
                    sums->all_reduce(world, whole, all - 4, trainee.stream());
                });
                expect(std::equal(got.begin(), got.end() - 4, expected.begin()),
                       "every element is summed");
                expect(std::equal(got.end() - 4, got.end(), inputs[own].end() - 4),
                       "and no other one");
            }
        });
    }
}

TEST_CASE("what deterministic sums take of a GPU is what is planned") {
    const std::vector<std::vector<ParameterSpec>> units = {
        {{"w", {40, 33}}, {"b", {40}}}, {{"w", {7, 40}}, {"scale"}}, {{"w", {9, 50}}}};
    struct Case {
        ShardingStrategy strategy;
        int ranks, group;
    };
    for (const Case& each :
         {Case{ShardingStrategy::full_shard, 4, 0}, Case{ShardingStrategy::shard_optimizer, 2, 0},
          Case{ShardingStrategy::no_shard, 4, 0}, Case{ShardingStrategy::hybrid_shard, 4, 2}}) {
        CAPTURE(name_of(each.strategy));
        MemoryPlanOptions planned;
        planned.strategy = each.strategy;
        planned.ranks = each.ranks;
        planned.shard_group = each.group;
        planned.merge_below_bytes = 0;
        planned.keep_largest = false;
        planned.deterministic = planned.on_gpus = true;
        planned.reductions = static_cast<int>(kParts) / each.ranks;
        const MemoryPlan plan = plan_memory(units, planned);
        CHECK(plan.gradient_exchange > 0);
        on_gpus(each.ranks, [&](Communicator& world, Trainee& trainee) {
            TinyModel tiny(world, deterministic(each.strategy, each.group), trainee.computation());
            for (int i = 0; i < planned.reductions; ++i)
                train_part(tiny, static_cast<std::size_t>(i));
            const ModelMemory memory = tiny.model.memory();
            const std::int64_t gradients =
                plan.gradients + plan.reduce_slots + plan.gradient_trees + plan.gradient_exchange;
            expect(
                static_cast<std::int64_t>(memory.gradients + memory.whole_gradients) == gradients,
                "gradients take " + std::to_string(gradients) + ", not " +
                    std::to_string(memory.gradients + memory.whole_gradients));
        });
    }
}

TEST_CASE("what a model on GPUs does not do is said") {
    on_gpus(2, [](Communicator& world, Trainee& trainee) {
        TinyModel tiny(world, unmerged(), trainee.computation());
        expect_error(
            ErrorCode::unsupported, "pass Stream::cuda(" + std::to_string(world.rank()),
            [&] { (void)tiny.first.unshard(Stream::cuda(world.rank() + 1, trainee.stream().handle())); });
        CpuQueue queue;
        expect_error(ErrorCode::unsupported, "the stream is not",
                     [&] { (void)tiny.first.unshard(queue.stream()); });
    });
}

namespace {

/// Two ranks whose communicators end by an abort, so that what on_gpus() wants to be left is not.
void on_gpus_that_fail(const std::function<void(Communicator&, Trainee&)>& body) {
    const FolderStore store;
    const auto statuses = conformance::run_forked_ranks(2, [&](int rank) {
        Trainee trainee(FAKE_GPU, rank);
        Communicator world(
            NcclBackend::create(store.rendezvous(), "world", rank, 2,
                                fake_options(FAKE_GPU, rank, std::chrono::seconds(30))));
        body(world, trainee);
    });
    CHECK(statuses == std::vector<int>{0, 0});
}

}  // namespace

TEST_CASE("a rank that leaves the order of units is told, and the others with it") {
    on_gpus_that_fail([](Communicator& world, Trainee& trainee) {
        TinyModel tiny(world, unmerged(), trainee.computation());
        const auto optimizer = adamw(tiny.model);
        tiny.backward(0, 4);
        optimizer->step({}, trainee.stream());
        world.barrier();  // or the abort meets rank 0 in the step before
        if (world.rank() == 1) {
            expect_error(ErrorCode::mismatch, "expected unshard of first, got unshard of third",
                         [&] { (void)tiny.third.unshard(trainee.stream()); });
            return;
        }
        try {
            tiny.backward(1, 4);
            optimizer->step({}, trainee.stream());
        } catch (const Error& error) {
            expect(
                std::string(error.what()).find("the order of units changed") != std::string::npos,
                error.what());
            return;
        }
        throw std::runtime_error("expected an error");
    });
}

TEST_CASE("a step behind a reduction that was aborted is no step, and its state is not saved") {
    for (const bool measures : {true, false}) {
        CAPTURE(measures);
        on_gpus_that_fail([&](Communicator& world, Trainee& trainee) {
            TinyModel tiny(world, unmerged(), trainee.computation());
            const auto optimizer = adamw(tiny.model);
            StepOptions how;
            how.measure_norm = measures;
            how.on_nonfinite = NonFinite::apply;
            tiny.backward(0, 4);
            optimizer->step(how, trainee.stream());
            trainee.synchronize();
            world.barrier();
            // All is on its way when the GPU goes on and the reductions' communicator is lost.
            trainee.run([] { std::this_thread::sleep_for(std::chrono::milliseconds(800)); });
            Communicator scatter = *tiny.first.impl().engine().mesh().scatter;
            std::thread loses([&] {
                std::this_thread::sleep_for(std::chrono::milliseconds(300));
                scatter.abort("a link was lost");
            });
            tiny.backward(1, 4);
            if (measures) {
                expect_error(ErrorCode::aborted, "unit third, gradients, or a unit after it: ",
                             [&] { optimizer->step(how, trainee.stream()); });
            } else {
                optimizer->step(how, trainee.stream());
                const State state = tiny.model.state_to_save();
                const State moments = optimizer->state_to_save();
                expect_error(ErrorCode::aborted, "a link was lost",
                             [&] { state[0].arrival->wait(); });
                expect_error(ErrorCode::aborted, "a link was lost",
                             [&] { moments[0].arrival->wait(); });
            }
            loses.join();
            expect_error(ErrorCode::aborted, "a link was lost",
                         [&] { tiny.model.state_to_save(); });
            expect_error(ErrorCode::aborted, "a link was lost",
                         [&] { optimizer->state_to_save(); });
            expect_error(ErrorCode::aborted, "a link was lost",
                         [&] { (void)tiny.first.unshard(trainee.stream()); });
        });
    }
}

TEST_CASE("units of one bucket may run on streams of their own") {
    Shared<float> expected(TinyModel::kParameters), got(TinyModel::kParameters);
    ShardedModelOptions options = unmerged();
    options.merge_below = 4000;  // the second and the third unit share a bucket
    for (const auto strategy : kPlain) {
        CAPTURE(name_of(strategy));
        options.strategy = strategy;
        const auto train = [&](Communicator& world, const Computation& one,
                               const Computation& other, float* to) {
            TinyModel tiny(world, options, one);
            const auto optimizer = adamw(tiny.model);
            for (std::size_t step = 0; step < kSteps; ++step) {
                for (Unit* unit : {&tiny.third, &tiny.second, &tiny.first}) {
                    tiny.computation = unit == &tiny.third ? other : one;
                    tiny.add_gradients<float, float>(*unit, step, 12);
                    unit->reduce_grads(tiny.computation.stream);
                }
                optimizer->step({.micro_batches = 12 / world.size()}, tiny.computation.stream);
            }
            tiny.copy_parameters(to);
        };
        on_ranks(1, [&](Communicator& world) { train(world, {}, {}, expected.data()); });
        on_gpus(2, [&](Communicator& world, Trainee& trainee) {
            trainee.control().jitter_us = 2000;
            const Trainee second(FAKE_GPU, world.rank());
            std::vector<float> values(TinyModel::kParameters);
            train(world, trainee.computation(), second.computation(), values.data());
            if (world.rank() == 0)
                std::copy(values.begin(), values.end(), got.data());
        });
        CHECK(same_bits(got.copy(), expected.copy()));
    }
}

}  // namespace fsdp_gpu_test
