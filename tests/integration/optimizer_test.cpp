// Every optimizer on real ranks: the same bits on any number of them, through checkpoints, and one
// word about gradients that are not finite.
#include "fsdp/model_engine.hpp"
#include "fsdp_ranks.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/adamw.hpp>
#include <autolaunch/fsdp/grad_scaler.hpp>
#include <autolaunch/fsdp/lion.hpp>
#include <autolaunch/fsdp/sgd.hpp>
#include <autolaunch/session.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace optimizer_test {

using namespace autolaunch;
using namespace autolaunch::fsdp;
using namespace autolaunch::fsdp::testing;
namespace fs = std::filesystem;

namespace {

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(ShardedModel&)>;

struct Named {
    const char* name;
    MakeOptimizer make;
};

const std::vector<ParameterGroup> kGroups = {
    {.pattern = "*.scale", .lr_scale = 0.5},
    {.pattern = "second.*", .lr_scale = 2, .weight_decay = 0.2}};

const Named kOptimizers[] = {
    {"AdamW",
     [](ShardedModel& model) {
         return std::make_unique<AdamW>(
             model, AdamWOptions{.lr = 1e-2, .weight_decay = 0.1, .groups = kGroups});
     }},
    {"SGD with Nesterov's momentum",
     [](ShardedModel& model) {
         return std::make_unique<SGD>(model, SGDOptions{.lr = 1e-2,
                                                        .momentum = 0.9,
                                                        .weight_decay = 0.1,
                                                        .nesterov = true,
                                                        .groups = kGroups});
     }},
    {"SGD with dampening",
     [](ShardedModel& model) {
         return std::make_unique<SGD>(
             model, SGDOptions{.lr = 1e-2, .momentum = 0.9, .dampening = 0.25, .threads = 2});
     }},
    {"SGD",
     [](ShardedModel& model) { return std::make_unique<SGD>(model, SGDOptions{.lr = 1e-2}); }},
    {"Lion",
     [](ShardedModel& model) {
         return std::make_unique<Lion>(
             model, LionOptions{.lr = 1e-2, .weight_decay = 0.1, .groups = kGroups});
     }},
};

// Cuts fall inside tensors, and ranks hold nothing of some.
struct Trainer {
    Trainer(Communicator world, const MakeOptimizer& make,
            ShardingStrategy strategy = ShardingStrategy::full_shard,
            const Precision& precision = {}, int shard_group = 0)
        : model(std::move(world),
                {.strategy = strategy, .precision = precision, .shard_group = shard_group}),
          first(model.add_unit("first", {{"w", {40, 33}}, {"b", {40}}})),
          second(model.add_unit("second", {{"w", {7, 40}}, {"scale", {}}})) {
        model.finalize();
        model.initialize([](const std::string& name, std::span<const std::int64_t>, std::int64_t at,
                            std::span<float> values) {
            for (float& value : values)
                value = std::sin(0.37f * static_cast<float>(at++ + std::ssize(name) * 11));
        });
        optimizer = make(model);
    }

    /// Gradients of 12 samples that are small multiples of 1/64, so their sums over ranks are exact
    /// in any order.
    void backward(float scale = 1, bool both = true) {
        const auto rank = static_cast<std::size_t>(model.world().rank());
        const auto ranks = static_cast<std::size_t>(model.world().size());
        for (Unit* unit : {&second, &first}) {
            if (unit == &second && !both)
                continue;
            for (const ParameterSpec& parameter : unit->parameters()) {
                const auto into = unit->grad(parameter.name).as<float>();
                for (std::size_t sample = rank; sample < 12; sample += ranks) {
                    for (std::size_t i = 0; i < into.size(); ++i)
                        into[i] +=
                            scale *
                            (static_cast<float>((seed() + sample * 7919 + i * 104729) % 127) - 60) /
                            64;
                }
            }
            unit->reduce_grads();
        }
    }
    std::size_t seed() const { return static_cast<std::size_t>(optimizer->step_count()) * 31; }
    StepOptions options() const {
        return {.max_grad_norm = 3.0, .micro_batches = 12 / model_size()};
    }
    int model_size() const { return const_cast<ShardedModel&>(model).world().size(); }

