// Optimizers on shards, without an engine: against references, in all types, whatever the cut,
// threads and CPU.
#include "fsdp/optimizer/algorithms.hpp"
#include "fsdp/optimizer/shard_updates.hpp"
#include "optimizer_shards.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/sgd.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace optimizer_test {

using namespace autolaunch;
using namespace autolaunch::fsdp;
using autolaunch::fsdp::testing::ShardTypes;
using autolaunch::fsdp::testing::TestShard;

namespace {

double number(std::istream& in) {
    std::string word;
    in >> word;
    return std::strtod(word.c_str(), nullptr);
}

std::vector<float> numbers(std::istream& in, std::size_t count, const std::string& label) {
    std::string found;
    in >> found;
    REQUIRE(found == label);
    std::vector<float> values(count);
    for (float& value : values)
        value = static_cast<float>(number(in));
    return values;
}

void check_near(const std::vector<float>& got, const std::vector<float>& expected) {
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
        CHECK(std::abs(got[i] - expected[i]) <= 4e-7f * std::abs(expected[i]) + 3e-8f);
}

void check_error(ErrorCode code, const std::string& words, const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        const std::string text = std::string(error.what()) + " | " + error.hint();
        CHECK_MESSAGE((error.code() == code && text.find(words) != std::string::npos), words,
                      ", got: ", text);
        return;
    }
    FAIL_CHECK("expected an error: ", words);
}

/// One shard of one vector, an optimizer on it, and the values after each step.
class OneVector {
public:
    OneVector(const std::vector<float>& start, std::unique_ptr<Algorithm> algorithm,
              const ParameterSettings& settings)
        : shard_({{"w", {static_cast<std::int64_t>(start.size())}}}, 0, 1, {}) {
        shard_.fill_master(
            [&](const std::string&, std::int64_t i) { return start[static_cast<std::size_t>(i)]; });
        updates_ = std::make_unique<ShardUpdates>(
            std::vector{&shard_.shard}, std::move(algorithm),
            UpdateOptions{settings, [](const ParameterSpec&) { return true; }, {}, 1, 0});
    }
    void step(const std::vector<float>& gradient, double lr, std::int64_t step) {
        shard_.fill_gradient([&](const std::string&, std::int64_t i) {
            return gradient[static_cast<std::size_t>(i)];
        });
        updates_->update({step, lr, 1.0});
    }
    std::vector<float> values() const {
        std::vector<float> values;
        shard_.append_master("u.w", values);
        return values;
    }
    /// The algorithm's one vector of state, without what an optimizer notes of it.
    std::vector<float> state() const {
        State state;
        updates_->append_state(state);
        std::erase_if(state, [](const StateTensor& tensor) {
            return tensor.name.ends_with(".state_written");
        });
        REQUIRE(state.size() == 1);
        const auto& piece = state[0].pieces.at(0);
        const auto* data = reinterpret_cast<const float*>(piece.data);
        return {data, data + piece.count};
    }

private:
    TestShard shard_;
    std::unique_ptr<ShardUpdates> updates_;
};

float some_master(const std::string& name, std::int64_t i) {
    return std::sin(0.37f * static_cast<float>(i + std::ssize(name)));
}
float some_gradient(const std::string& name, std::int64_t i) {
    return std::cos(0.11f * static_cast<float>(i * 3 + std::ssize(name))) / 16;
}

struct Outcome {
    std::vector<float> master, param;
    double squares = 0;

    bool operator==(const Outcome& other) const {
        const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
            return a.size() == b.size() &&
                   std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
        };
        return same(master, other.master) && same(param, other.param) && squares == other.squares;
    }
};

struct Run {
    int ranks = 1;
    int threads = 1;
    const OptimizerKernels* kernels = &optimizer_kernels();
    std::uint64_t seed = 1;
};

/// Three steps of a model of 300,000 parameters, cut as `run` says.
Outcome train(const ShardTypes& types, const Run& run,
              const std::function<std::unique_ptr<Algorithm>()>& algorithm) {
    const std::vector<ParameterSpec> parameters = {{"w", {550, 545}}, {"b", {333}}};
    std::vector<std::unique_ptr<TestShard>> shards;
    std::vector<std::unique_ptr<ShardUpdates>> updates;
    const ParameterSettings settings{
        .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .momentum = 0.9};
    for (int rank = 0; rank < run.ranks; ++rank) {
        shards.push_back(std::make_unique<TestShard>(parameters, rank, run.ranks, types));
        shards.back()->fill_master(some_master);
        updates.push_back(
            std::make_unique<ShardUpdates>(std::vector{&shards.back()->shard}, algorithm(),
                                           UpdateOptions{settings, {}, {}, run.threads, run.seed}));
        updates.back()->use_kernels(*run.kernels);
    }
    Outcome outcome;
    for (std::int64_t step = 1; step <= 3; ++step) {
        ExactSum squares;
        for (std::size_t rank = 0; rank < shards.size(); ++rank) {
            shards[rank]->fill_gradient(some_gradient);
            squares.add(updates[rank]->sum_of_squares());
            updates[rank]->update({step, 1e-2, 0.5});
        }
        outcome.squares = squares.value();
    }
    for (const char* name : {"u.w", "u.b"}) {
        for (const auto& shard : shards) {
            shard->append_master(name, outcome.master);
            shard->append_param(name, outcome.param);
        }
    }
    return outcome;
}

