#include <autolaunch/fsdp/optimizer.hpp>

#include "base/hash.hpp"
#include "fsdp/optimizer/optimizer_impl.hpp"
#include "fsdp/state_mirror.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

namespace autolaunch::fsdp {

namespace {

std::uint64_t hash_of(const std::string& name, double lr, const UpdateOptions& options) {
    std::string bytes = name;
    const auto add = [&](const auto& value) {
        bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    const auto add_all = [&](std::initializer_list<std::optional<double>> values) {
        for (const auto& value : values)
            add(value.value_or(std::numeric_limits<double>::infinity()));
    };
    const ParameterSettings& all = options.defaults;
    add_all({lr, all.lr_scale, all.weight_decay, all.beta1, all.beta2, all.eps, all.momentum});
    for (const ParameterGroup& group : options.groups) {
        bytes += group.pattern;
        add_all({group.lr_scale, group.weight_decay, group.beta1, group.beta2, group.eps,
                 group.momentum});
    }
    add(options.rounding_seed);
    return hash64(bytes.data(), bytes.size());
}

std::size_t state_bytes_of(OptimizedModel& model, const Algorithm& algorithm) {
    std::size_t elements = 0;
    for (const OptimizerShard* shard : model.optimizer_shards())
        elements += shard->elements;
    return elements * algorithm.states().size() * sizeof(float);
}

}  // namespace

std::unique_ptr<Optimizer::Impl> Optimizer::Impl::make(ShardedModel& model,
                                                       std::unique_ptr<Algorithm> algorithm,
                                                       double lr, const UpdateOptions& options) {
    const std::string name(algorithm->name());
    if (model.units().empty())
        throw Error(ErrorCode::invalid_argument, name + " needs a model with units");
    require_option(lr >= 0 && std::isfinite(lr), name, "lr is negative or not finite");
    require_option(options.defaults.weight_decay >= 0, name, "weight_decay is negative");
    require_option(options.threads >= 0, name, "threads is negative");
    OptimizedModel& shards = optimized(model);
    shards.require_finalized(name.c_str());
    if (shards.optimizer_shards().empty())
        throw Error(ErrorCode::invalid_argument, name + ": every parameter of the model is frozen",
                    "leave ParameterSpec::trainable true for what is to be trained");
    return std::make_unique<Impl>(shards, std::move(algorithm), lr, options);
}

Optimizer::Impl::Impl(OptimizedModel& given, std::unique_ptr<Algorithm> algorithm,
                      double learning_rate, const UpdateOptions& options)
    : lr(learning_rate),
      model(given),
      state_bytes_(state_bytes_of(given, *algorithm)),
      counted_(given.optimizer_bytes()),
      name_(algorithm->name()),
      settings_(hash_of(name_, lr, options)) {
    passes = UpdatePasses::make(given, std::move(algorithm), options);
    *counted_ += state_bytes_;
}

Optimizer::Impl::~Impl() { *counted_ -= state_bytes_; }

// Where they differ copies of the model would drift apart, each with a plausible loss.
void Optimizer::Impl::require_equal_settings() {
    if (!settings_)
        return;
    model.require_equal(
        *std::exchange(settings_, std::nullopt), "the ranks do not have the same " + name_,
        "every rank must have the same optimizer, with the same lr, settings, groups and "
        "rounding_seed");
}

void Optimizer::Impl::require_valid(const StepOptions& options) const {
    const auto require = [](bool holds, const char* what, const char* hint = "") {
        if (!holds)
            throw Error(ErrorCode::invalid_argument, what, hint);
    };
    require(options.micro_batches >= 1, "micro_batches is not positive");
    require(options.loss_scale > 0 && std::isfinite(options.loss_scale),
            "loss_scale is not positive and finite");
    require(!options.lr || (*options.lr >= 0 && std::isfinite(*options.lr)),
            "lr is negative or not finite");
    require(!options.max_grad_norm || *options.max_grad_norm >= 0,
            "max_grad_norm is negative or a NaN", "leave it out to clip nothing");
    require(options.measure_norm || options.on_nonfinite == NonFinite::apply,
            "measure_norm is false, but the norm is needed to see what is not finite",
            "pass NonFinite::apply; a GradScaler needs the norm");
}

StepResult Optimizer::Impl::step(const StepOptions& options) {
    require_valid(options);
    model.begin_step();
    require_equal_settings();
    StepPlan plan;
    plan.step = steps + 1;
    plan.lr = options.lr.value_or(lr);
    plan.average = 1.0 / (static_cast<double>(model.world().size()) * options.micro_batches *
                          options.loss_scale);
    plan.max_grad_norm = options.max_grad_norm;
    plan.returns_norm = options.measure_norm;
    plan.needs_finite = options.on_nonfinite != NonFinite::apply;
    StepResult result;
    result.grad_norm = passes->run(plan);
    model.check_calls();  // on a GPU the norm came, but so it does when a reduction was aborted
    result.skipped = plan.needs_finite && !std::isfinite(result.grad_norm);
    if (result.skipped && options.on_nonfinite == NonFinite::error)
        refuse_non_finite();
    if (!result.skipped)
        ++steps;
    model.end_step();
    return result;
}

void Optimizer::Impl::refuse_non_finite() {
    try {
        model.require_finite_contributions();  // names the rank that made it, where ranks look
        name_non_finite();
    } catch (...) {
        model.end_step();  // the gradients are of no use; training can go on after the exception
        throw;
    }
}

void Optimizer::Impl::name_non_finite() {
    Communicator& world = model.world();
    const auto found = passes->find_non_finite();
    const int lowest =
        world.all_reduce_value<std::int32_t>(found ? world.rank() : world.size(), ReduceOp::min);
    std::array<double, 4> place{};
    if (found)
        place = {static_cast<double>(found->shard), static_cast<double>(found->tensor),
                 static_cast<double>(found->element), found->value};
    world.broadcast(place.data(), place.size(), DataType::f64, lowest).wait();
    const OptimizerShard& shard = *passes->shards()[static_cast<std::size_t>(place[0])];
    const std::string value = std::isnan(place[3]) ? "NaN"
                              : place[3] > 0       ? "infinite"
                                                   : "-infinite";
    throw Error(ErrorCode::invalid_argument,
                "the gradient of " + shard.tensors[static_cast<std::size_t>(place[1])].name +
                    " (unit " + shard.name + ") is " + value + " at element " +
                    std::to_string(static_cast<std::int64_t>(place[2])) +
                    ", in the shard of rank " + std::to_string(lowest) + ", after step " +
                    std::to_string(steps),
                "parameters are as before the step; scale the loss of f16 with GradScaler, lower "
                "the learning rate, or "
                "pass NonFinite::skip");
}

Optimizer::Optimizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Optimizer::Optimizer(Optimizer&&) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&&) noexcept = default;
Optimizer::~Optimizer() = default;

StepResult Optimizer::step(const StepOptions& options, Stream stream) {
    impl_->model.use_stream(stream);
    return impl_->step(options);
}

std::int64_t Optimizer::step_count() const noexcept { return impl_->steps; }

void Optimizer::set_step_count(std::int64_t steps) {
    if (steps < 0)
        throw Error(ErrorCode::invalid_argument, "set_step_count(): the count is negative");
    impl_->passes->take_over_state();
    impl_->steps = steps;
}

int Optimizer::threads() const noexcept { return impl_->passes->threads(); }

State Optimizer::state() & {
    State state = state_to_save();
    settle(state);
    return state;
}

State Optimizer::state_to_save() & {
    impl_->model.calls()->check();
    State state;
    impl_->passes->append_state(state);
    return state;
}

}  // namespace autolaunch::fsdp
