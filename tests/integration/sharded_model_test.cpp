// One training, whatever the strategy, the number of ranks and the buckets: real processes, equal
// bits.
#include "fsdp_ranks.hpp"

#include <autolaunch/fsdp/adamw.hpp>

#include <optional>

namespace sharded_model_test {

using namespace autolaunch;
using namespace autolaunch::fsdp;
using namespace autolaunch::fsdp::testing;

namespace {

struct Training {
    std::vector<float> parameters;
    std::vector<float> norms;
};

struct Recipe {
    std::optional<double> max_grad_norm = std::nullopt;
    bool reduce_each = true;  // each of the two micro-batches, or both at once
};

// Eight steps with two micro-batches each of 12 samples, which divide evenly over 1, 2, 3 and 4
// ranks.
Training train(int ranks, const ShardedModelOptions& options, const Recipe& recipe = {}) {
    constexpr std::size_t kSteps = 8;
    Shared<float> parameters(TinyModel::kParameters), norms(kSteps);
    on_ranks(ranks, [&](Communicator& world) {
        TinyModel tiny(world, options);
        AdamW optimizer(tiny.model, {.lr = 1e-2, .weight_decay = 0.1, .decays = {}});
        for (std::size_t step = 0; step < kSteps; ++step) {
            tiny.backward(2 * step, 12, recipe.reduce_each);
            tiny.backward(2 * step + 1, 12);
            // As if the sample count were the same on one rank: the mean over all 24 samples.
            const StepOptions how{.lr = {},
                                  .max_grad_norm = recipe.max_grad_norm,
                                  .micro_batches = 24 / world.size()};
            const double norm = optimizer.step(how).grad_norm;
            if (world.rank() == 0)
                norms[step] = static_cast<float>(norm);
        }
        expect(optimizer.step_count() == static_cast<std::int64_t>(kSteps),
               "eight steps were counted");
        std::vector<float> whole(TinyModel::kParameters);
        tiny.copy_parameters(whole.data());
        if (world.rank() == 0)
            std::copy(whole.begin(), whole.end(), parameters.data());
    });
    return {parameters.copy(), norms.copy()};
}

void check_close(const std::vector<float>& a, const std::vector<float>& b, float tolerance) {
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
        CHECK(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i])));
}

const ShardingStrategy kPlain[] = {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op,
                                   ShardingStrategy::shard_optimizer, ShardingStrategy::no_shard};

const Training& on_one_rank() {
    static const Training one = train(1, unmerged());
    return one;
}

void check_equal(const Training& many) {
    CHECK(same_bits(many.parameters, on_one_rank().parameters));
    check_close(many.norms, on_one_rank().norms, 1e-6f);
}

}  // namespace

TEST_CASE(
    "a pointer that outlived its scope reads NaN where that is looked for; else nothing differs") {
    ShardedModelOptions options = unmerged();
    options.find_dangling = true;
    check_equal(train(2, options));
    on_ranks(2, [&](Communicator& world) {
        TinyModel tiny(world, options);
        const float* dangling = nullptr;
        {
            const auto parameters = tiny.first.unshard();
            dangling = parameters["b"].data();
            expect(std::isfinite(dangling[39]), "in its scope it is a parameter");
        }
        expect(std::isnan(dangling[0]) && std::isnan(dangling[39]), "then it is none");
        const auto again = tiny.first.unshard();
        expect(again["b"].data<const float>()[39] == std::sin(0.37f * static_cast<float>(39 + 77)),
               "and it is what it was when it is unsharded again");
    });
}

TEST_CASE("a pointer to a gradient that was reduced reads NaN, and what it writes is lost") {
    ShardedModelOptions options = unmerged();
    options.find_dangling = true;
    options.keep_largest = false;  // so that all take turns
    options.overlap = false;       // reduced when reduce_grads() is back
    on_ranks(2, [&](Communicator& world) {
        TinyModel tiny(world, options);
        float* gradient = tiny.first.grad("b").data();
        expect(gradient[39] == 0, "a new gradient is zero");
        gradient[39] = 1;
        tiny.first.reduce_grads();
        expect(std::isnan(gradient[0]) && std::isnan(gradient[39]), "a reduced one is none");
        for (int turn = 0; turn < 2; ++turn) {  // one for each slot
            gradient[0] = 7;
            expect(tiny.first.grad("b").data()[0] == 0, "and the next one in its place is zero");
            tiny.first.reduce_grads();
        }
    });
}