const std::function<std::unique_ptr<Algorithm>()> kAlgorithms[] = {
    adamw_algorithm, lion_algorithm, [] { return sgd_algorithm({.momentum = 0.9}); },
    [] { return sgd_algorithm({}); }};

}  // namespace

TEST_CASE("SGD does what torch.optim.SGD does: momentum, dampening, Nesterov, weight decay") {
    std::ifstream in(AUTOLAUNCH_SOURCE_DIR "/tests/data/sgd_golden.txt");
    REQUIRE(in.good());
    int cases = 0;
    for (std::string word; in >> word; ++cases) {
        REQUIRE(word == "case");
        std::string name;
        in >> name;
        CAPTURE(name);
        SGDOptions options;
        options.lr = number(in);
        options.momentum = number(in);
        options.dampening = number(in);
        options.weight_decay = number(in);
        std::int64_t steps = 0;
        std::size_t count = 0;
        in >> options.nesterov >> steps >> count;
        OneVector vector(numbers(in, count, "p"), sgd_algorithm(options),
                         {.weight_decay = options.weight_decay, .momentum = options.momentum});
        for (std::int64_t step = 1; step <= steps; ++step)
            vector.step(numbers(in, count, "g"), options.lr, step);
        check_near(vector.values(), numbers(in, count, "p"));
        if (options.momentum > 0)
            check_near(vector.state(), numbers(in, count, "b"));
    }
    CHECK(cases == 5);
}

// Chen et al., "Symbolic Discovery of Optimization Algorithms", algorithm 2, in f64.
TEST_CASE("Lion does what the paper's algorithm 2 does") {
    const double lr = 0.01, beta1 = 0.9, beta2 = 0.99, decay = 0.3;
    const std::size_t count = 37;
    std::vector<float> start(count);
    for (std::size_t i = 0; i < count; ++i)
        start[i] = some_master("w", static_cast<std::int64_t>(i));
    std::vector<double> theta(start.begin(), start.end()), m(count);
    OneVector vector(start, lion_algorithm(),
                     {.weight_decay = decay, .beta1 = beta1, .beta2 = beta2});
    for (std::int64_t step = 1; step <= 6; ++step) {
        std::vector<float> gradient(count);
        for (std::size_t i = 0; i < count; ++i) {
            gradient[i] =
                i == 5 ? 0 : some_gradient("w", static_cast<std::int64_t>(i) + 100 * step);
            const double c = beta1 * m[i] + (1 - beta1) * static_cast<double>(gradient[i]);
            const double sign = c > 0 ? 1 : c < 0 ? -1 : 0;
            theta[i] -= lr * (sign + decay * theta[i]);
            m[i] = beta2 * m[i] + (1 - beta2) * static_cast<double>(gradient[i]);
        }
        vector.step(gradient, lr, step);
    }
    check_near(vector.values(), {theta.begin(), theta.end()});
    check_near(vector.state(), {m.begin(), m.end()});
    std::vector<float> gradient(count, 1.0f);
    gradient[3] = std::numeric_limits<float>::quiet_NaN();
    vector.step(gradient, lr, 7);
    CHECK(std::isnan(vector.values()[3]));
}

TEST_CASE("ranks, threads and kind of CPU change no bit, in any type") {
    const ShardTypes f32s, mixed{DataType::bf16, DataType::f32, true, DataType::bf16},
        half{DataType::f16, DataType::f32, true, DataType::f16},
        brain{DataType::bf16, DataType::bf16};
    for (const auto& algorithm : kAlgorithms) {
        CAPTURE(std::string(algorithm()->name()));
        for (const ShardTypes& types : {f32s, mixed, half, brain}) {
            CAPTURE(std::string(name_of(types.gradient)));
            const Outcome one = train(types, {.kernels = &plain_optimizer_kernels()}, algorithm);
            for (const OptimizerKernels* set : optimizer_kernel_sets())
                CHECK(train(types, {.kernels = set}, algorithm) == one);
            CHECK(train(types, {.threads = 3}, algorithm) == one);
            CHECK(train(types, {.ranks = 2}, algorithm) == one);
            CHECK(train(types, {.ranks = 5, .threads = 2}, algorithm) == one);
        }
    }
}

