#include <autolaunch/fsdp/learning_rate.hpp>

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace autolaunch::fsdp::schedule {

namespace {

void require_schedule(bool holds, const char* what) {
    if (!holds)
        throw Error(ErrorCode::invalid_argument, std::string("learning rate: ") + what);
}

/// How far `step` is on the way, from 0 to 1; a way of no steps is over at once.
double progress(std::int64_t step, std::int64_t steps) {
    if (step >= steps)
        return 1;
    return static_cast<double>(std::max<std::int64_t>(step, 0)) / static_cast<double>(steps);
}

void require_way(double from, double to, std::int64_t steps) {
    require_schedule(from >= 0 && to >= 0, "a rate is negative");
    require_schedule(steps >= 0, "a number of steps is negative");
}

}  // namespace

LearningRate constant(double lr) {
    require_schedule(lr >= 0, "a rate is negative");
    return [lr](std::int64_t) { return lr; };
}

LearningRate linear(double from, double to, std::int64_t steps) {
    require_way(from, to, steps);
    return [=](std::int64_t step) { return from + (to - from) * progress(step, steps); };
}

LearningRate cosine(double from, double to, std::int64_t steps) {
    require_way(from, to, steps);
    return [=](std::int64_t step) {
        return to + (from - to) * (0.5 * (1 + std::cos(std::numbers::pi * progress(step, steps))));
    };
}

LearningRate one_minus_sqrt(double from, double to, std::int64_t steps) {
    require_way(from, to, steps);
    return [=](std::int64_t step) {
        return to + (from - to) * (1 - std::sqrt(progress(step, steps)));
    };
}

LearningRate step_decay(double lr, double gamma, std::int64_t every) {
    require_schedule(lr >= 0 && gamma >= 0, "a rate is negative");
    require_schedule(every >= 1, "a number of steps is not positive");
    return [=](std::int64_t step) {
        const std::int64_t decays = std::max<std::int64_t>(step - 1, 0) / every;
        return lr * std::pow(gamma, static_cast<double>(decays));
    };
}

LearningRate sequence(std::vector<Part> parts, LearningRate last) {
    for (const Part& part : parts) {
        require_schedule(part.steps >= 0, "a number of steps is negative");
        require_schedule(static_cast<bool>(part.rate), "a part has no rate");
    }
    require_schedule(static_cast<bool>(last), "a part has no rate");
    return [parts = std::move(parts), last = std::move(last)](std::int64_t step) {
        for (const Part& part : parts) {
            if (step <= part.steps)
                return part.rate(step);
            step -= part.steps;
        }
        return last(step);
    };
}

LearningRate warm_up(std::int64_t steps, LearningRate after) {
    require_schedule(static_cast<bool>(after), "a part has no rate");
    LearningRate rise = linear(0, after(0), steps);
    return sequence({{std::move(rise), steps}}, std::move(after));
}

LearningRate warm_up_stable_decay(const WarmUpStableDecay& shape) {
    return sequence({{linear(0, shape.lr, shape.warm_up_steps), shape.warm_up_steps},
                     {constant(shape.lr), shape.stable_steps}},
                    shape.decay(shape.lr, shape.min_lr, shape.decay_steps));
}

}  // namespace autolaunch::fsdp::schedule
