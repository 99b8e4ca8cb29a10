// Types of parameters, gradients and masters: what is gathered follows the masters, and training
// stays within bounds.
#include "fsdp/cast.hpp"
#include "fsdp/model_engine.hpp"
#include "fsdp_ranks.hpp"

namespace fsdp_precision_test {

using namespace autolaunch;
using namespace autolaunch::fsdp;
using namespace autolaunch::fsdp::testing;

namespace {

// Plain gradient descent on the shards: what any optimizer does with them.
void descend(ModelEngine& engine, float rate) {
    engine.begin_step();
    for (OptimizerShard* shard : engine.optimizer_shards()) {
        if (!shard->has_gradient)
            continue;
        std::vector<float> gradient(shard->elements), master(shard->elements);
        cast(gradient.data(), f32, shard->gradient, shard->gradient_type, shard->elements);
        cast(master.data(), f32, shard->master, shard->master_type, shard->elements);
        for (std::size_t i = 0; i < master.size(); ++i)
            master[i] -= rate * gradient[i];
        cast(shard->master, shard->master_type, master.data(), f32, shard->elements);
        if (shard->param)
            cast(shard->param, shard->param_type, master.data(), f32, shard->elements);
    }
    engine.end_step();
}

template <class Param = float, class Grad = float>
std::vector<float> train(int ranks, const ShardedModelOptions& options) {
    Shared<float> result(TinyModel::kParameters);
    on_ranks(ranks, [&](Communicator& world) {
        TinyModel tiny(world, options);
        for (std::size_t step = 0; step < 6; ++step) {
            tiny.backward<Param, Grad>(2 * step, 12);
            tiny.backward<Param, Grad>(2 * step + 1, 12);
            descend(tiny.first.impl().engine(), 0.005f);
        }
        std::vector<float> whole(TinyModel::kParameters);
        tiny.copy_parameters<Param>(whole.data());
        if (world.rank() == 0)
            std::copy(whole.begin(), whole.end(), result.data());
    });
    return result.copy();
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
    float largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        largest = std::max(largest, std::abs(a[i] - b[i]));
    return largest;
}

const ShardingStrategy kStrategies[] = {
    ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op,
    ShardingStrategy::shard_optimizer, ShardingStrategy::no_shard, ShardingStrategy::hybrid_shard};

}  // namespace

TEST_CASE("lower precisions follow f32 within their rounding, under every strategy") {
    const auto exact = train(1, unmerged());
    for (const auto strategy : kStrategies) {
        CAPTURE(name_of(strategy));
        ShardedModelOptions options = unmerged(strategy);
        options.shard_group = 2;
        const int ranks = strategy == ShardingStrategy::hybrid_shard ? 4 : 2;

        CHECK(same_bits(train(ranks, options), exact));

        options.precision = {.param = bf16};
        // The parameters' rounding (2^-9 of values up to 3 or so) moves some gradients by 1/64 in
        // each of 24 samples.
        CHECK(largest_difference(train<bfloat16, float>(ranks, options), exact) < 0.05f);
        options.precision = {.param = f16};
        CHECK(largest_difference(train<float16, float>(ranks, options), exact) < 0.02f);
        options.precision = {.param = bf16, .reduce = bf16};
        CHECK(largest_difference(train<bfloat16, bfloat16>(ranks, options), exact) < 0.08f);
        options.precision = {.param = bf16, .reduce = bf16, .accumulate = bf16, .master = bf16};
        CHECK(largest_difference(train<bfloat16, bfloat16>(ranks, options), exact) < 0.2f);
        options.precision = {.reduce = f16};
        CHECK(largest_difference(train<float, float16>(ranks, options), exact) < 0.02f);
    }
}

TEST_CASE(
    "what is gathered is the rounded master: from initialize(), after a step, and after a load") {
    for (const auto strategy : kStrategies) {
        on_ranks(2, [&](Communicator& world) {
            ShardedModelOptions options = unmerged(strategy);
            options.precision = {.param = bf16};
            options.shard_group = 2;
            TinyModel tiny(world, options);
            const auto expect_rounded = [&](const std::string& when) {
                const auto scope = tiny.model.evaluation();
                const auto parameters = tiny.first.unshard();
                const auto values = parameters["w"].as<const bfloat16>();
                for (const StateTensor& tensor : tiny.model.state()) {
                    if (tensor.name != "first.w")
                        continue;
                    expect(tensor.type == f32, "masters are f32");
                    for (const auto& piece : tensor.pieces) {
                        const auto* master = reinterpret_cast<const float*>(piece.data);
                        for (std::int64_t i = 0; i < piece.count; ++i) {
                            const auto now =
                                values[static_cast<std::size_t>(piece.offset + i)].bits;
                            expect(now == bfloat16(master[i]).bits,
                                   when + ": the parameter is the rounded master");
                        }
                    }
                }
            };
            expect_rounded("at the start");
            tiny.backward<bfloat16, float>(0, 4);
            descend(tiny.first.impl().engine(), 0.1f);
            expect_rounded("after a step");
            for (const StateTensor& tensor : tiny.model.state())
                for (const auto& piece : tensor.pieces)
                    for (std::int64_t i = 0; i < piece.count; ++i)
                        reinterpret_cast<float*>(piece.data)[i] =
                            0.1f * static_cast<float>(piece.offset + i);
            tiny.model.refresh_parameters();
            expect_rounded("after a load");
        });
    }
}

TEST_CASE("memory is what each type costs") {
    on_ranks(2, [](Communicator& world) {
        ShardedModelOptions options = unmerged();
        options.precision = {.param = bf16, .reduce = bf16};
        TinyModel tiny(world, options);
        tiny.backward<bfloat16, bfloat16>(0, 4);
        const ModelMemory memory = tiny.model.memory();
        constexpr std::size_t kShards = 768 + 256 + 256, kLargest = 1536;
        expect(memory.parameters == kShards * 2, "bf16 shards");
        expect(memory.masters >= kShards * 4 && memory.masters <= kShards * 4 + 3 * 4096,
               "f32 masters, in pages");
        expect(memory.gradients == kShards * 4, "f32 gradients");
        expect(memory.gathered == 2 * kLargest * 2 && memory.whole_gradients == 2 * kLargest * 2,
               "bf16 slots");
    });
}

TEST_CASE(
    "a NaN or an infinity names the rank that made it, its unit and parameter, on every rank") {
    for (const auto strategy : kStrategies) {
        on_ranks(4, [&](Communicator& world) {
            ShardedModelOptions options = unmerged(strategy);
            options.shard_group = 2;
            options.merge_below = strategy == ShardingStrategy::full_shard ? 1 << 20 : 0;
            TinyModel tiny(world, options);
            ModelEngine& engine = tiny.first.impl().engine();
            for (std::size_t step = 0; step < 3; ++step) {
                tiny.backward(step, 4, false);
                if (step == 1 && world.rank() == 2)
                    tiny.second.grad("scale").as<float>()[0] = INFINITY;
                if (step == 1 && world.rank() == 3)
                    tiny.second.grad("w").as<float>()[17] = std::nanf("");
                for (Unit* unit : {&tiny.third, &tiny.second, &tiny.first})
                    unit->reduce_grads();
                engine.begin_step();
                const auto look = [&] { engine.require_finite_contributions(); };
                if (step == 1) {
                    expect_error(ErrorCode::invalid_argument, "rank 2's gradient of second.scale",
                                 look);
                } else {
                    look();
                }
                engine.end_step();
            }
        });
    }
}

TEST_CASE("casts and sums round to nearest, and find what is not finite") {
    const std::vector<float> values = {1.0f, -2.5f, 3.14159f, 65504.0f, 1e-3f};
    for (const DataType type : {bf16, f16}) {
        std::vector<std::uint16_t> half(values.size());
        std::vector<float> back(values.size());
        cast(half.data(), type, values.data(), f32, values.size());
        cast(back.data(), f32, half.data(), type, values.size());
        for (std::size_t i = 0; i < values.size(); ++i)
            CHECK(back[i] == doctest::Approx(values[i]).epsilon(0.004));
        accumulate(back.data(), f32, half.data(), type, values.size());
        CHECK(back[1] == -5.0f);
        CHECK_FALSE(first_nonfinite(half.data(), type, half.size()));
        half[3] = type == bf16 ? 0x7f80 : 0xfc00;
        CHECK(first_nonfinite(half.data(), type, half.size()) == 3u);
    }
    std::vector<float> many(10'000, 1e38f);
    CHECK_FALSE(first_nonfinite(many.data(), f32, many.size()));
    many[9'001] = -std::nanf("");
    many[9'500] = INFINITY;
    CHECK(first_nonfinite(many.data(), f32, many.size()) == 9'001u);
}

}  // namespace fsdp_precision_test
