#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/borrowed.hpp>
#include <autolaunch/export.hpp>
#include <autolaunch/fsdp/sharded_model.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::fsdp {

/// Parameters that an optimizer treats in their own way. Of several groups that a parameter is in,
/// the first counts. What a group leaves out is as the optimizer's options say; what the optimizer
/// has no use for (betas of SGD) throws.
struct ParameterGroup {
    /// Of full names: "h.*.ln?.*"; * stands for any text, ? for one character.
    std::string pattern = {};
    /// Instead of a pattern; the name is the full one.
    std::function<bool(const ParameterSpec&)> matches = {};
    double lr_scale = 1;  ///< times the step's learning rate
    std::optional<double> weight_decay = {};
    std::optional<double> beta1 = {}, beta2 = {}, eps = {}, momentum = {};
};

/// What a step does when a gradient is infinite or NaN.
enum class NonFinite {
    /// Throws Error{invalid_argument} on every rank, naming parameter, element and the rank that
    /// made it; where ranks
    /// do not look (ShardedModelOptions::find_nonfinite) or only the sum overflowed, the rank in
    /// whose shard it lies.
    error,
    skip,   ///< leaves the parameters alone and says so in the result
    apply,  ///< updates all the same, as torch does
};

struct StepOptions {
    std::optional<double> lr =
        {};  ///< this step's learning rate, for schedules (learning_rate.hpp)
    std::optional<double> max_grad_norm = {};  ///< clip the whole model's gradient to this 2-norm
    int micro_batches = 1;  ///< gradients are divided by world size * micro_batches
    double loss_scale = 1;  ///< and by what the loss was multiplied with (grad_scaler.hpp)
    NonFinite on_nonfinite = NonFinite::error;
    /// false: the norm is not returned, and not taken where it is not needed to clip, which saves a
    /// pass over the gradients and an all-reduce. On a GPU step() then waits for nothing. Only with
    /// NonFinite::apply.
    bool measure_norm = true;
};

struct StepResult {
    double grad_norm = 0;  ///< 2-norm of the averaged gradient of the whole model, before clipping;
                           ///< 0: not measured
    bool skipped = false;  ///< by NonFinite::skip
};

/// What all optimizers share. A step, on this rank's shards:
///   1. the 2-norm of the whole model's gradient, exactly summed: the same bits on any number of
///   ranks;
///   2. one factor for all gradients: 1 / (N · micro_batches · loss_scale), times the clip factor
///   of
///      torch.nn.utils.clip_grad_norm_: min(1, max_grad_norm / (norm + 1e-6));
///   3. one pass over each shard that reads gradient, master and state and writes master, state and
///   what ranks gather.
/// Elementwise, so neither the number of ranks and threads nor the kind of CPU changes a bit. State
/// is f32. Masters in bf16 are rounded stochastically: up or down with the probabilities that make
/// the mean exact (Gupta et al., "Deep Learning with Limited Numerical Precision", 2015), by random
/// bits made of the seed, the step, the parameter's name and the element's index. A unit whose
/// gradient was not reduced since the last step keeps its parameters and state.
///
/// On a GPU a step is one launch for all shards, and three small ones for the norm, which stays on
/// the GPU where it is only to clip. Equal bits as on the CPU, but for the payload of NaN in f16.
///
/// Owner: the trainer; the model must outlive it (moving the model is fine). Threads: one; it has
/// some of its own. Blocks: in one all-reduce of a few numbers where the model is sharded, at most
/// the communicator's timeout; on a GPU for the norm, where measure_norm asks for it.
class AUTOLAUNCH_API Optimizer {
public:
    virtual ~Optimizer();

    /// Collective. Zeroes the gradients. No unit may be unsharded. The first step also compares the
    /// order of units across ranks; throws Error{mismatch} on every rank when they differ.
    StepResult step(const StepOptions& options = {}, Stream stream = {});
    /// Steps that were taken; skipped ones do not count.
    std::int64_t step_count() const noexcept;
    void set_step_count(std::int64_t steps);  ///< after loading a checkpoint
    int threads() const noexcept;

    /// The state for a checkpoint: "<parameter>.<torch's name of it>". Of a GPU's memory these are
    /// copies in the CPU's, as of this call; what is written to them counts from set_step_count()
    /// on.
    State state() &;
    State state() && AUTOLAUNCH_NOT_FROM_A_TEMPORARY;
    /// As ShardedModel::state_to_save().
    State state_to_save() &;
    State state_to_save() && AUTOLAUNCH_NOT_FROM_A_TEMPORARY;

protected:
    class Impl;  // private header: lib/src/fsdp/optimizer/optimizer_impl.hpp
    explicit Optimizer(std::unique_ptr<Impl> impl);
    Optimizer(Optimizer&&) noexcept;
    Optimizer& operator=(Optimizer&&) noexcept;

private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace autolaunch::fsdp