    double step() {
        backward();
        return optimizer->step(options()).grad_norm;
    }
    double* copy_parameters(double* to) {
        const auto scope = model.evaluation();
        for (Unit* unit : {&first, &second}) {
            const auto parameters = unit->unshard();
            for (const ParameterSpec& parameter : unit->parameters()) {
                const auto view = parameters[parameter.name];
                const auto copy = [&](const auto& values) {
                    for (const auto value : values)
                        *to++ = static_cast<float>(value);
                };
                if (view.type == f32)
                    copy(view.as<const float>());
                if (view.type == bf16)
                    copy(view.as<const bfloat16>());
            }
        }
        return to;
    }

    static constexpr std::size_t kParameters = 40 * 33 + 40 + 7 * 40 + 1;
    ShardedModel model;
    Unit& first;
    Unit& second;
    std::unique_ptr<Optimizer> optimizer;
};

/// Parameters after five steps, then the norms.
std::vector<double> train(int ranks, const MakeOptimizer& make, ShardingStrategy strategy,
                          const Precision& precision = {}) {
    constexpr std::size_t kSteps = 5;
    Shared<double> result(Trainer::kParameters + kSteps);
    on_ranks(ranks, [&](Communicator& world) {
        Trainer trainer(world, make, strategy, precision);
        std::vector<double> norms;
        for (std::size_t step = 0; step < kSteps; ++step)
            norms.push_back(trainer.step());
        std::vector<double> mine(Trainer::kParameters);
        trainer.copy_parameters(mine.data());
        mine.insert(mine.end(), norms.begin(), norms.end());
        if (world.rank() == 0)
            std::copy(mine.begin(), mine.end(), result.data());
    });
    return result.copy();
}

struct Setup {
    MakeOptimizer make;
    ShardingStrategy strategy = ShardingStrategy::full_shard;
    int group = 0;  ///< of hybrid_shard
};

void make_step(Trainer& trainer) { trainer.step(); }

/// Goes on from the directory's newest checkpoint, if it has one, until so many steps are done, and
/// saves another. Returns the parameters.
std::vector<double> resume_and_train(int ranks, const Setup& setup, const fs::path& directory,
                                     std::int64_t until, void (*step)(Trainer&) = make_step) {
    Shared<double> parameters(Trainer::kParameters);
    on_ranks(ranks, [&](Communicator& world) {
        Session session = Session::from_environment();
        Checkpointer checkpointer(session, world, {.directory = directory});
        Trainer trainer(world, setup.make, setup.strategy, {}, setup.group);
        if (const auto found = checkpointer.latest())
            checkpointer.load(*found, trainer.model, *trainer.optimizer);
        while (trainer.optimizer->step_count() < until)
            step(trainer);
        checkpointer.save(until, trainer.model, *trainer.optimizer);
        std::vector<double> mine(Trainer::kParameters);
        trainer.copy_parameters(mine.data());
        if (world.rank() == 0)
            std::copy(mine.begin(), mine.end(), parameters.data());
    });
    return parameters.copy();
}

}  // namespace

TEST_CASE("every optimizer gives the same bits on 1 to 4 ranks, norms and clipping too") {
    for (const Named& optimizer : kOptimizers) {
        CAPTURE(optimizer.name);
        const auto one = train(1, optimizer.make, ShardingStrategy::full_shard);
        CHECK(one.back() > 3.0);  // so it was clipped
        for (const int ranks : {2, 3, 4})
            CHECK(train(ranks, optimizer.make, ShardingStrategy::full_shard) == one);
        CHECK(train(3, optimizer.make, ShardingStrategy::no_shard) == one);
    }
}

TEST_CASE("rounding at random gives the same bits on any number of ranks, too") {
    const Precision rounded{.param = bf16, .master = bf16}, gathered{.param = bf16};
    for (const Named& optimizer : kOptimizers) {
        CAPTURE(optimizer.name);
        const auto one = train(1, optimizer.make, ShardingStrategy::full_shard, rounded);
        CHECK(one != train(1, optimizer.make, ShardingStrategy::full_shard, gathered));
        for (const int ranks : {2, 3})
            CHECK(train(ranks, optimizer.make, ShardingStrategy::full_shard, rounded) == one);
        CHECK(train(2, optimizer.make, ShardingStrategy::no_shard, rounded) == one);
    }
}

