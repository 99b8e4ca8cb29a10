// Models cut over real processes: forked ranks on the shared-memory communicator.
#include "../conformance/forked_ranks.hpp"
#include "comm/self/self_backend.hpp"
#include "comm/shm/shm_backend.hpp"
#include "fsdp/engine.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/adamw.hpp>
#include <autolaunch/fsdp/sharded_model.hpp>

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

using namespace autolaunch;
using namespace autolaunch::fsdp;

namespace {

constexpr std::chrono::milliseconds kTimeout{60'000};

void expect(bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error("expected: " + what);
}

// Runs `action`, which must throw an Error with this code whose text has these words.
void expect_error(ErrorCode code, const std::string& words, const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        const std::string text = std::string(error.what()) + " | " + error.hint();
        expect(error.code() == code && text.find(words) != std::string::npos, words + ", got: " + text);
        return;
    }
    throw std::runtime_error("expected an error: " + words);
}

// Forks `size` ranks that run body with a communicator; every one must succeed.
void on_ranks(int size, const std::function<void(Communicator&)>& body) {
    conformance::Broadcast address(size - 1);
    const auto statuses = conformance::run_forked_ranks(size, [&](int rank) {
        if (size == 1) {
            Communicator world(std::make_shared<SelfBackend>());
            return body(world);
        }
        const ShmRendezvous rendezvous{[&](const std::string& text) { address.publish(text); },
                                       [&](std::chrono::milliseconds timeout) { return address.fetch(timeout); }};
        Communicator world(ShmBackend::create(rendezvous, rank, size, kTimeout));
        body(world);
    });
    for (const int status : statuses) CHECK(status == 0);
}

// Memory that the test shares with its ranks.
class SharedFloats {
public:
    explicit SharedFloats(std::size_t count) : count_(count) {
        void* memory =
            ::mmap(nullptr, count * sizeof(float), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        REQUIRE(memory != MAP_FAILED);
        data_ = static_cast<float*>(memory);
    }
    ~SharedFloats() { ::munmap(data_, count_ * sizeof(float)); }
    SharedFloats(const SharedFloats&) = delete;
    float* data() const { return data_; }
    std::vector<float> copy() const { return {data_, data_ + count_}; }

private:
    std::size_t count_;
    float* data_;
};

// Two layers and a parameter smaller than a shard's quantum: cuts fall inside tensors and ranks hold nothing of some.
struct TinyModel {
    explicit TinyModel(Communicator world, ShardingStrategy strategy)
        : model(std::move(world), {.strategy = strategy, .precision = {}}),
          first(model.add_unit("first", {{"w", {40, 33}}, {"b", {40}}})),
          second(model.add_unit("second", {{"w", {7, 40}}, {"scale", {}}})) {
        model.finalize();
        model.initialize(
            [](const std::string& name, std::span<const std::int64_t>, std::int64_t at, std::span<float> values) {
                for (float& value : values) value = std::sin(0.37f * static_cast<float>(at++ + std::ssize(name) * 11));
            });
    }

    // A gradient that is a small whole number times 1/64, so that sums over ranks are exact in any order.
    static float gradient(std::size_t sample, std::size_t index, float parameter) {
        const float noise = static_cast<float>((sample * 7919 + index * 104729) % 127) - 63;
        return (noise + std::floor(parameter * 8)) / 64;
    }

    // One micro-batch of `samples` samples, spread over the ranks.
    void backward(std::size_t step, std::size_t samples) {
        const auto rank = static_cast<std::size_t>(model.world().rank());
        const auto ranks = static_cast<std::size_t>(model.world().size());
        { auto parameters = first.unshard(); }  // the forward pass
        for (Unit* unit : {&second, &first}) {
            const auto parameters = unit->unshard();
            for (const auto& placement : unit->layout().placements()) {
                const auto values = parameters[placement.parameter.name].as<const float>();
                for (std::size_t sample = rank; sample < samples; sample += ranks) {
                    const auto into = unit->grad(placement.parameter.name).as<float>();
                    for (std::size_t i = 0; i < values.size(); ++i)
                        into[i] += gradient(step * samples + sample, i, values[i]);
                }
            }
            unit->reduce_grads();
        }
    }

    void copy_parameters(float* to) {
        const auto scope = model.evaluation();
        for (Unit* unit : {&first, &second}) {
            const auto parameters = unit->unshard();
            for (const auto& placement : unit->layout().placements()) {
                const auto values = parameters[placement.parameter.name].as<const float>();
                to = std::copy(values.begin(), values.end(), to);
            }
        }
    }

