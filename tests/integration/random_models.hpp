#pragma once
// Models nobody would write, made of random numbers, and ways to train them: for tests that every
// way ends with the same bits.
#include "checkpoint/checkpoint_engine.hpp"
#include "fsdp_ranks.hpp"

#include <autolaunch/fsdp/adamw.hpp>
#include <autolaunch/fsdp/lion.hpp>
#include <autolaunch/fsdp/sgd.hpp>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <random>
#include <sstream>

namespace autolaunch::fsdp::testing {

inline constexpr int kSamples = 12;  // of a step, on 1, 2, 3, 4 or 6 ranks
inline constexpr int kSteps = 4, kSavedAfter = 2;

class Dice {
public:
    explicit Dice(std::uint64_t seed) : engine_(seed) {}
    int below(int end) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(end)); }
    bool chance(int percent) { return below(100) < percent; }
    template <class T>
    T one_of(std::initializer_list<T> all) {
        return all.begin()[below(static_cast<int>(all.size()))];
    }

private:
    std::mt19937_64 engine_;
};

struct RandomUnit {
    std::vector<ParameterSpec> parameters;
    UnitOptions options;
    bool used_in_training = true;
    bool tied = false;  // open while the others are; reduced last
};

// What is trained: nothing of how. The first unit is always trained.
struct RandomModel {
    explicit RandomModel(Dice dice) {
        units.resize(static_cast<std::size_t>(1 + dice.below(6)));
        for (auto& unit : units) {
            for (int i = dice.below(4); i >= 0; --i) {
                std::vector<std::int64_t> shape;
                for (int left = dice.below(4), most = 3000; left > 0; --left) {
                    const int extent =
                        std::min(dice.one_of({1, 2, 3, 7, 16, 33, 127, 128, 129, 500}), most);
                    shape.push_back(extent);
                    most = std::max(1, most / extent);
                }
                unit.parameters.push_back({"p" + std::to_string(i), shape, dice.chance(80)});
            }
            unit.options.reshard_after_forward = dice.chance(70);
            unit.used_in_training = &unit == &units.front() || dice.chance(85);
        }
        units.front().parameters.front().trainable = true;
        units.front().tied = dice.chance(40);
        param = dice.one_of({f32, f32, bf16, f16});
        master = param == bf16 && dice.chance(50) ? bf16 : f32;
        optimizer = dice.below(3);
        if (dice.chance(60))
            max_grad_norm = 0.5;
        micro_batches = 1 + dice.below(2);
    }
    std::size_t element_count() const {
        std::int64_t count = 0;
        for (const auto& unit : units)
            for (const auto& parameter : unit.parameters)
                count += parameter.element_count();
        return static_cast<std::size_t>(count);
    }

    std::vector<RandomUnit> units;
    DataType param, master;
    int optimizer;
    std::optional<double> max_grad_norm;
    int micro_batches;
};

// How it is trained: no bit of the result may depend on it.
struct Way {
    int ranks = 1;
    ShardedModelOptions options = {};
    bool reduce_each_micro_batch = true;
    bool evaluate_between = false;
    bool measure_norm = true;
    bool save_async = false;

    static Way random(Dice& dice) {
        Way way;
        way.ranks = dice.one_of({1, 2, 2, 3, 4, 6});
        auto& options = way.options;
        options.strategy = static_cast<ShardingStrategy>(dice.below(5));
        do
            options.shard_group = 1 + dice.below(way.ranks);
        while (way.ranks % options.shard_group != 0);
        options.merge_below = dice.one_of<std::int64_t>({0, 2'000, 20'000, 8 << 20});
        options.merge_cap = dice.one_of<std::int64_t>({1'000, 30'000, 256 << 20});
        options.gather_slots = 1 + dice.below(3);
        options.reduce_slots = 1 + dice.below(3);
        options.keep_largest = dice.chance(50);
        options.overlap = dice.chance(70);
        options.offload_optimizer = dice.chance(20);
        options.find_nonfinite = dice.chance(50);
        way.reduce_each_micro_batch = dice.chance(50);
        way.evaluate_between = dice.chance(50);
        way.measure_norm = dice.chance(50);
        way.save_async = dice.chance(50);
        return way;
    }
    std::string text() const {
        std::ostringstream out;
        out << ranks << " ranks, " << name_of(options.strategy) << ", group " << options.shard_group
            << ", merge " << options.merge_below << "/" << options.merge_cap << ", slots "
            << options.gather_slots << "/" << options.reduce_slots << ", keeps largest "
            << options.keep_largest << ", overlap " << *options.overlap << ", each "
            << reduce_each_micro_batch << ", offload " << options.offload_optimizer
            << ", evaluates " << evaluate_between << ", norm " << measure_norm << ", async "
            << save_async;
        return out.str();
    }
};

