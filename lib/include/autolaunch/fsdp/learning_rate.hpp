#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/export.hpp>

#include <cstdint>
#include <functional>
#include <vector>

namespace autolaunch::fsdp {

/// The learning rate of a step, counted from 1. Pure and stateless: a run that resumes at step n
/// goes on as if it had never stopped. Give it to a step as StepOptions::lr:
///     const auto lr = schedule::warm_up(100, schedule::cosine(3e-4, 3e-5, 4900));
///     optimizer.step({.lr = lr(step)});
using LearningRate = std::function<double(std::int64_t step)>;

/// What follows is put together from parts, each of which counts its steps from 1. A part over
/// `steps` steps has reached its end at step `steps`, and stays there. Throws
/// Error{invalid_argument} for negative numbers.
namespace schedule {

AUTOLAUNCH_API LearningRate constant(double lr);
/// Straight from one rate, that of a step 0, to another (torch's LinearLR).
AUTOLAUNCH_API LearningRate linear(double from, double to, std::int64_t steps);
/// Half a cosine: to + (from - to) (1 + cos(pi · step / steps)) / 2 (Loshchilov & Hutter, "SGDR",
/// equation 5, without restarts; torch's CosineAnnealingLR).
AUTOLAUNCH_API LearningRate cosine(double from, double to, std::int64_t steps);
/// to + (from - to) (1 - sqrt(step / steps)): the cool-down that Hägele et al., "Scaling Laws and
/// Compute-Optimal Training Beyond Fixed Training Durations" (2024), found best.
AUTOLAUNCH_API LearningRate one_minus_sqrt(double from, double to, std::int64_t steps);
/// lr · gamma^k, where k grows by one after every `every` steps (torch's StepLR).
AUTOLAUNCH_API LearningRate step_decay(double lr, double gamma, std::int64_t every);

/// A schedule for so many steps.
struct Part {
    LearningRate rate;
    std::int64_t steps = 0;
};
/// One part after the other, and then `last`, each counting from 1 (torch's SequentialLR).
AUTOLAUNCH_API LearningRate sequence(std::vector<Part> parts, LearningRate last);
/// Linear from 0 to what `after` starts with, over `steps` steps; then `after`. (Goyal et al.,
/// "Accurate, Large Minibatch SGD", section 2.2.) What it starts with is after(0).
AUTOLAUNCH_API LearningRate warm_up(std::int64_t steps, LearningRate after);

/// Warm-up, stable, decay (Hu et al., "MiniCPM", 2024, section 4): linear from 0 to lr, constant,
/// then down to min_lr, where it stays.
struct WarmUpStableDecay {
    double lr = 0;
    double min_lr = 0;
    std::int64_t warm_up_steps = 0;
    std::int64_t stable_steps = 0;
    std::int64_t decay_steps = 0;
    /// cosine, linear or one_minus_sqrt.
    LearningRate (*decay)(double from, double to, std::int64_t steps) = one_minus_sqrt;
};
AUTOLAUNCH_API LearningRate warm_up_stable_decay(const WarmUpStableDecay& shape);

}  // namespace schedule
}  // namespace autolaunch::fsdp
