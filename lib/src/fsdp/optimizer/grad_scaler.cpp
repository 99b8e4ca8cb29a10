#include <autolaunch/fsdp/grad_scaler.hpp>

#include <autolaunch/error.hpp>

#include <cmath>
#include <string>

namespace autolaunch::fsdp {

namespace {

void require_scaling(bool holds, const char* what) {
    if (!holds)
        throw Error(ErrorCode::invalid_argument, std::string("GradScaler: ") + what);
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options) {
    require_scaling(options.growth_factor > 1, "growth_factor is not above 1");
    require_scaling(options.backoff_factor > 0 && options.backoff_factor < 1,
                    "backoff_factor is not between 0 and 1");
    require_scaling(options.growth_interval >= 1, "growth_interval is not positive");
    load({.scale = options.initial_scale});
}

StepResult GradScaler::step(Optimizer& optimizer, StepOptions options, Stream stream) {
    options.loss_scale = state_.scale;
    options.on_nonfinite = NonFinite::skip;
    const StepResult result = optimizer.step(options, stream);
    update(result.skipped);
    return result;
}

void GradScaler::update(bool overflowed) noexcept {
    if (overflowed) {
        state_.scale *= options_.backoff_factor;
        state_.growth_tracker = 0;
        ++state_.skipped_steps;
        return;
    }
    if (++state_.growth_tracker < options_.growth_interval)
        return;
    state_.growth_tracker = 0;
    // torch holds the scale in f32, and lets it grow only while it stays finite there.
    if (std::isfinite(static_cast<float>(state_.scale * options_.growth_factor)))
        state_.scale *= options_.growth_factor;
}

void GradScaler::load(const GradScalerState& state) {
    require_scaling(state.scale > 0 && std::isfinite(state.scale),
                    "the scale is not positive and finite");
    state_ = state;
}

}  // namespace autolaunch::fsdp