template <class Each>
void visit_floats(const TensorView& tensor, Each each) {
    const auto visit = [&](auto values) {
        for (std::size_t i = 0; i < values.size(); ++i)
            each(i, values[i]);
    };
    if (tensor.type == f32)
        visit(tensor.as<float>());
    if (tensor.type == bf16)
        visit(tensor.as<bfloat16>());
    if (tensor.type == f16)
        visit(tensor.as<float16>());
}

class Training {
public:
    Training(Communicator& world, const RandomModel& plan, const Way& way, Computation where)
        : plan_(plan), way_(way), where_(std::move(where)), model_(world, options()) {
        for (const auto& unit : plan.units)
            model_.add_unit("u" + std::to_string(model_.units().size()), unit.parameters,
                            unit.options);
        model_.finalize();
        model_.initialize([](const std::string& name, std::span<const std::int64_t>,
                             std::int64_t at, std::span<float> values) {
            for (float& value : values)
                value = std::sin(0.37f * static_cast<float>(at++ + 31 * name.back() + 7 * name[1]));
        });
        if (plan.optimizer == 0)
            optimizer_ = std::make_unique<AdamW>(model_, AdamWOptions{.lr = 0.01});
        if (plan.optimizer == 1)
            optimizer_ = std::make_unique<Lion>(model_, LionOptions{.lr = 0.01});
        if (plan.optimizer == 2)
            optimizer_ = std::make_unique<SGD>(model_, SGDOptions{.lr = 0.01, .momentum = 0.9});
    }

