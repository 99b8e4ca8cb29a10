#include <autolaunch/fsdp/optimizer.hpp>

#include "fsdp/optimizer/optimizer_impl.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace autolaunch::fsdp {

std::unique_ptr<Optimizer::Impl> Optimizer::Impl::make(ShardedModel& model, std::unique_ptr<Algorithm> algorithm,
                                                       double lr, const UpdateOptions& options) {
    const std::string name(algorithm->name());
    if (model.units().empty()) throw Error(ErrorCode::invalid_argument, name + " needs a model with units");
    require_option(lr >= 0, name, "lr is negative");
    require_option(options.defaults.weight_decay >= 0, name, "weight_decay is negative");
    require_option(options.threads >= 0, name, "threads is negative");
    Engine& engine = model.units().front()->impl().engine();
    engine.require_finalized(name.c_str());
    return std::make_unique<Impl>(engine, std::move(algorithm), lr, options);
}

Optimizer::Impl::Impl(Engine& given, std::unique_ptr<Algorithm> algorithm, double learning_rate,
                      const UpdateOptions& options)
    : lr(learning_rate), engine(given), updates(engine.optimizer_shards(), std::move(algorithm), options) {}

void Optimizer::Impl::require_valid(const StepOptions& options) const {
    const auto require = [](bool holds, const char* what, const char* hint = "") {
        if (!holds) throw Error(ErrorCode::invalid_argument, what, hint);
    };
    require(options.micro_batches >= 1, "micro_batches is not positive");
    require(options.loss_scale > 0 && std::isfinite(options.loss_scale), "loss_scale is not positive");
    require(options.measure_norm || (!options.max_grad_norm && options.on_nonfinite == NonFinite::apply),
            "measure_norm is false, but the norm is needed", "without it pass no max_grad_norm, and NonFinite::apply");
}

double Optimizer::Impl::gradient_norm() {
    auto words = updates.sum_of_squares().words();
    engine.sum_over_shards(std::span<double>(words), "gradient norm");
    return std::sqrt(ExactSum::from_words(words).value());
}

StepResult Optimizer::Impl::step(const StepOptions& options) {
    require_valid(options);
    engine.begin_step();
    const double average =
        1.0 / (static_cast<double>(engine.world.size()) * options.micro_batches * options.loss_scale);
    StepResult result;
    if (options.measure_norm) result.grad_norm = gradient_norm() * average;
    if (!std::isfinite(result.grad_norm) && options.on_nonfinite != NonFinite::apply) {
        if (options.on_nonfinite == NonFinite::error) refuse_non_finite();
        engine.end_step();
        result.skipped = true;
        return result;
    }
    double clip = 1.0;
    if (options.max_grad_norm) clip = std::min(1.0, *options.max_grad_norm / (result.grad_norm + 1e-6));
    if (std::isnan(result.grad_norm) && options.max_grad_norm) clip = result.grad_norm;  // as torch: not hidden
    ++steps;
    updates.update({steps, options.lr.value_or(lr), average * clip});
    engine.end_step();
    return result;
}

void Optimizer::Impl::refuse_non_finite() {
    try {
        engine.require_finite_contributions();  // names the rank that made it, where ranks look
        name_non_finite();
    } catch (...) {
        engine.end_step();  // the gradients are of no use; training can go on after the exception
        throw;
    }
}

void Optimizer::Impl::name_non_finite() {
    Communicator& world = engine.world;
    const auto found = updates.find_non_finite();
    const int lowest = world.all_reduce_value<std::int32_t>(found ? world.rank() : world.size(), ReduceOp::min);
    std::array<double, 4> place{};
    if (found)
        place = {static_cast<double>(found->shard), static_cast<double>(found->tensor),
                 static_cast<double>(found->element), found->value};
    world.broadcast(place.data(), place.size(), DataType::f64, lowest).wait();
    const OptimizerShard& shard = *updates.shards()[static_cast<std::size_t>(place[0])];
    const std::string value = std::isnan(place[3]) ? "NaN" : place[3] > 0 ? "infinite" : "-infinite";
    throw Error(ErrorCode::invalid_argument,
                "the gradient of " + shard.tensors[static_cast<std::size_t>(place[1])].name + " (unit " + shard.name +
                    ") is " + value + " at element " + std::to_string(static_cast<std::int64_t>(place[2])) +
                    ", in the shard of rank " + std::to_string(lowest) + ", after step " + std::to_string(steps),
                "parameters are as before the step; scale the loss of f16 with GradScaler, lower the learning rate, or "
                "pass NonFinite::skip");
}

Optimizer::Optimizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Optimizer::Optimizer(Optimizer&&) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&&) noexcept = default;
Optimizer::~Optimizer() = default;

StepResult Optimizer::step(const StepOptions& options, Stream stream) {
    require_cpu(stream);
    return impl_->step(options);
}

std::int64_t Optimizer::step_count() const noexcept { return impl_->steps; }

void Optimizer::set_step_count(std::int64_t steps) noexcept {
    impl_->steps = steps;
    impl_->updates.set_written(steps > 0);
}

int Optimizer::threads() const noexcept { return impl_->updates.threads(); }

State Optimizer::state() {
    State state;
    impl_->updates.append_state(state);
    return state;
}

}  // namespace autolaunch::fsdp
