// Every backward function of examples/gpt against central finite differences, in double: an error
// in any term of any gradient is orders of magnitude above the tolerance.
#include "gpt/cpu_math.hpp"
#include "gpt/layers.hpp"
#include "gpt/model.hpp"
#include "gpt/parameters.hpp"
#include "gpt/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace gpt_gradient_test {

using namespace gpt;

namespace {

using Vector = std::vector<double>;

Vector random_vector(std::size_t count, std::uint64_t seed, double mean = 0, double deviation = 1) {
    Vector values(count);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = mean + deviation * normal(random_bits({seed, i}));
    return values;
}

std::vector<std::uint8_t> random_bytes(std::size_t count, std::uint64_t seed) {
    std::vector<std::uint8_t> bytes(count);
    for (std::size_t i = 0; i < count; ++i)
        bytes[i] = static_cast<std::uint8_t>(random_bits({seed, i}) >> 56);
    return bytes;
}

double dot(std::span<const double> a, std::span<const double> b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        sum += a[i] * b[i];
    return sum;
}

/// Largest difference between `gradient` and the slope of `value` in each element of `at`, relative
/// where the slope is above one.
double worst_error(Vector& at, std::span<const double> gradient,
                   const std::function<double()>& value) {
    constexpr double kStep = 1e-5;
    double worst = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
        const double saved = at[i];
        at[i] = saved + kStep;
        const double above = value();
        at[i] = saved - kStep;
        const double below = value();
        at[i] = saved;
        const double slope = (above - below) / (2 * kStep);
        const double error = std::abs(slope - gradient[i]) / std::max(1.0, std::abs(slope));
        if (!(error <= worst))
            worst = error;  // not-a-number counts as worst
    }
    return worst;
}

// Rounding of sums of a few hundred terms near 1, divided by the step; the steps' own error is
// smaller.
constexpr double kTolerance = 1e-8;

double norm(std::span<const double> values) { return std::sqrt(dot(values, values)); }

}  // namespace

TEST_CASE("linear: gradients of input, weight and bias") {
    ThreadPool pool(2);
    const std::int64_t rows = 5;
    Vector x = random_vector(5 * 7, 1);
    Vector weight = random_vector(7 * 9, 2);
    Vector bias = random_vector(9, 3);
    const Vector dy = random_vector(5 * 9, 4);
    Vector y(dy.size());
    const auto value = [&] {
        linear<double>(pool, rows, x, weight, bias, y);
        return dot(y, dy);
    };
    Vector dx(x.size(), 7.0);  // must be overwritten
    Vector dweight(weight.size());
    Vector dbias(bias.size());
    linear_backward<double>(pool, rows, x, weight, dy, dx, dweight, dbias);
    CHECK(worst_error(x, dx, value) < kTolerance);
    CHECK(worst_error(weight, dweight, value) < kTolerance);
    CHECK(worst_error(bias, dbias, value) < kTolerance);

    SUBCASE("weight and bias gradients are added to") {
        const Vector once = dweight;
        linear_backward<double>(pool, rows, x, weight, dy, dx, dweight, dbias);
        for (std::size_t i = 0; i < once.size(); ++i)
            CHECK(dweight[i] == doctest::Approx(2 * once[i]));
    }
}

TEST_CASE("layer_norm: gradients of input, weight and bias") {
    ThreadPool pool(2);
    const std::int64_t rows = 4;
    Vector x = random_vector(4 * 19, 1, 0.5, 2);
    Vector weight = random_vector(19, 2, 1, 0.3);
    Vector bias = random_vector(19, 3);
    const Vector dy = random_vector(x.size(), 4);
    Vector y(x.size());
    Vector mean(4);
    Vector inverse(4);
    const auto value = [&] {
        layer_norm<double>(pool, rows, x, weight, bias, y, mean, inverse);
        return dot(y, dy);
    };
    value();
    const Vector residual = random_vector(x.size(), 5);
    Vector dx = residual;  // is added to
    Vector dweight(weight.size());
    Vector dbias(bias.size());
    layer_norm_backward<double>(pool, rows, x, weight, mean, inverse, dy, dx, dweight, dbias);
    for (std::size_t i = 0; i < dx.size(); ++i)
        dx[i] -= residual[i];
    CHECK(worst_error(x, dx, value) < kTolerance);
    CHECK(worst_error(weight, dweight, value) < kTolerance);
    CHECK(worst_error(bias, dbias, value) < kTolerance);
}