TEST_CASE("a model moves to where it was declared, and what was made for it goes on") {
    struct Trainer {  // made before anything of it is there
        std::optional<ShardedModel> model;
        std::optional<AdamW> optimizer;
        Unit* layer = nullptr;
    };
    on_ranks(2, [](Communicator& world) {
        const std::size_t rows = 7, columns = 5;
        const auto made = [&](float value) {
            ShardedModel model(world);
            model.add_unit("layer", {{"w", {rows, columns}}});
            model.finalize();
            model.initialize([value](const std::string&, std::span<const std::int64_t>,
                                     std::int64_t, std::span<float> values) {
                std::fill(values.begin(), values.end(), value);
            });
            return model;
        };
        Trainer trainer;
        trainer.model = made(1);
        trainer.optimizer.emplace(*trainer.model, AdamWOptions{.lr = 0.5});
        trainer.layer = &trainer.model->unit("layer");
        Trainer other = std::move(trainer);
        other.layer->grad("w").data()[34] = 1;
        other.layer->reduce_grads();
        other.optimizer->step();
        const auto scope = other.model->evaluation();
        const auto moved = other.layer->unshard();
        expect(moved["w"].count == 35, "the extents are as given");

        ShardedModel plain = made(2);
        plain = made(3);
        const auto parameters = plain.unit("layer").unshard();
        expect(parameters["w"].data()[34] == 3, "the assigned model is the one that is there");
    });
}

TEST_CASE("every strategy on 2, 3 and 4 ranks gives the same bits as one rank, merged or not") {
    CHECK(on_one_rank().norms[0] > 0);
    for (const int ranks : {2, 3, 4}) {
        for (const auto strategy : kPlain) {
            CAPTURE(ranks);
            CAPTURE(name_of(strategy));
            ShardedModelOptions options = unmerged(strategy);
            if (ranks == 3)
                options.merge_below = 4000;  // the second and the third unit share a bucket
            if (ranks == 4)
                options.overlap = false;
            check_equal(train(ranks, options));
        }
    }
}

TEST_CASE("copies of a model on groups of ranks give the same bits, whatever is summed where") {
    ShardedModelOptions options = unmerged(ShardingStrategy::hybrid_shard);
    for (const int group : {1, 2, 4, 0}) {  // 0: the ranks of the node, which are all
        CAPTURE(group);
        options.shard_group = group;
        options.overlap = group != 2;
        check_equal(train(4, options));
    }
}

TEST_CASE("micro-batches that are reduced at once, and overlap with one slot, change nothing") {
    for (const auto strategy : kPlain) {
        CAPTURE(name_of(strategy));
        ShardedModelOptions options = unmerged(strategy);
        options.overlap = true;
        check_equal(train(2, options, {.reduce_each = false}));
        options.gather_slots = options.reduce_slots = 1;
        check_equal(train(2, options));
    }
}

TEST_CASE("clipping uses the norm of the whole model") {
    const Training one = train(1, unmerged(), {.max_grad_norm = 0.5});
    CHECK(one.norms[0] > 0.5f);
    CHECK_FALSE(same_bits(one.parameters, on_one_rank().parameters));
    for (const auto strategy : {ShardingStrategy::full_shard, ShardingStrategy::hybrid_shard}) {
        ShardedModelOptions options = unmerged(strategy);
        options.shard_group = 2;
        const Training four = train(4, options, {.max_grad_norm = 0.5});
        // The norm's sum is taken in another order, so the clip factor may differ in its last bit.
        check_close(four.parameters, one.parameters, 1e-5f);
        check_close(four.norms, one.norms, 1e-6f);
    }
}

