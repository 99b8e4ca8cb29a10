// When buckets are gathered and reduced, in which memory, and what happens when ranks or calls go
// wrong.
#include "fsdp/model_engine.hpp"
#include "fsdp_ranks.hpp"

#include <autolaunch/fsdp/adamw.hpp>

#include <thread>

namespace fsdp_schedule_test {

using namespace autolaunch;
using namespace autolaunch::fsdp;
using namespace autolaunch::fsdp::testing;

namespace {

ModelEngine& engine_of(TinyModel& tiny) { return tiny.first.impl().engine(); }

}  // namespace

TEST_CASE("gathered memory is the parameters, starts on a page, and is two slots for ever") {
    on_ranks(2, [](Communicator& world) {
        TinyModel tiny(world, unmerged());
        AdamW optimizer(tiny.model);
        for (std::size_t step = 0; step < 3; ++step) {
            tiny.backward(step, 4);
            optimizer.step();
        }
        const std::size_t arena =
            1536 * sizeof(float);  // of the first unit: 1360 elements and padding
        expect(tiny.model.memory().gathered == 2 * arena, "two gather slots of the largest unit");
        expect(tiny.model.memory().whole_gradients == 2 * arena, "two reduce slots");
        const std::size_t shards = (768 + 256 + 256) * sizeof(float);
        expect(tiny.model.memory().parameters == shards, "this rank's half of the parameters");
        expect(tiny.model.memory().gradients == shards, "and of the gradients");
        const auto parameters = tiny.first.unshard();
        auto* start = parameters["w"].as<float>().data();
        expect(reinterpret_cast<std::uintptr_t>(start) % 4096 == 0, "the arena starts on a page");
        expect(parameters["b"].as<float>().data() == start + 1408,
               "the bias lies in the same arena");
        {
            const auto again = tiny.first.unshard();
            expect(again["w"].as<float>().data() == start, "a second scope sees the same memory");
        }
        expect(parameters["w"].shape.size() == 2 && parameters["w"].shape[1] == 33,
               "the shape is the parameter's");
        expect_error(ErrorCode::mismatch, "f32, not f64", [&] { parameters["w"].as<double>(); });
        expect_error(ErrorCode::invalid_argument, "the parameters are w, b",
                     [&] { parameters["v"]; });
    });
}

TEST_CASE("no bucket is gathered that is still in its slot, whatever is gathered ahead") {
    for (const bool overlap : {false, true}) {
        on_ranks(2, [&](Communicator& world) {
            ShardedModelOptions options = unmerged();
            options.overlap = overlap;
            TinyModel tiny(world, options);
            AdamW optimizer(tiny.model);
            const auto gathers = [&] { return engine_of(tiny).gatherer().gather_count(); };
            for (std::size_t step = 0; step < 3; ++step) {
                const std::size_t before = gathers();
                tiny.backward(step, 4);
                // Three forward, the first two of them ahead of the step; backward only the first,
                // the last two were kept.
                expect(gathers() - before == (overlap && step > 0 ? 2 : 4),
                       "as many gathers as slots make it");
                optimizer.step();
            }
            (void)tiny.first.unshard();
            expect(gathers() == (overlap ? 14 : 13),
                   "after the step all are gathered anew, the next one ahead");
        });
    }
}

TEST_CASE("parameters that stay whole are gathered once a step, by strategy or by unit") {
    for (const bool by_unit : {false, true}) {
        on_ranks(2, [&](Communicator& world) {
            ShardedModelOptions options =
                unmerged(by_unit ? ShardingStrategy::full_shard : ShardingStrategy::shard_grad_op);
            options.overlap = true;
            ShardedModel model(world, options);
            const UnitOptions kept{.reshard_after_forward = !by_unit};
            for (const char* name : {"a", "b", "c", "d"})
                model.add_unit(name, {{"w", {100}}}, kept);
            model.finalize();
            AdamW optimizer(model);
            ModelEngine& engine = model.units()[0]->impl().engine();
            for (std::size_t step = 1; step < 4; ++step) {
                for (const auto& unit : model.units())
                    (void)unit->unshard();
                for (std::size_t i = 4; i-- > 0;) {
                    (void)model.units()[i]->unshard();
                    model.units()[i]->grad("w").as<float>()[0] = 1;
                    model.units()[i]->reduce_grads();
                }
                expect(engine.gatherer().gather_count() == 4 * step, "each once");
                optimizer.step();
            }
            expect(model.memory().gathered == 0, "without slots");
            expect(model.memory().parameters == std::size_t{4} * 256 * sizeof(float),
                   "all parameters, whole");
        });
    }
}

TEST_CASE("whole gradients: none for evaluation, two slots, more where reductions are left out") {
    on_ranks(2, [](Communicator& world) {
        TinyModel tiny(world, unmerged());
        AdamW optimizer(tiny.model);
        std::vector<float> parameters(TinyModel::kParameters);
        tiny.copy_parameters(parameters.data());
        expect(tiny.model.memory().gradients == 0 && tiny.model.memory().whole_gradients == 0,
               "no gradient memory");
        tiny.backward(0, 4, false);
        tiny.backward(1, 4);
        optimizer.step();
        const std::size_t whole = 3 * 1536 * sizeof(float);  // the last of backward found no slot
        expect(tiny.model.memory().whole_gradients == whole, "a third whole gradient");
        tiny.backward(2, 4, false);
        tiny.backward(3, 4);
        optimizer.step();
        expect(tiny.model.memory().whole_gradients == whole, "which serves again");
    });
}

TEST_CASE("one rank reduces in place: backward adds to the gradient itself") {
    on_ranks(1, [](Communicator& world) {
        TinyModel tiny(world, unmerged());
        AdamW optimizer(tiny.model);
        tiny.backward(0, 4);
        optimizer.step();
        expect(tiny.model.memory().whole_gradients == 0 && tiny.model.memory().gathered == 0,
               "no slots");
    });
}

TEST_CASE(
    "a deviation from the first step's order throws on the rank that deviates, and wakes the "
    "others") {
    for (const bool overlap : {false, true}) {
        on_ranks(2, [&](Communicator& world) {
            ShardedModelOptions options = unmerged();
            options.overlap = overlap;
            TinyModel tiny(world, options);
            AdamW optimizer(tiny.model);
            tiny.backward(0, 4);
            optimizer.step();
            world.barrier();  // or the abort meets rank 1 in the step before
            if (world.rank() == 0) {
                expect_error(ErrorCode::mismatch,
                             "expected unshard of first, got unshard of second",
                             [&] { (void)tiny.second.unshard(); });
            } else {
                expect_error(ErrorCode::aborted, "the order of units changed",
                             [&] { tiny.backward(1, 4); });
            }
        });
    }
}

TEST_CASE("a step that ends early is a deviation, evaluation is none") {
    on_ranks(1, [](Communicator& world) {
        TinyModel tiny(world, unmerged());
        AdamW optimizer(tiny.model);
        tiny.backward(0, 4);
        optimizer.step();
        {
            const auto scope = tiny.model.evaluation();
            (void)tiny.second.unshard();
            (void)tiny.second.unshard();
            expect_error(ErrorCode::invalid_argument, "evaluation()",
                         [&] { tiny.first.grad("w"); });
            expect_error(ErrorCode::invalid_argument, "evaluation()",
                         [&] { tiny.first.reduce_grads(); });
        }
        tiny.backward(1, 4);
        optimizer.step();
        (void)tiny.first.unshard();
        expect_error(ErrorCode::mismatch, "expected unshard of second, got the optimizer step",
                     [&] { optimizer.step(); });
    });
}

TEST_CASE("ranks that ran the units in different orders are told after the first step") {
    // Under no_shard unshard() is no collective, so only the comparison can notice.
    on_ranks(2, [](Communicator& world) {
        TinyModel tiny(world, unmerged(ShardingStrategy::no_shard));
        AdamW optimizer(tiny.model);
        if (world.rank() == 1)
            (void)tiny.second.unshard();
        tiny.backward(0, 4);
        expect_error(ErrorCode::mismatch, "different orders", [&] { optimizer.step(); });
    });
}

TEST_CASE("ranks with different models or options are told at finalize") {
    on_ranks(2, [](Communicator& world) {
        ShardedModel model(world);
        model.add_unit("u", {{"w", {world.rank() == 0 ? 4 : 5}}});
        expect_error(ErrorCode::mismatch, "same model", [&] { model.finalize(); });
        ShardedModelOptions options;
        options.gather_slots = 2 + world.rank();
        ShardedModel other(world, options);
        other.add_unit("u", {{"w", {4}}});
        expect_error(ErrorCode::mismatch, "same options", [&] { other.finalize(); });
    });
}

TEST_CASE(
    "what a reduction beside the computation fails with is thrown by the next call, and names the "
    "unit") {
    on_ranks(
        2,
        [](Communicator& world) {
            ShardedModelOptions options = unmerged();
            options.overlap = true;
            TinyModel tiny(world, options);
            AdamW optimizer(tiny.model);
            tiny.backward(0, 4);
            optimizer.step();
            if (world.rank() == 1) {  // it never reduces: the other's reduction meets its deadline
                std::this_thread::sleep_for(std::chrono::seconds(4));
                return;
            }
            tiny.second.impl().engine().forget_order();  // so that this rank may go on alone
            tiny.third.reduce_grads();
            std::this_thread::sleep_for(std::chrono::seconds(3));
            expect_error(ErrorCode::timeout,
                         "unit third, gradients: ", [&] { tiny.second.grad("w"); });
            expect_error(ErrorCode::timeout,
                         "unit third, gradients: ", [&] { (void)tiny.second.unshard(); });
            expect_error(ErrorCode::timeout, "unit third, gradients: ", [&] { optimizer.step(); });
        },
        std::chrono::seconds(2));
}

TEST_CASE("a rank that leaves a step by an exception does not wait for the others") {
    on_ranks(2, [](Communicator& world) {
        ShardedModelOptions options = unmerged();
        options.overlap = true;
        const auto start = std::chrono::steady_clock::now();
        try {
            TinyModel tiny(world, options);
            tiny.backward(0, 4);
            if (world.rank() == 1)
                throw std::runtime_error("a trainer's own");
            tiny.third.reduce_grads();
            AdamW(tiny.model).step();
            expect(false, "rank 0 goes on");
        } catch (const Error& error) {
            expect(world.rank() == 0, error.what());
        } catch (const std::runtime_error& error) {
            expect(error.what() == std::string("a trainer's own"), error.what());
            world.abort("rank 1 left");
        }
        expect(std::chrono::steady_clock::now() - start < std::chrono::seconds(30),
               "nobody waited for a deadline");
    });
}

TEST_CASE("a call that failed in between fails every call after it") {
    on_ranks(
        2,
        [](Communicator& world) {
            ShardedModelOptions options = unmerged(ShardingStrategy::no_shard);
            options.overlap = false;
            TinyModel tiny(world, options);
            AdamW optimizer(tiny.model);
            tiny.backward(0, 4);
            optimizer.step();
            world.barrier();
            if (world.rank() == 1) {
                std::this_thread::sleep_for(std::chrono::seconds(4));
                return;
            }
            expect_error(ErrorCode::timeout,
                         "unit third, gradients: ", [&] { tiny.backward(1, 4); });
            expect_error(ErrorCode::timeout,
                         "unit third, gradients: ", [&] { (void)tiny.first.unshard(); });
            expect_error(ErrorCode::timeout, "unit third, gradients: ", [&] { optimizer.step(); });
        },
        std::chrono::seconds(2));
}

namespace {

/// Four steps of two micro-batches each, some of which begin a second time.
std::vector<float> train(Communicator& world, const ShardedModelOptions& options, bool gives_up) {
    TinyModel tiny(world, options);
    AdamW optimizer(tiny.model, {.lr = 1e-2});
    for (std::size_t step = 0; step < 4; ++step) {
        if (gives_up &&
            step != 2) {  // the first one, in which the order is recorded, and later ones
            tiny.backward(99, 4);
            if (step == 0)
                tiny.second.grad("w").as<float>()[0] = 1000;
            if (step == 1) {
                (void)tiny.first.unshard();
                tiny.third.grad("w").as<float>()[3] = 1000;
            }
            if (step == 3)
                tiny.backward(98, 4);
            tiny.model.discard_step();
        }
        tiny.backward(2 * step, 4);
        tiny.backward(2 * step + 1, 4);
        optimizer.step();
    }
    std::vector<float> values(TinyModel::kParameters);
    tiny.copy_parameters(values.data());
    return values;
}

}  // namespace

TEST_CASE("a step that was given up leaves no trace") {
    for (const auto strategy : {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op,
                                ShardingStrategy::shard_optimizer, ShardingStrategy::no_shard}) {
        for (const bool deterministic : {false, true}) {
            on_ranks(2, [&](Communicator& world) {
                ShardedModelOptions options = unmerged(strategy);
                options.merge_below = 4000;  // the second and the third unit share a bucket
                options.deterministic = deterministic;
                expect(same_bits(train(world, options, true), train(world, options, false)),
                       "the same parameters");
            });
        }
    }
}

TEST_CASE("ranks give up a step at the same call, and outside scopes") {
    on_ranks(2, [](Communicator& world) {
        TinyModel tiny(world, unmerged());
        {
            const auto parameters = tiny.first.unshard();
            expect_error(ErrorCode::invalid_argument, "is unsharded",
                         [&] { tiny.model.discard_step(); });
        }
        (void)tiny.first.unshard();
        if (world.rank() == 0)
            (void)tiny.first.unshard();
        expect_error(ErrorCode::mismatch, "discard a step at different calls",
                     [&] { tiny.model.discard_step(); });
    });
}

TEST_CASE("copies of a model begin alike, whatever each rank fills in") {
    for (const auto strategy : {ShardingStrategy::no_shard, ShardingStrategy::hybrid_shard}) {
        on_ranks(4, [&](Communicator& world) {
            ShardedModelOptions options = unmerged(strategy);
            options.shard_group = 2;
            ShardedModel model(world, options);
            auto& unit = model.add_unit("u", {{"w", {300}}, {"frozen", {10}, false}});
            model.finalize();
            model.initialize([&](const std::string&, std::span<const std::int64_t>, std::int64_t at,
                                 auto values) {
                for (float& value : values)
                    value = static_cast<float>(at++ + 1000 * world.rank());
            });
            const auto parameters = unit.unshard();
            const auto w = parameters["w"].as<float>();
            const bool groups = strategy == ShardingStrategy::hybrid_shard;
            const std::size_t second = 256;  // the second shard's first element
            expect(w[5] == 5 && w[second] == static_cast<float>(second) + (groups ? 1000.f : 0.f),
                   "the first copy's");
            expect(parameters["frozen"].as<float>()[3] == 3, "and what is frozen");
        });
    }
}

TEST_CASE("ranks whose optimizers differ are told in the first step") {
    on_ranks(2, [](Communicator& world) {
        TinyModel tiny(world, unmerged());
        AdamW optimizer(tiny.model, {.lr = world.rank() == 0 ? 1e-3 : 1e-4});
        tiny.backward(0, 4);
        expect_error(ErrorCode::mismatch, "the ranks do not have the same AdamW",
                     [&] { optimizer.step(); });
    });
}

TEST_CASE("what makes no sense in a step is refused, and changes nothing") {
    on_ranks(1, [](Communicator& world) {
        TinyModel tiny(world, unmerged());
        AdamW optimizer(tiny.model);
        tiny.backward(0, 4);
        const auto refused = [&](const std::string& words, const StepOptions& options) {
            expect_error(ErrorCode::invalid_argument, words, [&] { optimizer.step(options); });
        };
        const double nan = std::nan("");
        refused("max_grad_norm is negative or a NaN", {.max_grad_norm = -1});
        refused("max_grad_norm is negative or a NaN", {.max_grad_norm = nan});
        refused("lr is negative or not finite", {.lr = -1e-3});
        refused("lr is negative or not finite", {.lr = nan});
        refused("micro_batches is not positive", {.micro_batches = 0});
        expect_error(ErrorCode::invalid_argument, "the count is negative",
                     [&] { optimizer.set_step_count(-1); });
        expect_error(ErrorCode::invalid_argument, "AdamW: lr is negative",
                     [&] { AdamW(tiny.model, {.lr = nan}); });
        {
            const auto scope = tiny.model.evaluation();
            expect_error(ErrorCode::invalid_argument, "inside model.evaluation()",
                         [&] { optimizer.step(); });
        }
        expect(optimizer.step().grad_norm > 0 && optimizer.step_count() == 1,
               "the step is still to be taken");
        ShardedModel frozen(world);
        frozen.add_unit("u", {{"w", {4}, false}});
        frozen.finalize();
        expect_error(ErrorCode::invalid_argument, "every parameter of the model is frozen",
                     [&] { AdamW{frozen}; });
    });
}

TEST_CASE("an optimizer step is refused while parameters or gradients are whole") {
    on_ranks(1, [](Communicator& world) {
        TinyModel tiny(world, unmerged());
        AdamW optimizer(tiny.model);
        {
            const auto parameters = tiny.first.unshard();
            expect_error(ErrorCode::invalid_argument, "is unsharded", [&] { optimizer.step(); });
            expect_error(ErrorCode::invalid_argument, "is unsharded",
                         [&] { tiny.model.refresh_parameters(); });
        }
        tiny.first.grad("w");
        expect_error(ErrorCode::invalid_argument, "unit first has gradients not yet reduced",
                     [&] { optimizer.step(); });
    });
}

TEST_CASE("what is not supported is said, with what is") {
    on_ranks(1, [](Communicator& world) {
        const auto refused = [&](ErrorCode code, const std::string& words,
                                 const ShardedModelOptions& options) {
            expect_error(code, words, [&] { ShardedModel(world, options); });
        };
        ShardedModelOptions options;
        options.precision.param = i32;
        refused(ErrorCode::unsupported, "precision i32 is not supported", options);
        options.precision = {.param = bf16, .master = f16};
        refused(ErrorCode::invalid_argument, "masters of f16 for parameters of bf16", options);
        options.precision = {.param = f16, .master = f16};
        refused(ErrorCode::invalid_argument, "masters in f16", options);
        options.precision = {.reduce = bf16};
        options.deterministic = true;
        refused(ErrorCode::invalid_argument, "deterministic sums need f32", options);
        options = {};
        options.gather_slots = 0;
        refused(ErrorCode::invalid_argument, "a slot", options);
        ShardedModel model(world);
        auto& unit = model.add_unit("u", {{"w", {4}}});
        expect_error(ErrorCode::invalid_argument, "call finalize()",
                     [&] { (void)(void)unit.unshard(); });
        expect_error(ErrorCode::invalid_argument, "two units have the name u", [&] {
            model.add_unit("u", {{"w", {4}}});
        });
        expect_error(ErrorCode::invalid_argument, "the units are u", [&] { model.unit("uu"); });
        model.finalize();
        expect_error(ErrorCode::unsupported, "takes no streams",
                     [&] { (void)(void)unit.unshard(Stream::cuda(0, nullptr)); });
        expect_error(ErrorCode::invalid_argument, "finalized model", [&] {
            model.add_unit("v", {{"w", {4}}});
        });
    });
}

}  // namespace fsdp_schedule_test