    static constexpr std::size_t kParameters = 40 * 33 + 40 + 7 * 40 + 1;
    ShardedModel model;
    Unit& first;
    Unit& second;
};

struct Training {
    std::vector<float> parameters;
    std::vector<float> norms;
};

// Eight steps with two micro-batches each of 12 samples, which divide evenly over 1, 2, 3 and 4 ranks.
Training train(int ranks, ShardingStrategy strategy, std::optional<double> max_grad_norm) {
    constexpr std::size_t kSteps = 8;
    SharedFloats parameters(TinyModel::kParameters), norms(kSteps);
    on_ranks(ranks, [&](Communicator& world) {
        TinyModel tiny(world, strategy);
        AdamW optimizer(tiny.model, {.lr = 1e-2, .weight_decay = 0.1, .decays = {}});
        for (std::size_t step = 0; step < kSteps; ++step) {
            for (std::size_t micro_batch = 0; micro_batch < 2; ++micro_batch) tiny.backward(2 * step + micro_batch, 12);
            // As if the sample count were the same on one rank: the mean over all 24 samples.
            StepOptions options{.lr = {}, .max_grad_norm = max_grad_norm, .micro_batches = 24 / world.size()};
            if (world.rank() == 0)
                norms.data()[step] = static_cast<float>(optimizer.step(options).grad_norm);
            else
                optimizer.step(options);
        }
        expect(optimizer.step_count() == static_cast<std::int64_t>(kSteps), "eight steps were counted");
        std::vector<float> whole(TinyModel::kParameters);
        tiny.copy_parameters(whole.data());
        if (world.rank() == 0) std::copy(whole.begin(), whole.end(), parameters.data());
    });
    return {parameters.copy(), norms.copy()};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void check_close(const std::vector<float>& a, const std::vector<float>& b, float tolerance) {
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i])));
}

}  // namespace

TEST_CASE("training on 2, 3 and 4 ranks gives the same bits as on one, sharded or not") {
    const Training one = train(1, ShardingStrategy::full_shard, {});
    CHECK(one.norms[0] > 0);
    for (const int ranks : {2, 3, 4}) {
        for (const auto strategy : {ShardingStrategy::full_shard, ShardingStrategy::no_shard}) {
            CAPTURE(ranks);
            const Training many = train(ranks, strategy, {});
            CHECK(same_bits(many.parameters, one.parameters));
            check_close(many.norms, one.norms, 1e-6f);
        }
    }
}

TEST_CASE("clipping uses the norm of the whole model") {
    const Training one = train(1, ShardingStrategy::no_shard, 0.5);
    CHECK(one.norms[0] > 0.5f);
    const Training free = train(1, ShardingStrategy::no_shard, {});
    CHECK_FALSE(same_bits(one.parameters, free.parameters));
    for (const auto strategy : {ShardingStrategy::full_shard, ShardingStrategy::no_shard}) {
        const Training three = train(3, strategy, 0.5);
        // The norm's sum is taken in another order, so the clip factor may differ in its last bit.
        check_close(three.parameters, one.parameters, 1e-5f);
        check_close(three.norms, one.norms, 1e-6f);
    }
}

TEST_CASE("gathered memory is the parameters, is page-aligned, and is reused") {
    on_ranks(2, [](Communicator& world) {
        TinyModel tiny(world, ShardingStrategy::full_shard);
        AdamW optimizer(tiny.model);
        BufferPool& pool = tiny.first.impl().engine().pool;
        for (std::size_t step = 0; step < 3; ++step) {
            tiny.backward(step, 4);
            optimizer.step();
        }
        expect(pool.allocation_count() == 2, "one gathered arena and one gradient were ever allocated");
        const auto parameters = tiny.first.unshard();
        auto* start = parameters["w"].as<float>().data();
        expect(reinterpret_cast<std::uintptr_t>(start) % 4096 == 0, "the arena starts on a page");
        expect(parameters["b"].as<float>().data() == start + tiny.first.layout().placement("b").offset,
               "the bias lies in the same arena");
        {
            const auto again = tiny.first.unshard();
            expect(again["w"].as<float>().data() == start, "a second scope sees the same memory");
        }
        expect(parameters["w"].shape.size() == 2 && parameters["w"].shape[1] == 33, "the shape is the parameter's");
        expect_error(ErrorCode::mismatch, "f32, not f64", [&] { parameters["w"].as<double>(); });
        expect_error(ErrorCode::invalid_argument, "the parameters are w, b", [&] { parameters["v"]; });
    });
}

TEST_CASE("a deviation from the first step's order throws on the rank that deviates, and wakes the others") {
    on_ranks(2, [](Communicator& world) {
        TinyModel tiny(world, ShardingStrategy::full_shard);
        AdamW optimizer(tiny.model);
        tiny.backward(0, 4);
        optimizer.step();
        if (world.rank() == 0) {
            expect_error(ErrorCode::mismatch, "expected unshard of first, got unshard of second",
                         [&] { tiny.second.unshard(); });
        } else {
            expect_error(ErrorCode::aborted, "the order of units changed", [&] { tiny.backward(1, 4); });
        }
    });
}