TEST_CASE("gelu: gradient, in place too, and its known values") {
    ThreadPool pool(1);
    Vector x = random_vector(133, 1, 0, 2);
    const Vector dy = random_vector(x.size(), 2);
    Vector y(x.size());
    const auto value = [&] {
        gelu<double>(pool, x, y);
        return dot(y, dy);
    };
    Vector dx = dy;
    gelu_backward<double>(pool, x, dx, dx);
    CHECK(worst_error(x, dx, value) < kTolerance);

    const Vector points = {-1, 0, 1, 30};
    Vector values(4);
    gelu<double>(pool, points, values);
    CHECK(values[0] == doctest::Approx(-0.15880801).epsilon(1e-7));
    CHECK(values[1] == 0);
    CHECK(values[2] == doctest::Approx(0.84119199).epsilon(1e-7));
    CHECK(values[3] == doctest::Approx(30));
}

TEST_CASE("attention: gradients of queries, keys and values") {
    ThreadPool pool(3);
    for (const std::int64_t length : {5, 90}) {  // positions are worked on 84 at once
        const BatchShape shape{2, length};
        const std::int64_t heads = 2;
        const std::size_t width = 6;
        Vector qkv = random_vector(static_cast<std::size_t>(shape.rows()) * 3 * width, 1);
        const Vector dy = random_vector(qkv.size() / 3, 2);
        Vector y(dy.size());
        Vector weights(static_cast<std::size_t>(shape.rows() * heads * length));
        const auto value = [&] {
            attention<double>(pool, shape, heads, qkv, weights, y);
            return dot(y, dy);
        };
        value();
        Vector dqkv(qkv.size(), 3.0);
        attention_backward<double>(pool, shape, heads, qkv, weights, dy, dqkv);
        CHECK(norm(dqkv) > 0.1);
        CHECK(worst_error(qkv, dqkv, value) < kTolerance);
        // The first position attends to itself alone, so its output is its value.
        for (std::size_t j = 0; j < width; ++j)
            CHECK(y[j] == doctest::Approx(qkv[2 * width + j]));
    }
}

TEST_CASE("embedding: gradients of both tables") {
    ThreadPool pool(2);
    const BatchShape shape{3, 4};
    const std::size_t width = 5;
    const std::vector<std::uint8_t> tokens = {7, 7, 255, 0, 1, 7, 3, 3, 0, 0, 9, 255};
    Vector token_table = random_vector(256 * width, 1);
    Vector position_table =
        random_vector(6 * width, 2);  // the context is longer than the sequences
    const Vector dx = random_vector(12 * width, 3);
    Vector x(dx.size());
    const auto value = [&] {
        embedding<double>(pool, shape, tokens, token_table, position_table, x);
        return dot(x, dx);
    };
    Vector dtoken_table(token_table.size());
    Vector dposition_table(position_table.size());
    embedding_backward<double>(pool, shape, tokens, dx, dtoken_table, dposition_table);
    CHECK(worst_error(token_table, dtoken_table, value) < kTolerance);
    CHECK(worst_error(position_table, dposition_table, value) < kTolerance);
}

TEST_CASE("cross_entropy: loss, scaled gradient, and the value for equal logits") {
    ThreadPool pool(2);
    const std::int64_t rows = 3;
    Vector logits = random_vector(3 * 256, 1, 0, 3);
    const std::vector<std::uint8_t> targets = {0, 255, 17};
    Vector gradient = logits;
    cross_entropy<double>(pool, rows, targets, 0.25, gradient);
    const auto value = [&] {
        Vector copy = logits;
        return 0.25 * cross_entropy<double>(pool, rows, targets, 1, copy);
    };
    CHECK(worst_error(logits, gradient, value) < kTolerance);

    Vector equal(3 * 256, -2.0);
    CHECK(cross_entropy<double>(pool, rows, targets, 1, equal) ==
          doctest::Approx(3 * std::log(256.0)));
}

namespace {

const ModelConfig kTiny = {.layers = 2, .heads = 2, .width = 8, .context = 6};

/// Parameters far from their start, where biases and norms count too.
template <class T>
LocalParameters<T> random_parameters(const ModelConfig& config) {
    const auto shapes = unit_shapes(config);
    LocalParameters<T> parameters(shapes);
    for (std::size_t unit = 0; unit < shapes.size(); ++unit) {
        for (std::size_t tensor = 0; tensor < shapes[unit].tensors.size(); ++tensor) {
            auto& values = parameters.values(unit, tensor);
            const auto random = random_vector(
                values.size(), number_of(shapes[unit].tensors[tensor].name) + unit, 0, 0.4);
            std::copy(random.begin(), random.end(), values.begin());
        }
    }
    return parameters;
}

}  // namespace

