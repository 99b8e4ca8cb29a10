#include "fsdp/adamw_kernel.hpp"
#include "fsdp/engine.hpp"

#include <autolaunch/error.hpp>

#include <cstring>
#include <utility>

namespace autolaunch::fsdp {

Unit::Impl::Impl(Engine& engine, std::size_t index, std::string name, std::vector<ParameterSpec> parameters)
    : engine_(engine), index_(index), name_(std::move(name)), layout_(parameters, engine.shard_count()) {}

void Unit::Impl::allocate() {
    const std::size_t bytes = shard_elements() * sizeof(float);
    parameters_ = AlignedBuffer(bytes);
    gradients_ = AlignedBuffer(bytes);
    std::memset(parameters_.data(), 0, bytes);
    std::memset(gradients_.data(), 0, bytes);
    describe_shard();
}

void Unit::Impl::describe_shard() {
    shard_.name = name_;
    shard_.elements = shard_elements();
    shard_.master = parameters_.data();
    shard_.gradient = gradients_.data();
    for (std::size_t i = 0; i < layout_.placements().size(); ++i) {
        StateTensor tensor;
        tensor.name = full_name(i);
        tensor.shape = layout_.placements()[i].parameter.shape;
        tensor.replicated = layout_.world_size() == 1 && engine_.world.size() > 1;
        shard_.tensors.push_back(std::move(tensor));
    }
    for (const auto& interval : intervals()) {
        shard_.runs.push_back({&layout_.placements()[interval.parameter_index].parameter,
                               full_name(interval.parameter_index), interval.parameter_offset, interval.shard_offset,
                               interval.count});
    }
}

std::vector<ShardLayout::Interval> Unit::Impl::intervals() const { return layout_.intervals(shard_rank()); }

std::string Unit::Impl::full_name(std::size_t parameter_index) const {
    return name_ + "." + layout_.placements()[parameter_index].parameter.name;
}

TensorView Unit::Impl::view(float* arena, std::string_view name) const {
    const auto& placement = layout_.placement(name);
    return {arena + placement.offset, DataType::f32, placement.parameter.shape, placement.parameter.element_count()};
}

TensorView Unit::Impl::parameter(std::string_view name) const {
    return view(layout_.world_size() == 1 ? parameters_.floats() : gathered_.floats(), name);
}

void Unit::Impl::unshard() {
    engine_.require_finalized("unshard()");
    if (scopes_ == 0) {
        engine_.observe({UnitAction::gather, index_});
        if (layout_.world_size() > 1) {
            AlignedBuffer arena = engine_.pool.take();
            const ScopedLabel label(engine_.world, name_, "parameters");
            engine_.world.all_gather(parameters_.floats(), arena.floats(), shard_elements(), DataType::f32).wait();
            gathered_ = std::move(arena);
        }
        ++engine_.unsharded_units;
    }
    ++scopes_;
}

void Unit::Impl::reshard() noexcept {
    if (--scopes_ > 0) return;
    --engine_.unsharded_units;
    if (gathered_) engine_.pool.give_back(std::exchange(gathered_, {}));
}

TensorView Unit::Impl::grad(std::string_view name) {
    engine_.require_finalized("grad()");
    if (engine_.evaluation_depth > 0)
        throw Error(ErrorCode::invalid_argument, "gradients were asked for inside model.evaluation()");
    const auto& placement = layout_.placement(name);  // a wrong name must not allocate
    if (!whole_gradient_) {
        whole_gradient_ = engine_.pool.take();
        std::memset(whole_gradient_.data(), 0, static_cast<std::size_t>(layout_.arena_elements()) * sizeof(float));
    }
    return view(whole_gradient_.floats(), placement.parameter.name);
}

void Unit::Impl::reduce_grads() {
    engine_.require_finalized("reduce_grads()");
    if (engine_.evaluation_depth > 0)
        throw Error(ErrorCode::invalid_argument, "reduce_grads() was called inside model.evaluation()");
    engine_.observe({UnitAction::reduce, index_});
    if (!whole_gradient_) grad(layout_.placements().front().parameter.name);  // nothing was added: zeros
    sum_over_ranks(whole_gradient_.floats());
    shard_.has_gradient = true;
    engine_.pool.give_back(std::exchange(whole_gradient_, {}));
}

// The first sum since the optimizer's step goes straight to the gradient shard; later ones are made in place and added.
void Unit::Impl::sum_over_ranks(float* whole) {
    const std::size_t count = shard_elements();
    const bool replicated = engine_.options.strategy == ShardingStrategy::no_shard;
    float* summed = shard_.has_gradient ? whole + static_cast<std::size_t>(shard_rank()) * count : gradients_.floats();
    const ScopedLabel label(engine_.world, name_, "gradients");
    if (replicated) {
        engine_.world.all_reduce(whole, summed, count, DataType::f32, ReduceOp::sum).wait();
    } else {
        engine_.world.reduce_scatter(whole, summed, count, DataType::f32, ReduceOp::sum).wait();
    }
    if (shard_.has_gradient) add_to(gradients_.floats(), summed, count);
}

Unit::Unit(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Unit::~Unit() = default;
const std::string& Unit::name() const noexcept { return impl_->name(); }
const ShardLayout& Unit::layout() const noexcept { return impl_->layout(); }

UnshardedParameters Unit::unshard(Stream stream) {
    require_cpu(stream);
    impl_->unshard();
    return UnshardedParameters(this);
}

TensorView Unit::grad(std::string_view name) { return impl_->grad(name); }

void Unit::reduce_grads(Stream stream) {
    require_cpu(stream);
    impl_->reduce_grads();
}

UnshardedParameters::UnshardedParameters(UnshardedParameters&& other) noexcept
    : unit_(std::exchange(other.unit_, nullptr)) {}

UnshardedParameters& UnshardedParameters::operator=(UnshardedParameters&& other) noexcept {
    if (this != &other) {
        if (unit_) unit_->impl().reshard();
        unit_ = std::exchange(other.unit_, nullptr);
    }
    return *this;
}

UnshardedParameters::~UnshardedParameters() {
    if (unit_) unit_->impl().reshard();
}

TensorView UnshardedParameters::operator[](std::string_view name) const {
    if (!unit_) throw Error(ErrorCode::invalid_argument, "these unsharded parameters were moved from");
    return unit_->impl().parameter(name);
}

}  // namespace autolaunch::fsdp