TEST_CASE("a step that ends early is a deviation, evaluation is none") {
    on_ranks(1, [](Communicator& world) {
        TinyModel tiny(world, ShardingStrategy::full_shard);
        AdamW optimizer(tiny.model);
        tiny.backward(0, 4);
        optimizer.step();
        {
            const auto scope = tiny.model.evaluation();
            { auto parameters = tiny.second.unshard(); }
            { auto parameters = tiny.second.unshard(); }
            expect_error(ErrorCode::invalid_argument, "evaluation()", [&] { tiny.first.grad("w"); });
            expect_error(ErrorCode::invalid_argument, "evaluation()", [&] { tiny.first.reduce_grads(); });
        }
        tiny.backward(1, 4);
        optimizer.step();
        { auto parameters = tiny.first.unshard(); }
        expect_error(ErrorCode::mismatch, "expected unshard of second, got the optimizer step",
                     [&] { optimizer.step(); });
    });
}

TEST_CASE("ranks that ran the units in different orders are told after the first step") {
    // Under no_shard unshard() is no collective, so only the comparison can notice.
    on_ranks(2, [](Communicator& world) {
        TinyModel tiny(world, ShardingStrategy::no_shard);
        AdamW optimizer(tiny.model);
        if (world.rank() == 1) {
            auto parameters = tiny.second.unshard();
        }
        tiny.backward(0, 4);
        expect_error(ErrorCode::mismatch, "different orders", [&] { optimizer.step(); });
    });
}

TEST_CASE("ranks with different models are told at finalize") {
    on_ranks(2, [](Communicator& world) {
        ShardedModel model(world);
        model.add_unit("u", {{"w", {world.rank() == 0 ? 4 : 5}}});
        expect_error(ErrorCode::mismatch, "same model", [&] { model.finalize(); });
    });
}

TEST_CASE("an optimizer step is refused while parameters or gradients are whole") {
    on_ranks(1, [](Communicator& world) {
        TinyModel tiny(world, ShardingStrategy::full_shard);
        AdamW optimizer(tiny.model);
        {
            const auto parameters = tiny.first.unshard();
            expect_error(ErrorCode::invalid_argument, "is unsharded", [&] { optimizer.step(); });
        }
        tiny.first.grad("w");
        expect_error(ErrorCode::invalid_argument, "unit first has gradients not yet reduced",
                     [&] { optimizer.step(); });
    });
}

TEST_CASE("a unit without a gradient keeps its parameters") {
    on_ranks(2, [](Communicator& world) {
        TinyModel tiny(world, ShardingStrategy::full_shard);
        AdamW optimizer(tiny.model, {.lr = 0.1, .decays = {}});
        std::vector<float> before(TinyModel::kParameters), after(TinyModel::kParameters);
        tiny.copy_parameters(before.data());
        tiny.second.grad("scale").as<float>()[0] = 1;
        tiny.second.reduce_grads();
        const double norm = optimizer.step().grad_norm;
        expect(norm == 1.0, "the averaged gradient is 1");
        tiny.copy_parameters(after.data());
        const std::size_t second = 40 * 33 + 40;
        expect(std::equal(before.begin(), before.begin() + second, after.begin()), "unit first is untouched");
        expect(std::abs(before.back() - 0.1f - after.back()) < 1e-5f, "the scale moved by lr");
    });
}

TEST_CASE("what is not supported is said, with what is") {
    on_ranks(1, [](Communicator& world) {
        expect_error(ErrorCode::unsupported, "hybrid_shard is not supported | full_shard and no_shard are",
                     [&] { ShardedModel(world, {.strategy = ShardingStrategy::hybrid_shard, .precision = {}}); });
        expect_error(ErrorCode::unsupported, "precision bf16 is not supported",
                     [&] { ShardedModel(world, {.precision = {.param = bf16}}); });
        ShardedModel model(world);
        auto& unit = model.add_unit("u", {{"w", {4}}});
        expect_error(ErrorCode::invalid_argument, "call finalize()", [&] { unit.unshard(); });
        expect_error(ErrorCode::invalid_argument, "two units have the name u", [&] {
            model.add_unit("u", {{"w", {4}}});
        });
        expect_error(ErrorCode::invalid_argument, "the units are u", [&] { model.unit("uu"); });
        model.finalize();
        expect_error(ErrorCode::unsupported, "CPU memory", [&] { unit.unshard(Stream::cuda(0, nullptr)); });
        expect_error(ErrorCode::invalid_argument, "finalized model", [&] { model.add_unit("v", {{"w", {4}}}); });
    });
}