TEST_CASE(
    "the whole model: every element of every parameter, with a head of its own and with a tied "
    "one") {
    ModelConfig config = kTiny;
    SUBCASE("a head of its own") {}
    SUBCASE("tied, and a vocabulary beyond the bytes") {
        config.tied_head = true;
        config.vocabulary = 260;
    }
    ThreadPool pool(1);
    CpuMath<double> math(pool);
    Model<double> model(config, math);
    auto parameters = random_parameters<double>(config);
    const BatchShape shape{2, 5};
    const auto tokens = random_bytes(10, 1);
    const auto targets = random_bytes(10, 2);
    const double scale = 0.1;
    model.loss_and_gradients(parameters, shape, tokens, targets, scale);
    const auto value = [&] { return scale * model.loss(parameters, shape, tokens, targets); };
    const auto shapes = unit_shapes(config);
    for (std::size_t unit = 0; unit < shapes.size(); ++unit) {
        for (std::size_t tensor = 0; tensor < shapes[unit].tensors.size(); ++tensor) {
            INFO(shapes[unit].name << "." << shapes[unit].tensors[tensor].name);
            const Vector gradient = parameters.gradients(unit, tensor);
            CHECK(norm(gradient) > 1e-3);
            CHECK(worst_error(parameters.values(unit, tensor), gradient, value) < kTolerance);
        }
    }
}

TEST_CASE("a later token changes no earlier logit, and changes its own") {
    ThreadPool pool(2);
    CpuMath<double> math(pool);
    Model<double> model(kTiny, math);
    auto parameters = random_parameters<double>(kTiny);
    const BatchShape shape{2, 6};
    auto tokens = random_bytes(12, 1);
    const auto logits_of = [&] {
        const auto logits = model.forward(parameters, shape, tokens);
        return Vector(logits.begin(), logits.end());
    };
    const Vector before = logits_of();
    tokens[3] ^= 1;  // position 3 of the first sequence
    const Vector after = logits_of();
    const auto row_equal = [&](std::size_t row) {
        return std::equal(before.begin() + static_cast<long>(row * 256),
                          before.begin() + static_cast<long>(row * 256 + 256),
                          after.begin() + static_cast<long>(row * 256));
    };
    for (const std::size_t row : {0u, 1u, 2u})
        CHECK(row_equal(row));
    for (const std::size_t row : {3u, 4u, 5u})
        CHECK_FALSE(row_equal(row));
    for (const std::size_t row : {6u, 7u, 8u, 9u, 10u, 11u})
        CHECK(row_equal(row));  // the other sequence
}

TEST_CASE(
    "a pass without gradients gives the loss of one with them, and the last logits those of all") {
    ThreadPool pool(1);
    CpuMath<double> math(pool);
    const ModelConfig config = {.layers = 3, .heads = 2, .width = 8, .context = 6};
    auto parameters = random_parameters<double>(config);
    const BatchShape shape{2, 5};
    const auto tokens = random_bytes(10, 1);
    const auto targets = random_bytes(10, 2);
    Model<double> training(config, math);
    Model<double> evaluating(config, math);
    const double loss = training.loss_and_gradients(parameters, shape, tokens, targets, 1);
    CHECK(evaluating.loss(parameters, shape, tokens, targets) == loss);
    CHECK(training.loss(parameters, shape, tokens, targets) == loss);
    const auto all = evaluating.forward(parameters, {1, 5}, std::span(tokens).first(5));
    const Vector expected(all.end() - 256, all.end());
    const auto last = evaluating.forward_last(parameters, std::span(tokens).first(5));
    CHECK(Vector(last.begin(), last.end()) == expected);
}