TEST_CASE("a unit without a gradient keeps its parameters, in a bucket of its own or with others") {
    for (const std::int64_t merge_below : {0, 1 << 20}) {
        on_ranks(2, [&](Communicator& world) {
            ShardedModelOptions options;
            options.merge_below = merge_below;
            TinyModel tiny(world, options);
            AdamW optimizer(tiny.model, {.lr = 0.1, .decays = {}});
            std::vector<float> before(TinyModel::kParameters), after(TinyModel::kParameters);
            tiny.copy_parameters(before.data());
            for (int step = 0; step < 2; ++step) {
                tiny.second.grad("scale").as<float>()[0] = 1;
                tiny.second.reduce_grads();
                expect(optimizer.step().grad_norm == 1.0, "the averaged gradient is 1");
            }
            tiny.copy_parameters(after.data());
            const std::size_t scale = TinyModel::kFirst + TinyModel::kSecond - 1;
            expect(std::equal(before.begin(), before.begin() + TinyModel::kFirst, after.begin()),
                   "first is untouched");
            expect(std::equal(before.begin() + static_cast<std::ptrdiff_t>(scale) + 1, before.end(),
                              after.begin() + static_cast<std::ptrdiff_t>(scale) + 1),
                   "third is untouched");
            expect(std::abs(before[scale] - 0.2f - after[scale]) < 1e-5f,
                   "the scale moved by lr, twice");
        });
    }
}

TEST_CASE("frozen parameters have no gradient and no optimizer state, and do not move") {
    on_ranks(2, [](Communicator& world) {
        ShardedModel model(world, unmerged());
        Unit& unit =
            model.add_unit("u", {{"w", {300}, false}, {"adapter", {20}}, {"b", {500}, false}});
        Unit& frozen = model.add_unit("f", {{"w", {40}, false}});
        model.finalize();
        model.initialize([](const std::string&, auto, std::int64_t at, std::span<float> values) {
            for (float& value : values)
                value = static_cast<float>(at++);
        });
        AdamW optimizer(model, {.lr = 0.1, .decays = {}});
        for (int step = 0; step < 2; ++step) {
            (void)frozen.unshard();
            (void)unit.unshard();
            unit.grad("adapter").as<float>()[3] = 1;
            expect_error(ErrorCode::invalid_argument, "u.w is frozen", [&] { unit.grad("w"); });
            unit.reduce_grads();
            frozen.reduce_grads();
            optimizer.step();
        }
        const auto evaluation = model.evaluation();
        const auto now = unit.unshard();
        for (std::size_t i = 0; i < 500; ++i)
            expect(now["b"].as<float>()[i] == static_cast<float>(i),
                   "a frozen parameter is as before");
        expect(now["adapter"].as<float>()[3] < 3, "a trainable one has moved");
        expect(model.memory().gradients == 128 * sizeof(float), "only the adapter has a gradient");
        expect(optimizer.state().size() == 2, "only the adapter has moments");
        expect(model.state().size() == 4, "a checkpoint has all parameters");
    });
}

TEST_CASE("tied parameters: several scopes at once, and gradients from another unit's backward") {
    for (const auto strategy : kPlain) {
        on_ranks(2, [&](Communicator& world) {
            TinyModel tiny(world, unmerged(strategy));
            AdamW optimizer(tiny.model, {.lr = 0.1, .decays = {}});
            for (int step = 0; step < 3; ++step) {
                std::optional tied(tiny.first.unshard());
                for (Unit* unit : {&tiny.second, &tiny.third}) {
                    const auto own = unit->unshard();
                    const auto again = tiny.first.unshard();
                    expect(again["b"].as<float>().data() == (*tied)["b"].as<float>().data(),
                           "one memory");
                    unit->grad("w").as<float>()[0] += 1;
                    tiny.first.grad("b").as<float>()[0] += 1;
                    unit->reduce_grads();
                }
                tiny.first.reduce_grads();
                tied.reset();
                const double norm = optimizer.step().grad_norm;
                expect(std::abs(norm - std::sqrt(6.0)) < 1e-6, "1, 1 and 2 of the tied one");
            }
        });
    }
}

}  // namespace sharded_model_test