TEST_CASE("every optimizer goes on as if it had not stopped, on another number of ranks") {
    for (const Named& optimizer : kOptimizers) {
        CAPTURE(optimizer.name);
        const TemporaryDirectory uninterrupted, resumed;
        const Setup setup{optimizer.make};
        const auto expected = resume_and_train(1, setup, uninterrupted.path(), 6);
        CHECK(resume_and_train(3, setup, resumed.path(), 2) != expected);
        resume_and_train(2, setup, resumed.path(), 4);
        CHECK(resume_and_train(4, setup, resumed.path(), 6) == expected);
    }
}

TEST_CASE("copies of a model on groups of ranks are saved once, and load under any strategy") {
    const MakeOptimizer make = kOptimizers[2].make;
    const Setup whole{make}, pairs{make, ShardingStrategy::hybrid_shard, 2},
        copies{make, ShardingStrategy::hybrid_shard, 1};
    const TemporaryDirectory uninterrupted, resumed;
    const auto expected = resume_and_train(1, whole, uninterrupted.path(), 6);
    resume_and_train(4, pairs, resumed.path(), 2);
    std::uintmax_t bytes = 0;
    for (const auto& file : fs::recursive_directory_iterator(resumed.path()))
        if (file.is_regular_file() && file.path().extension() == ".safetensors")
            bytes += file.file_size() - 4096;  // without its header
    CHECK(bytes ==
          Trainer::kParameters * 8 + 2);  // masters, momentum and two units' marks, of one copy
    resume_and_train(4, copies, resumed.path(), 3);
    resume_and_train(2, whole, resumed.path(), 4);
    CHECK(resume_and_train(4, pairs, resumed.path(), 6) == expected);
}

TEST_CASE("a checkpoint knows which momentum is still to begin") {
    // With dampening the first gradient counts whole, later ones do not.
    const auto second_unit_joins_late = [](Trainer& trainer) {
        trainer.backward(1, trainer.optimizer->step_count() >= 2);
        trainer.optimizer->step(trainer.options());
        if (trainer.optimizer->step_count() == 2)
            trainer.first.impl().engine().forget_order();
    };
    const Setup setup{kOptimizers[2].make};
    const TemporaryDirectory uninterrupted, resumed;
    const auto expected =
        resume_and_train(1, setup, uninterrupted.path(), 4, second_unit_joins_late);
    resume_and_train(2, setup, resumed.path(), 2, second_unit_joins_late);
    CHECK(resume_and_train(3, setup, resumed.path(), 4, second_unit_joins_late) == expected);
}

TEST_CASE("state has torch's names") {
    on_ranks(1, [](Communicator& world) {
        const char* const suffixes[] = {".exp_avg_sq", ".momentum_buffer", ".momentum_buffer", "",
                                        ".exp_avg"};
        for (std::size_t i = 0; i < std::size(kOptimizers); ++i) {
            CAPTURE(kOptimizers[i].name);
            Trainer trainer(world, kOptimizers[i].make);
            const State state = trainer.optimizer->state();
            const bool differs_first =
                i == 1 || i == 2;  // then each unit says whether it was written
            CHECK(state.size() == (i == 0 ? 8u : i == 3 ? 0u : differs_first ? 6u : 4u));
            if (differs_first)
                CHECK(state.back().name == "second.state_written");
            if (!state.empty())
                CHECK(state[state.size() - (differs_first ? 2 : 1)].name ==
                      "second.scale" + std::string(suffixes[i]));
        }
    });
}

