// Learning-rate schedules and the loss scale: pure numbers.
#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/grad_scaler.hpp>
#include <autolaunch/fsdp/learning_rate.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace learning_rate_test {

using namespace autolaunch;
using namespace autolaunch::fsdp;
using doctest::Approx;

TEST_CASE("linear, cosine and one minus the root reach their end, and stay") {
    for (const auto make : {schedule::linear, schedule::cosine, schedule::one_minus_sqrt}) {
        const LearningRate lr = make(1.0, 0.2, 100);
        CHECK(lr(0) == 1.0);
        CHECK(lr(100) == Approx(0.2));
        CHECK(lr(5000) == Approx(0.2));
        for (std::int64_t step = 1; step <= 100; ++step)
            CHECK(lr(step) < lr(step - 1));
    }
    CHECK(schedule::linear(1.0, 0.2, 100)(25) == Approx(0.8));
    CHECK(schedule::cosine(1.0, 0.2, 100)(50) == Approx(0.6));
    CHECK(schedule::cosine(1.0, 0.0, 100)(25) == Approx(0.5 * (1 + std::sqrt(0.5))));
    CHECK(schedule::one_minus_sqrt(1.0, 0.2, 100)(25) == Approx(0.6));
    CHECK(schedule::linear(0.0, 0.3, 0)(1) == 0.3);
}

TEST_CASE("constant, and steps as torch's StepLR") {
    CHECK(schedule::constant(0.5)(1) == 0.5);
    CHECK(schedule::constant(0.5)(1'000'000) == 0.5);
    const LearningRate lr =
        schedule::step_decay(0.05, 0.1, 30);  // the example of torch's documentation
    CHECK(lr(1) == Approx(0.05));
    CHECK(lr(30) == Approx(0.05));
    CHECK(lr(31) == Approx(0.005));
    CHECK(lr(60) == Approx(0.005));
    CHECK(lr(61) == Approx(0.0005));
}

TEST_CASE("a warm-up rises to where the schedule after it starts") {
    const LearningRate lr = schedule::warm_up(10, schedule::cosine(1.0, 0.2, 100));
    CHECK(lr(1) == Approx(0.1));
    CHECK(lr(10) == 1.0);
    CHECK(lr(60) == Approx(0.6));
    CHECK(lr(110) == Approx(0.2));
    CHECK(lr(500) == Approx(0.2));
    CHECK(schedule::warm_up(0, schedule::constant(0.7))(1) == 0.7);
}

TEST_CASE("warm-up, stable, decay") {
    const LearningRate lr = schedule::warm_up_stable_decay({.lr = 1.0,
                                                            .min_lr = 0.1,
                                                            .warm_up_steps = 10,
                                                            .stable_steps = 70,
                                                            .decay_steps = 20,
                                                            .decay = schedule::linear});
    CHECK(lr(5) == Approx(0.5));
    for (const std::int64_t step : {10, 11, 50, 80})
        CHECK(lr(step) == 1.0);
    CHECK(lr(90) == Approx(0.55));
    CHECK(lr(100) == Approx(0.1));
    CHECK(lr(101) == Approx(0.1));
    const LearningRate root = schedule::warm_up_stable_decay(
        {.lr = 1.0, .warm_up_steps = 0, .stable_steps = 10, .decay_steps = 16});
    CHECK(root(1) == 1.0);
    CHECK(root(14) == Approx(0.5));
}

TEST_CASE("parts follow one another, each counting from 1") {
    const LearningRate lr = schedule::sequence({{schedule::constant(3.0), 2},
                                                {schedule::linear(2.0, 1.0, 4), 4},
                                                {schedule::constant(9.0), 0}},
                                               schedule::step_decay(0.5, 0.5, 1));
    const std::vector<double> expected = {3, 3, 1.75, 1.5, 1.25, 1, 0.5, 0.25};
    for (std::size_t i = 0; i < expected.size(); ++i)
        CHECK(lr(static_cast<std::int64_t>(i) + 1) == expected[i]);
}

TEST_CASE("schedules of negative numbers are refused") {
    CHECK_THROWS_AS(schedule::constant(-1), Error);
    CHECK_THROWS_AS(schedule::linear(1, -1, 5), Error);
    CHECK_THROWS_AS(schedule::cosine(1, 0, -5), Error);
    CHECK_THROWS_AS(schedule::step_decay(1, 0.5, 0), Error);
    CHECK_THROWS_AS(schedule::sequence({{{}, 3}}, schedule::constant(1)), Error);
    CHECK_THROWS_AS(schedule::warm_up(3, {}), Error);
}

TEST_CASE("the loss scale halves on overflow and doubles after the interval, as torch's") {
    GradScaler scaler({.initial_scale = 1024, .growth_interval = 3});
    const auto scale_after = [&](bool overflowed) {
        scaler.update(overflowed);
        return scaler.scale();
    };
    CHECK(scale_after(false) == 1024);
    CHECK(scale_after(false) == 1024);
    CHECK(scale_after(false) == 2048);
    CHECK(scale_after(false) == 2048);
    CHECK(scale_after(true) == 1024);  // and the interval begins anew
    CHECK(scale_after(true) == 512);
    CHECK(scale_after(false) == 512);
    CHECK(scale_after(false) == 512);
    CHECK(scaler.state().growth_tracker == 2);
    CHECK(scaler.state().skipped_steps == 2);

    GradScaler resumed({.initial_scale = 8, .growth_interval = 3});
    resumed.load(scaler.state());
    resumed.update(false);
    CHECK(resumed.scale() == 1024);
}

TEST_CASE("the loss scale stays finite") {
    GradScaler scaler({.initial_scale = 0x1p126, .growth_interval = 1});
    scaler.update(false);
    scaler.update(false);
    scaler.update(false);
    CHECK(scaler.scale() == 0x1p127);
    CHECK_THROWS_AS(scaler.load({.scale = std::numeric_limits<double>::infinity()}), Error);
    CHECK_THROWS_AS(GradScaler({.growth_factor = 1}), Error);
    CHECK_THROWS_AS(GradScaler({.backoff_factor = 1}), Error);
    CHECK_THROWS_AS(GradScaler({.initial_scale = 0}), Error);
    CHECK_THROWS_AS(GradScaler({.growth_interval = 0}), Error);
}

}  // namespace learning_rate_test
