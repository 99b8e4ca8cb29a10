#include "base/hash.hpp"
#include "base/text.hpp"
#include "fsdp/cast.hpp"
#include "fsdp/model_engine.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/sharded_model.hpp>

#include <algorithm>
#include <set>

namespace autolaunch::fsdp {

class ShardedModel::Impl {
public:
    Impl(Communicator world, const ShardedModelOptions& options)
        : engine(std::move(world), options) {}

    ModelEngine engine;
    std::set<std::string> full_names;
};

namespace {

// Everything that ranks must have alike in one text, so that they can compare it by its hash.
std::uint64_t hash_of_model(const ModelEngine& engine) {
    const ShardedModelOptions& options = engine.options;
    std::string text;
    for (const auto value : {static_cast<std::int64_t>(options.strategy),
                             static_cast<std::int64_t>(options.shard_group), options.merge_below,
                             options.merge_cap, static_cast<std::int64_t>(options.gather_slots),
                             static_cast<std::int64_t>(options.reduce_slots),
                             static_cast<std::int64_t>(options.deterministic)})
        text += std::to_string(value) + ' ';
    const Precision& precision = options.precision;
    for (const DataType type :
         {precision.param, precision.reduce, precision.accumulate, precision.master})
        text += std::string(name_of(type)) + ' ';
    for (const auto& unit : engine.units) {
        text += '\n' + unit->name() + (unit->impl().options().reshard_after_forward ? "" : " kept");
        for (const ParameterSpec& parameter : unit->parameters()) {
            text += '\t' + parameter.name + (parameter.trainable ? "" : " frozen");
            for (const auto extent : parameter.shape)
                text += ' ' + std::to_string(extent);
        }
    }
    return hash64(text.data(), text.size());
}

// Calls `use` for each unit's parts in state() order: by unit, trainable parameters first.
template <class Use>
void for_each_shard(ModelEngine& engine, Use use) {
    for (std::size_t i = 0; i < engine.units.size(); ++i)
        for (Bucket* bucket : engine.units[i]->impl().buckets())
            use(*bucket, bucket->member(i).shard);
}

}  // namespace

ShardedModel::ShardedModel(Communicator world, const ShardedModelOptions& options) {
    require_supported(options);
    impl_ = std::make_unique<Impl>(std::move(world), options);
}

ShardedModel::ShardedModel(ShardedModel&&) noexcept = default;
ShardedModel::~ShardedModel() = default;

Unit& ShardedModel::add_unit(std::string name, std::vector<ParameterSpec> parameters,
                             const UnitOptions& options) {
    ModelEngine& engine = impl_->engine;
    if (engine.finalized)
        throw Error(ErrorCode::invalid_argument, "unit " + name + " was added to a finalized model",
                    "add every unit before finalize()");
    if (parameters.empty())
        throw Error(ErrorCode::invalid_argument, "unit " + name + " has no parameters");
    const auto same = std::find(engine.unit_names.begin(), engine.unit_names.end(), name);
    if (same != engine.unit_names.end())
        throw Error(ErrorCode::invalid_argument, "two units have the name " + name);
    (void)ShardLayout(parameters, 1);  // throws for what is no parameter
    auto unit = std::make_unique<Unit::Impl>(engine, engine.units.size(), name,
                                             std::move(parameters), options);
    for (std::size_t i = 0; i < unit->parameters().size(); ++i) {
        if (!impl_->full_names.insert(unit->full_name(i)).second)
            throw Error(ErrorCode::invalid_argument,
                        "two parameters have the full name " + unit->full_name(i));
    }
    engine.unit_names.push_back(std::move(name));
    engine.units.push_back(std::unique_ptr<Unit>(new Unit(std::move(unit))));
    return *engine.units.back();
}

void ShardedModel::finalize() {
    ModelEngine& engine = impl_->engine;
    if (engine.finalized)
        throw Error(ErrorCode::invalid_argument, "finalize() was called twice");
    if (engine.units.empty())
        throw Error(ErrorCode::invalid_argument, "the model has no units");
    engine.require_equal(
        hash_of_model(engine), "the ranks do not have the same model",
        "every rank must have the same options, and the same units with the same names and shapes, "
        "in the same order");
    engine.finalize();
}

void ShardedModel::initialize(const Fill& fill) {
    impl_->engine.require_finalized("initialize()");
    ModelEngine& engine = impl_->engine;
    std::vector<float> values;
    std::vector<std::byte> rounded;
    engine.gather_lane->synchronize();
    engine.reduce_lane->synchronize();
    engine.masters->forget(engine.stream);
    for_each_shard(engine, [&](Bucket& bucket, OptimizerShard& shard) {
        for (const auto& run : shard.runs) {
            values.resize(static_cast<std::size_t>(run.count));
            fill(run.full_name, run.parameter->shape, run.parameter_offset, values);
            auto* master =
                static_cast<std::byte*>(shard.master) +
                static_cast<std::size_t>(run.shard_offset) * size_of(bucket.master_type());
            rounded.resize(values.size() * size_of(bucket.master_type()));
            cast(rounded.data(), bucket.master_type(), values.data(), DataType::f32, values.size());
            engine.device->write(master, rounded.data(), rounded.size(), engine.stream);
        }
        engine.copy_to_replicas(bucket, shard);
    });
    refresh_parameters();
}

void ShardedModel::refresh_parameters() {
    ModelEngine& engine = impl_->engine;
    engine.begin_call("refresh_parameters()");
    if (engine.unsharded_units > 0)
        throw Error(
            ErrorCode::invalid_argument, "parameters were written while a unit is unsharded",
            "end the scope of every UnshardedParameters first: they would keep the old values");
    engine.gather_lane->synchronize();
    engine.gatherer->begin_writing(engine.stream);
    engine.masters->write_back(engine.stream);
    for (Bucket& bucket : engine.buckets)
        bucket.refresh_param(*engine.device, engine.stream);
    engine.gatherer->invalidate(engine.device->record(engine.stream));
}

void ShardedModel::discard_step() { impl_->engine.discard_step(); }

EvaluationScope ShardedModel::evaluation() {
    return EvaluationScope(&impl_->engine.evaluation_depth);
}

std::span<const std::unique_ptr<Unit>> ShardedModel::units() const noexcept {
    return impl_->engine.units;
}

Unit& ShardedModel::unit(std::string_view name) {
    for (const auto& unit : impl_->engine.units) {
        if (unit->name() == name)
            return *unit;
    }
    const auto& names = impl_->engine.unit_names;
    const std::string close = nearest(name, names);
    throw Error(
        ErrorCode::invalid_argument, "no unit is named " + std::string(name),
        close.empty() ? "the units are " + join(names, ", ") : "did you mean " + close + "?");
}

Communicator& ShardedModel::world() noexcept { return impl_->engine.world; }
const ShardedModelOptions& ShardedModel::options() const noexcept { return impl_->engine.options; }

std::int64_t ShardedModel::parameter_count() const noexcept {
    std::int64_t count = 0;
    for (const auto& unit : impl_->engine.units)
        for (const ParameterSpec& parameter : unit->parameters())
            count += parameter.element_count();
    return count;
}

ModelMemory ShardedModel::memory() const {
    const ModelEngine& engine = impl_->engine;
    engine.require_finalized("memory()");
    ModelMemory memory;
    for (const Bucket& bucket : engine.buckets) {
        memory.parameters += bucket.param_bytes();
        memory.masters += bucket.master_bytes();
        memory.on_host += bucket.host_bytes();
        memory.gradients += bucket.gradient_bytes();
    }
    memory.gathered = engine.gatherer->slot_bytes();
    memory.whole_gradients = engine.reducer->whole_bytes();
    return memory;
}

Arrangement ShardedModel::arrangement() const {
    const ModelEngine& engine = impl_->engine;
    engine.require_finalized("arrangement()");
    return arrangement_of(engine.mesh, engine.options.strategy);
}

State ShardedModel::state() {
    ModelEngine& engine = impl_->engine;
    engine.require_finalized("state()");
    engine.gather_lane->synchronize();  // the caller may write to what it reads
    State state = state_to_save();
    settle(state);
    return state;
}

State ShardedModel::state_to_save() {
    ModelEngine& engine = impl_->engine;
    engine.require_finalized("state_to_save()");
    engine.calls->check();
    State state;
    for_each_shard(engine, [&](Bucket& bucket, OptimizerShard& shard) {
        const std::size_t bytes = shard.elements * size_of(bucket.master_type());
        const auto reading = bucket.is_offloaded()
                                 ? StateMirror::Reading{shard.master, nullptr}
                                 : engine.masters->read(shard.master, bytes, engine.stream);
        shard.append_state(state, reading.memory, bucket.master_type(), "", reading.arrival);
    });
    return state;
}

}  // namespace autolaunch::fsdp