TEST_CASE("a NaN is named on every rank, and training can go on") {
    on_ranks(3, [](Communicator& world) {
        Trainer trainer(world, kOptimizers[0].make);
        trainer.step();
        std::vector<double> before(Trainer::kParameters), after(Trainer::kParameters);
        trainer.copy_parameters(before.data());
        if (world.rank() == 1)
            trainer.second.grad("w").as<float>()[279] = std::numeric_limits<float>::quiet_NaN();
        trainer.backward();
        const auto step = [&] { trainer.optimizer->step(trainer.options()); };
        expect_error(ErrorCode::invalid_argument, "rank 1's gradient of second.w", step);
        // No rank's own gradient overflows, but their sum does: what is known is whose shard it
        // lies in.
        trainer.second.grad("w").as<float>()[279] = 3e38f;
        trainer.backward();
        expect_error(ErrorCode::invalid_argument,
                     "is infinite at element 279, in the shard of rank ", step);
        trainer.copy_parameters(after.data());
        expect(before == after && trainer.optimizer->step_count() == 1, "nothing was updated");
        trainer.step();
        expect(trainer.optimizer->step_count() == 2, "the next step works");

        if (world.rank() == 2)
            trainer.first.grad("b").as<float>()[0] = -std::numeric_limits<float>::infinity();
        trainer.backward();
        StepOptions options = trainer.options();
        options.on_nonfinite = NonFinite::skip;
        expect(trainer.optimizer->step(options).skipped, "the step is skipped on every rank");
        expect(trainer.optimizer->step_count() == 2, "and not counted");
        trainer.backward();
        options = {.on_nonfinite = NonFinite::apply, .measure_norm = false};
        expect(trainer.optimizer->step(options).grad_norm == 0, "no norm was asked for");
        trainer.backward();
        options.max_grad_norm = 1.0;
        expect(trainer.optimizer->step(options).grad_norm == 0,
               "nor is one returned that is taken to clip");
        trainer.backward();
        options.on_nonfinite = NonFinite::skip;
        expect_error(ErrorCode::invalid_argument, "the norm is needed",
                     [&] { trainer.optimizer->step(options); });
    });
}

TEST_CASE("a loss scale leaves no trace, and all ranks skip the step that overflows") {
    const auto train_scaled = [](double initial_scale, double* parameters) {
        on_ranks(2, [&](Communicator& world) {
            Trainer trainer(world, kOptimizers[0].make);
            GradScaler scaler({.initial_scale = initial_scale, .growth_interval = 2});
            int skipped = 0;
            while (trainer.optimizer->step_count() < 5) {
                const auto scale = static_cast<float>(scaler.scale());
                trainer.backward(scale > 60000 ? std::numeric_limits<float>::infinity()
                                               : scale);  // as f16 would
                skipped += scaler.step(*trainer.optimizer, trainer.options()).skipped;
            }
            expect((skipped > 0) == (initial_scale > 60000),
                   "large scales overflow, small ones do not");
            expect(scaler.state().skipped_steps == skipped, "skipped steps are counted");
            std::vector<double> mine(Trainer::kParameters);
            trainer.copy_parameters(mine.data());
            if (world.rank() == 0)
                std::copy(mine.begin(), mine.end(), parameters);
        });
    };
    Shared<double> plain(Trainer::kParameters), scaled(Trainer::kParameters),
        overflowing(Trainer::kParameters);
    train_scaled(1, plain.data());
    train_scaled(1024, scaled.data());
    train_scaled(0x1p18, overflowing.data());
    CHECK(plain.copy() == scaled.copy());
    CHECK(plain.copy() == overflowing.copy());
}

TEST_CASE("a group's pattern that fits nothing is refused on every rank") {
    on_ranks(2, [](Communicator& world) {
        Trainer trainer(world, kOptimizers[0].make);
        expect_error(ErrorCode::invalid_argument,
                     "AdamW: parameter group \"third.*\" has no parameters",
                     [&] { AdamW(trainer.model, {.groups = {{.pattern = "third.*"}}}); });
        expect_error(ErrorCode::invalid_argument, "Lion: lr is negative",
                     [&] { Lion(trainer.model, {.lr = -1}); });
        expect_error(ErrorCode::invalid_argument, "loss_scale",
                     [&] { trainer.optimizer->step({.loss_scale = 0}); });
    });
}

}  // namespace optimizer_test