    void step(std::int64_t number, const std::function<void()>& before_update) {
        for (int micro = 0; micro < plan_.micro_batches; ++micro) {
            forward();
            if (way_.evaluate_between && micro == 0)
                evaluate([](const TensorView&) {});
            const bool reduce = way_.reduce_each_micro_batch || micro + 1 == plan_.micro_batches;
            backward(number * plan_.micro_batches + micro, reduce);
        }
        before_update();
        StepOptions how{.lr = {}, .max_grad_norm = plan_.max_grad_norm};
        how.micro_batches = kSamples * plan_.micro_batches / way_.ranks;
        how.measure_norm = way_.measure_norm;
        if (!how.measure_norm)
            how.on_nonfinite = NonFinite::apply;
        optimizer_->step(how, where_.stream);
    }
    std::vector<float> parameters() {
        std::vector<float> all;
        evaluate([&](const TensorView& tensor) {
            visit_floats(tensor, [&](std::size_t, auto& value) {
                all.push_back(static_cast<float>(value));
            });
        });
        where_.synchronize();
        return all;
    }
    State state() { return joined(model_.state(), optimizer_->state()); }
    State state_to_save() { return joined(model_.state_to_save(), optimizer_->state_to_save()); }
    void loaded(std::int64_t step) {
        model_.refresh_parameters();
        optimizer_->set_step_count(step);
    }

private:
    ShardedModelOptions options() const {
        ShardedModelOptions all = way_.options;
        all.precision = {
            .param = plan_.param, .reduce = f32, .accumulate = f32, .master = plan_.master};
        return all;
    }
    Unit& unit(std::size_t index) { return *model_.units()[index]; }
    void forward() {
        for (std::size_t u = 0; u < plan_.units.size(); ++u)
            if (plan_.units[u].used_in_training)
                (void)unit(u).unshard(where_.stream);
    }
    void backward(std::int64_t batch, bool reduce) {
        std::optional<UnshardedParameters> tied;
        if (plan_.units.front().tied)
            tied = unit(0).unshard(where_.stream);
        for (std::size_t u = plan_.units.size(); u-- > 0;) {
            if (!plan_.units[u].used_in_training)
                continue;
            {
                const auto parameters = unit(u).unshard(where_.stream);
                add_gradients(unit(u), parameters, batch);
                if (tied)
                    add_gradients(unit(0), *tied, batch + 1000);
            }
            if (u == 0)
                tied.reset();
            if (reduce)
                unit(u).reduce_grads(where_.stream);
        }
    }
    // Small whole numbers times 1/64, so that sums over samples are exact in any order.
    void add_gradients(Unit& to, const UnshardedParameters& parameters, std::int64_t batch) {
        for (const ParameterSpec& parameter : to.parameters()) {
            if (!parameter.trainable)
                continue;
            const auto into = to.grad(parameter.name).as<float>();
            const TensorView values = parameters[parameter.name];
            const int rank = model_.world().rank(), ranks = way_.ranks;
            where_.run([=] {
                for (int sample = rank; sample < kSamples; sample += ranks) {
                    const auto salt = static_cast<std::size_t>((batch * kSamples + sample) * 7919);
                    visit_floats(values, [&](std::size_t i, auto& value) {
                        const float noise = static_cast<float>((salt + i * 104'729) % 127) - 63;
                        into[i] += (noise + std::floor(static_cast<float>(value) * 8)) / 64;
                    });
                }
            });
        }
    }
    void evaluate(const std::function<void(const TensorView&)>& see) {
        const auto scope = model_.evaluation();
        for (std::size_t u = 0; u < plan_.units.size(); ++u) {
            const auto parameters = unit(u).unshard(where_.stream);
            for (const ParameterSpec& parameter : unit(u).parameters())
                where_.run([see, tensor = parameters[parameter.name]] { see(tensor); });
        }
    }

    const RandomModel& plan_;
    const Way& way_;
    const Computation where_;
    ShardedModel model_;
    std::unique_ptr<Optimizer> optimizer_;
};

/// One rank: from the start, or from the checkpoint in the directory, to the end; rank 0 writes the
/// parameters there.
inline void train_on_rank(Communicator& world, const RandomModel& plan, const Way& way,
                          const std::filesystem::path& directory, bool resume, Computation where,
                          float* result) {
    Training training(world, plan, way, std::move(where));
    CheckpointEngine engine(make_posix_storage(), world, {.directory = directory}, {});
    std::int64_t step = 0;
    if (resume) {
        const auto found = engine.latest(INT64_MAX);
        expect(found && found->step == kSavedAfter, "there is a checkpoint");
        engine.load(*found, training.state());
        training.loaded(step = found->step);
    }
    while (step < kSteps) {
        training.step(step++, [&] { engine.wait_copied(); });
        if (resume || step != kSavedAfter)
            continue;
        if (way.save_async)
            engine.save_async(step, training.state_to_save(), {});
        else
            engine.save(step, training.state_to_save(), {});
    }
    engine.finish();
    const auto all = training.parameters();
    expect(all.size() == plan.element_count(), "every parameter is there");
    if (world.rank() == 0)
        std::copy(all.begin(), all.end(), result);
}

inline std::vector<float> train_on_cpus(const RandomModel& plan, const Way& way,
                                        const std::filesystem::path& directory, bool resume) {
    Shared<float> result(plan.element_count());
    on_ranks(way.ranks, [&](Communicator& world) {
        train_on_rank(world, plan, way, directory, resume, {}, result.data());
    });
    return result.copy();
}

/// Calls `check(number, model, expected)` for some models, with the parameters that one rank ends
/// with. AUTOLAUNCH_RANDOM_MODELS=FIRST:COUNT chooses others.
inline void for_random_models(std::uint64_t count,
                              const std::function<void(std::uint64_t, const RandomModel&,
                                                       const std::vector<float>&)>& check) {
    std::uint64_t first = 1;
    if (const char* chosen = std::getenv("AUTOLAUNCH_RANDOM_MODELS")) {
        char colon = 0;
        REQUIRE((std::istringstream(chosen) >> first >> colon >> count && colon == ':'));
    }
    const Way one{.options = unmerged(ShardingStrategy::no_shard)};
    for (std::uint64_t number = first; number < first + count; ++number) {
        const RandomModel plan{Dice(number * 1000)};
        const TemporaryDirectory unused;
        check(number, plan, train_on_cpus(plan, one, unused.path(), false));
    }
}

}  // namespace autolaunch::fsdp::testing