TEST_CASE("what ranks gather is the master, rounded to nearest") {
    for (const DataType type : {DataType::f32, DataType::bf16, DataType::f16}) {
        const Outcome outcome =
            train({DataType::f32, DataType::f32, true, type}, {}, adamw_algorithm);
        CHECK(outcome.master == train({}, {}, adamw_algorithm).master);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < outcome.master.size(); ++i) {
            float expected = outcome.master[i];
            if (type == DataType::bf16)
                expected = static_cast<float>(bfloat16(expected));
            if (type == DataType::f16)
                expected = static_cast<float>(float16(expected));
            wrong += outcome.param[i] != expected;
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("masters in bf16 follow those in f32 on average, and another seed rounds otherwise") {
    const ShardTypes brain{DataType::f32, DataType::bf16};
    const Outcome rounded = train(brain, {}, adamw_algorithm),
                  exact = train({}, {}, adamw_algorithm);
    CHECK_FALSE(rounded == train(brain, {.seed = 2}, adamw_algorithm));
    double drift = 0, distance = 0;
    for (std::size_t i = 0; i < exact.master.size(); ++i) {
        const double difference = static_cast<double>(rounded.master[i]) - exact.master[i];
        drift += difference;
        distance += std::abs(difference);
    }
    // The start is rounded to nearest, each of the three steps at random: errors of 300,000
    // elements cancel.
    CHECK(std::abs(drift) < 0.01 * distance);
    CHECK(distance / static_cast<double>(exact.master.size()) < 0.01);
}

TEST_CASE("the first group that a parameter is in counts") {
    TestShard shard({{"w", {4, 4}}, {"b", {4}}, {"norm", {4}}}, 0, 1, {});
    shard.fill_master([](const std::string&, std::int64_t) { return 1.0f; });
    shard.fill_gradient([](const std::string&, std::int64_t) { return 1.0f; });
    const auto is_short = [](const ParameterSpec& parameter) {
        return parameter.shape.size() == 1;
    };
    const std::vector<ParameterGroup> groups = {
        {.pattern = "*.b", .lr_scale = 2},
        {.matches = is_short, .lr_scale = 3, .weight_decay = 0.5}};
    ShardUpdates updates({&shard.shard}, sgd_algorithm({}),
                         {{.weight_decay = 0.25}, {}, groups, 1, 0});
    updates.update({1, 0.125, 1.0});
    const auto first_of = [&](const char* name) {
        std::vector<float> values;
        shard.append_master(name, values);
        return values.at(0);
    };
    CHECK(first_of("u.w") == 1 - 0.125f * 1.25f);
    CHECK(first_of("u.b") == 1 - 0.25f);  // decays not, having one dimension
    CHECK(first_of("u.norm") == 1 - 0.375f * 1.5f);
}

TEST_CASE("what decays may be said by full names") {
    TestShard shard({{"w", {4, 4}}, {"b", {4}}}, 0, 1, {});
    shard.fill_master([](const std::string&, std::int64_t) { return 1.0f; });
    shard.fill_gradient([](const std::string&, std::int64_t) { return 0.0f; });
    const auto decays = [](const ParameterSpec& parameter) { return parameter.name == "u.b"; };
    ShardUpdates updates({&shard.shard}, sgd_algorithm({}),
                         {{.weight_decay = 0.25}, decays, {}, 1, 0});
    updates.update({1, 0.125, 1.0});
    std::vector<float> w, b;
    shard.append_master("u.w", w);
    shard.append_master("u.b", b);
    CHECK(w.at(0) == 1);
    CHECK(b.at(0) == 1 - 0.125f * 0.25f);
}

TEST_CASE("groups that make no sense are refused") {
    TestShard shard({{"attention.weight", {4, 4}}, {"bias", {4}}}, 0, 1, {});
    const auto make = [&](ParameterGroup group) {
        ShardUpdates({&shard.shard}, sgd_algorithm({}), {{}, {}, {std::move(group)}, 1, 0});
    };
    check_error(ErrorCode::invalid_argument,
                "group \"u.biass\" has no parameters; did you mean u.bias? | full names are",
                [&] { make({.pattern = "u.biass"}); });
    check_error(ErrorCode::invalid_argument, "such as u.attention.weight",
                [&] { make({.pattern = "*.zzzzzzzzz"}); });
    check_error(ErrorCode::invalid_argument, "parameter group 0 has no parameters",
                [&] { make({.matches = [](const ParameterSpec&) { return false; }}); });
    check_error(ErrorCode::invalid_argument, "either a pattern or a predicate", [&] { make({}); });
    check_error(ErrorCode::invalid_argument, "SGD: parameter group \"*\" sets beta1, which",
                [&] { make({.pattern = "*", .beta1 = 0.5}); });
    check_error(ErrorCode::invalid_argument, "negative lr_scale",
                [&] { make({.pattern = "*", .lr_scale = -1}); });
    check_error(ErrorCode::invalid_argument, "AdamW: beta2 is not in [0, 1)", [&] {
        ShardUpdates({&shard.shard}, adamw_algorithm(),
                     {{}, {}, {{.pattern = "u.bias", .beta2 = 1.0}}, 1, 0});
    });
    check_error(ErrorCode::invalid_argument, "nesterov needs",
                [&] { sgd_algorithm({.nesterov = true}); });
}

TEST_CASE("patterns: * is any text, ? one character") {
    CHECK(matches_pattern("h.*.w", "h.0.attn.w"));
    CHECK(matches_pattern("*", ""));
    CHECK(matches_pattern("h.?.w", "h.3.w"));
    CHECK(matches_pattern("*ln*", "h.0.ln1.scale"));
    CHECK(matches_pattern("a**b", "ab"));
    CHECK_FALSE(matches_pattern("h.?.w", "h.12.w"));
    CHECK_FALSE(matches_pattern("h.*.w", "h.0.attn.w2"));
    CHECK_FALSE(matches_pattern("", "a"));
    CHECK_FALSE(matches_pattern("a", ""));
    CHECK_FALSE(matches_pattern("*a*a*a*a*a*b", std::string(5000, 'a')));  // and is quick
}

TEST_CASE("the first gradient that is not finite is found by parameter and element") {
    for (const DataType type : {DataType::f32, DataType::bf16, DataType::f16}) {
        TestShard shard({{"w", {100, 10}}, {"b", {70}}}, 1, 2, {.gradient = type});
        ShardUpdates updates({&shard.shard}, adamw_algorithm(), {});
        shard.fill_gradient(some_gradient);
        CHECK_FALSE(updates.find_non_finite());
        CHECK(updates.sum_of_squares().finite());
        shard.fill_gradient([](const std::string& name, std::int64_t i) {
            if (name == "u.b" && i == 69)
                return -std::numeric_limits<float>::infinity();
            return name == "u.b" && i == 66 ? std::numeric_limits<float>::quiet_NaN() : 1.0f;
        });
        const auto found = updates.find_non_finite();
        REQUIRE(found);
        CHECK(found->tensor == 1);
        CHECK(found->element == 66);
        CHECK(std::isnan(found->value));
        CHECK_FALSE(updates.sum_of_squares().finite());
    }
}

TEST_CASE("types that no kernel takes are refused with those that it does") {
    TestShard shard({{"w", {4}}}, 0, 1, {});
    shard.shard.master_type = DataType::f16;
    check_error(ErrorCode::unsupported, "masters in f16 | they do in f32, and in bf16",
                [&] { ShardUpdates({&shard.shard}, adamw_algorithm(), {}); });
    shard.shard.master_type = DataType::f32;
    shard.shard.gradient_type = DataType::f64;
    check_error(ErrorCode::unsupported, "gradients in f64",
                [&] { ShardUpdates({&shard.shard}, adamw_algorithm(), {}); });
}

TEST_CASE("a pool does every item once, round after round") {
    for (const int threads : {1, 4}) {
        WorkerPool pool(threads);
        CHECK(pool.size() == threads);
        std::vector<std::atomic<int>> done(1000);
        for (int round = 1; round <= 20; ++round) {
            pool.run(done.size(), [&](std::size_t thread, std::size_t item) {
                if (thread < static_cast<std::size_t>(threads))
                    ++done[item];
            });
            std::size_t wrong = 0;
            for (const auto& count : done)
                wrong += count != round;
            CHECK(wrong == 0);
        }
        pool.run(0, [](std::size_t, std::size_t) {});
    }
}

TEST_CASE("an optimizer takes the threads that its rank has") {
    CHECK(choose_optimizer_threads(3, "8", "2", 4, 16) == 3);   // asked for
    CHECK(choose_optimizer_threads(0, "8", "2", 16, 16) == 8);  // OMP_NUM_THREADS
    CHECK(choose_optimizer_threads(0, "8,2", "", 4, 16) == 4);  // but not more than it may run on
    CHECK(choose_optimizer_threads(0, "", "2", 4, 16) == 4);    // bound: the CPUs are its own
    CHECK(choose_optimizer_threads(0, "", "4", 16, 16) ==
          4);  // not bound: shared with three others
    CHECK(choose_optimizer_threads(0, "x", "", 16, 16) == 16);
    CHECK(choose_optimizer_threads(0, "", "64", 16, 16) == 1);
}

}  // namespace optimizer_test