TEST_CASE("activations that are computed again give the same bits, and memory is as planned") {
    ThreadPool pool(1);
    const ModelConfig config = {
        .layers = 5, .heads = 2, .width = 8, .context = 6, .vocabulary = 260, .tied_head = true};
    const BatchShape shape{2, 5};
    const auto shapes = unit_shapes(config);
    std::vector<std::size_t> planned;
    const auto gradients_of = [&](int recompute) {
        CpuMath<float> math(pool);
        auto parameters = random_parameters<float>(config);
        Model<float> model(config, math, recompute);
        double loss = 0;
        for (const int batch : {1, 2}) {
            const auto tokens = random_bytes(10, batch), targets = random_bytes(10, batch + 2);
            loss = model.loss_and_gradients(parameters, shape, tokens, targets, 0.1f);
        }
        CHECK(math.allocated() == model.planned_bytes(shape));
        planned.push_back(model.planned_bytes(shape));
        std::vector<float> all = {static_cast<float>(loss)};
        for (std::size_t unit = 0; unit < shapes.size(); ++unit)
            for (std::size_t tensor = 0; tensor < shapes[unit].tensors.size(); ++tensor) {
                const auto& values = parameters.gradients(unit, tensor);
                all.insert(all.end(), values.begin(), values.end());
            }
        return all;
    };
    const auto kept = gradients_of(0);
    for (const int recompute : {1, 2, 3, 5})
        CHECK(gradients_of(recompute) == kept);
    CHECK(planned[1] < planned[2]);
    CHECK(planned[2] < planned[3]);
    CHECK(planned[4] == planned[0]);
}

TEST_CASE("float agrees with double") {
    ThreadPool pool(1);
    CpuMath<double> precise_math(pool);
    CpuMath<float> fast_math(pool);
    Model<double> precise(kTiny, precise_math);
    Model<float> fast(kTiny, fast_math);
    auto precise_parameters = random_parameters<double>(kTiny);
    auto fast_parameters = random_parameters<float>(kTiny);
    const BatchShape shape{3, 6};
    const auto tokens = random_bytes(18, 1);
    const auto targets = random_bytes(18, 2);
    const double precise_loss =
        precise.loss_and_gradients(precise_parameters, shape, tokens, targets, 1);
    const double fast_loss = fast.loss_and_gradients(fast_parameters, shape, tokens, targets, 1);
    CHECK(fast_loss == doctest::Approx(precise_loss).epsilon(1e-5));
    const auto shapes = unit_shapes(kTiny);
    for (std::size_t unit = 0; unit < shapes.size(); ++unit) {
        for (std::size_t tensor = 0; tensor < shapes[unit].tensors.size(); ++tensor) {
            const Vector& expected = precise_parameters.gradients(unit, tensor);
            const auto& got = fast_parameters.gradients(unit, tensor);
            double error = 0;
            for (std::size_t i = 0; i < got.size(); ++i)
                error = std::max(error, std::abs(got[i] - expected[i]));
            INFO(shapes[unit].name << "." << shapes[unit].tensors[tensor].name);
            CHECK(error < 1e-4 * norm(expected));
        }
    }
}

TEST_CASE("the number of threads changes no bit") {
    const ModelConfig config = {.layers = 1, .heads = 4, .width = 64, .context = 32};
    const BatchShape shape{3, 32};
    const auto tokens = random_bytes(96, 1);
    const auto targets = random_bytes(96, 2);
    const auto train = [&](int threads) {
        ThreadPool pool(threads);
        CpuMath<float> math(pool);
        Model<float> model(config, math);
        auto parameters = random_parameters<float>(config);
        model.loss_and_gradients(parameters, shape, tokens, targets, 1);
        std::vector<std::vector<float>> gradients;
        const auto shapes = unit_shapes(config);
        for (std::size_t unit = 0; unit < shapes.size(); ++unit) {
            for (std::size_t tensor = 0; tensor < shapes[unit].tensors.size(); ++tensor) {
                gradients.push_back(parameters.gradients(unit, tensor));
            }
        }
        return gradients;
    };
    const auto expected = train(1);
    CHECK(train(3) == expected);
    CHECK(train(4) == expected);
}

TEST_CASE("a sequence beyond the context and heads that do not divide the width are refused") {
    ThreadPool pool(1);
    CpuMath<float> math(pool);
    Model<float> model(kTiny, math);
    auto parameters = random_parameters<float>(kTiny);
    CHECK_THROWS_AS(model.forward(parameters, {1, 7}, random_bytes(7, 1)), std::invalid_argument);
    CHECK_THROWS_AS(Model<float>({.layers = 1, .heads = 3, .width = 8, .context = 4}, math),
                    std::invalid_argument);
    CHECK_THROWS_AS(
        Model<float>({.layers = 1, .heads = 1, .width = 8, .context = 4, .vocabulary = 255}, math),
        std::invalid_argument);
}

}  // namespace gpt_gradient_test
