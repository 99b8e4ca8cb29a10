#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/export.hpp>
#include <autolaunch/fsdp/optimizer.hpp>

#include <cstdint>

namespace autolaunch::fsdp {

/// torch.amp.GradScaler's, with its defaults.
struct GradScalerOptions {
    double initial_scale = 65536;
    double growth_factor = 2;
    double backoff_factor = 0.5;
    std::int64_t growth_interval = 2000;  ///< steps without an overflow after which the scale grows
};

/// What a checkpoint needs of it: put it into SaveOptions::extra.
struct GradScalerState {
    double scale = 65536;
    std::int64_t growth_tracker = 0;  ///< steps since the last overflow or growth
    std::int64_t skipped_steps = 0;   ///< since the start
};

/// Keeps gradients in f16's range: the loss is multiplied with scale(), the optimizer divides by it
/// again in f32, in the pass that updates. A step whose gradients overflowed is skipped and halves
/// the scale; growth_interval steps without an overflow double it. As torch.amp.GradScaler does
/// (Micikevicius et al., "Mixed Precision Training", section 3.2). Every rank sees the norm of the
/// whole model, so all skip the same steps without a word more.
///     const float loss = forward() * scaler.scale(); backward();
///     const StepResult result = scaler.step(optimizer, {.max_grad_norm = 1.0});
/// A checkpoint's step is the trainer's; the optimizer has counted skipped_steps fewer. After
/// loading:
///     scaler.load(state); optimizer.set_step_count(checkpoint.step - state.skipped_steps);
///
/// Owner: the trainer. Threads: one. Blocks: as the optimizer's step.
class AUTOLAUNCH_API GradScaler {
public:
    /// Throws Error{invalid_argument} for options that make no sense.
    explicit GradScaler(const GradScalerOptions& options = {});

    double scale() const noexcept { return state_.scale; }
    /// optimizer.step() with this scale and NonFinite::skip, then update().
    StepResult step(Optimizer& optimizer, StepOptions options = {}, Stream stream = {});
    /// What one step does to the scale.
    void update(bool overflowed) noexcept;

    GradScalerState state() const noexcept { return state_; }
    /// Throws Error{invalid_argument} when the scale is not positive and finite.
    void load(const GradScalerState& state);

private:
    GradScalerOptions options_;
    GradScalerState state_;
};

}  // namespace autolaunch::fsdp
