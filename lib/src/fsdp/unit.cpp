#include "base/text.hpp"
#include "fsdp/model_engine.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <utility>

namespace autolaunch::fsdp {

Unit::Impl::Impl(ModelEngine& engine, std::size_t index, std::string name,
                 std::vector<ParameterSpec> parameters, const UnitOptions& options)
    : engine_(engine),
      index_(index),
      name_(std::move(name)),
      parameters_(std::move(parameters)),
      options_(options),
      places_(parameters_.size()) {}

void Unit::Impl::place(Bucket& bucket, std::span<const std::size_t> parameters,
                       std::size_t first_placement) {
    buckets_.push_back(&bucket);
    for (std::size_t i = 0; i < parameters.size(); ++i)
        places_[parameters[i]] = {&bucket,
                                  bucket.layout().placements()[first_placement + i].offset};
}

std::size_t Unit::Impl::index_of(std::string_view name) const {
    for (std::size_t i = 0; i < parameters_.size(); ++i)
        if (parameters_[i].name == name)
            return i;
    std::vector<std::string> names;
    for (const ParameterSpec& parameter : parameters_)
        names.push_back(parameter.name);
    throw Error(ErrorCode::invalid_argument,
                "no parameter of unit " + name_ + " is named " + std::string(name) +
                    nearest_asked(name, names),
                "the parameters are " + join(names, ", "));
}

TensorView Unit::Impl::view(std::byte* arena, DataType type, std::size_t parameter_index) const {
    const auto offset = static_cast<std::size_t>(places_[parameter_index].offset);
    const ParameterSpec& parameter = parameters_[parameter_index];
    return {arena + offset * size_of(type), type, parameter.shape, parameter.element_count()};
}

TensorView Unit::Impl::parameter(std::string_view name) const {
    const std::size_t index = index_of(name);
    const Bucket& bucket = *places_[index].bucket;
    return view(engine_.gatherer().arena(bucket), bucket.param_type(), index);
}

Stream Unit::Impl::unshard(Stream stream) {
    engine_.begin_call("unshard()");
    engine_.use_stream(stream);
    if (scopes_ == 0) {
        engine_.observe({UnitAction::gather, index_});
        for (Bucket* bucket : buckets_)
            engine_.gatherer().open(*bucket);
        engine_.count_unsharded(+1);
        engine_.prefetch();
    }
    ++scopes_;
    for (Bucket* bucket : buckets_)
        engine_.gatherer().wait(*bucket, engine_.stream());
    return engine_.stream();
}

void Unit::Impl::reshard(Stream stream) noexcept {
    for (Bucket* bucket : buckets_)
        engine_.gatherer().read_on(*bucket, stream);
    if (--scopes_ > 0)
        return;
    engine_.count_unsharded(-1);
    for (Bucket* bucket : buckets_)
        engine_.gatherer().close(*bucket);
}

TensorView Unit::Impl::grad(std::string_view name) {
    engine_.begin_call("grad()");
    if (engine_.is_evaluating())
        throw Error(ErrorCode::invalid_argument,
                    "gradients were asked for inside model.evaluation()");
    const std::size_t index = index_of(name);
    if (!parameters_[index].trainable)
        throw Error(ErrorCode::invalid_argument,
                    "parameter " + full_name(index) + " is frozen: it has no gradient",
                    "check ParameterSpec::trainable first");
    engine_.begin_training();
    Bucket& bucket = *places_[index].bucket;
    std::byte* whole = engine_.reducer().whole(bucket, engine_.stream());
    bucket.member(index_).added = true;
    return view(whole, engine_.options().precision.reduce, index);
}

void Unit::Impl::reduce_grads(Stream stream) {
    engine_.begin_call("reduce_grads()");
    engine_.use_stream(stream);
    if (engine_.is_evaluating())
        throw Error(ErrorCode::invalid_argument,
                    "reduce_grads() was called inside model.evaluation()");
    engine_.observe({UnitAction::reduce, index_});
    for (Bucket* bucket : buckets_) {
        if (!bucket->is_trainable())
            continue;
        engine_.reducer().reduce(*bucket, bucket->member(index_), !engine_.reduces_again(*bucket),
                                 engine_.stream());
    }
}

bool Unit::Impl::has_unreduced_gradient() const {
    return std::any_of(buckets_.begin(), buckets_.end(),
                       [&](Bucket* bucket) { return bucket->member(index_).added; });
}

Unit::Unit(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Unit::~Unit() = default;
const std::string& Unit::name() const noexcept { return impl_->name(); }
std::span<const ParameterSpec> Unit::parameters() const noexcept { return impl_->parameters(); }

UnshardedParameters Unit::unshard(Stream stream) {
    return UnshardedParameters(this, impl_->unshard(stream));
}

TensorView Unit::grad(std::string_view name) { return impl_->grad(name); }

void Unit::reduce_grads(Stream stream) { impl_->reduce_grads(stream); }

UnshardedParameters::UnshardedParameters(UnshardedParameters&& other) noexcept
    : unit_(std::exchange(other.unit_, nullptr)), stream_(other.stream_) {}

UnshardedParameters& UnshardedParameters::operator=(UnshardedParameters&& other) noexcept {
    if (this != &other) {
        if (unit_)
            unit_->impl().reshard(stream_);
        unit_ = std::exchange(other.unit_, nullptr);
        stream_ = other.stream_;
    }
    return *this;
}

UnshardedParameters::~UnshardedParameters() {
    if (unit_)
        unit_->impl().reshard(stream_);
}

TensorView UnshardedParameters::operator[](std::string_view name) const& {
    if (!unit_)
        throw Error(ErrorCode::invalid_argument, "these unsharded parameters were moved from");
    return unit_->impl().parameter(name);
}

}  // namespace autolaunch::fsdp
