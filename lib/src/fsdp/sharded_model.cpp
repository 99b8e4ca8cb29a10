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
    const ShardedModelOptions& options = engine.options();
    std::string text;
    for (const auto value : {static_cast<std::int64_t>(options.strategy),
                             static_cast<std::int64_t>(options.shard_group), options.merge_below,
                             options.merge_cap, static_cast<std::int64_t>(options.gather_slots),
                             static_cast<std::int64_t>(options.reduce_slots),
                             static_cast<std::int64_t>(options.deterministic),
                             static_cast<std::int64_t>(options.keep_largest)})
        text += std::to_string(value) + ' ';
    const Precision& precision = options.precision;
    for (const DataType type :
         {precision.param, precision.reduce, precision.accumulate, precision.master})
        text += std::string(name_of(type)) + ' ';
    for (const auto& unit : engine.units()) {
        text += '\n' + unit->name() + (unit->impl().options().reshard_after_forward ? "" : " kept");
        for (const ParameterSpec& parameter : unit->parameters()) {
            text += '\t' + parameter.name + (parameter.trainable ? "" : " frozen");
            for (const auto extent : parameter.shape)
                text += ' ' + std::to_string(extent);
        }
    }
    return hash64(text.data(), text.size());
}

}  // namespace

ShardedModel::ShardedModel(Communicator world, const ShardedModelOptions& options) {
    require_supported(options);
    impl_ = std::make_unique<Impl>(std::move(world), options);
}

ShardedModel::ShardedModel(ShardedModel&&) noexcept = default;
ShardedModel& ShardedModel::operator=(ShardedModel&&) noexcept = default;
ShardedModel::~ShardedModel() = default;

Unit& ShardedModel::add_unit(std::string name, std::vector<ParameterSpec> parameters,
                             const UnitOptions& options) & {
    ModelEngine& engine = impl_->engine;
    if (engine.is_finalized())
        throw Error(ErrorCode::invalid_argument, "unit " + name + " was added to a finalized model",
                    "add every unit before finalize()");
    if (parameters.empty())
        throw Error(ErrorCode::invalid_argument, "unit " + name + " has no parameters");
    const auto& names = engine.unit_names();
    if (std::find(names.begin(), names.end(), name) != names.end())
        throw Error(ErrorCode::invalid_argument, "two units have the name " + name);
    (void)ShardLayout(parameters, 1);  // throws for what is no parameter
    auto unit = std::make_unique<Unit::Impl>(engine, engine.units().size(), std::move(name),
                                             std::move(parameters), options);
    for (std::size_t i = 0; i < unit->parameters().size(); ++i) {
        if (!impl_->full_names.insert(unit->full_name(i)).second)
            throw Error(ErrorCode::invalid_argument,
                        "two parameters have the full name " + unit->full_name(i));
    }
    return engine.add(std::unique_ptr<Unit>(new Unit(std::move(unit))));
}

MemoryPlan ShardedModel::finalize() {
    ModelEngine& engine = impl_->engine;
    if (engine.is_finalized())
        throw Error(ErrorCode::invalid_argument, "finalize() was called twice");
    if (engine.units().empty())
        throw Error(ErrorCode::invalid_argument, "the model has no units");
    engine.require_equal(
        hash_of_model(engine), "the ranks do not have the same model",
        "every rank must have the same options, and the same units with the same names and shapes, "
        "in the same order");
    engine.finalize();
    return memory_plan();
}

void ShardedModel::initialize(const Fill& fill) {
    impl_->engine.require_finalized("initialize()");
    ModelEngine& engine = impl_->engine;
    std::vector<float> values;
    std::vector<std::byte> rounded;
    engine.begin_writing_masters();
    const auto fill_shard = [&](Bucket& bucket, OptimizerShard& shard) {
        for (const auto& run : shard.runs) {
            values.resize(static_cast<std::size_t>(run.count));
            fill(run.full_name, run.parameter->shape, run.parameter_offset, values);
            auto* master =
                static_cast<std::byte*>(shard.master) +
                static_cast<std::size_t>(run.shard_offset) * size_of(bucket.master_type());
            rounded.resize(values.size() * size_of(bucket.master_type()));
            cast(rounded.data(), bucket.master_type(), values.data(), DataType::f32, values.size());
            engine.device().write(master, rounded.data(), rounded.size(), engine.stream());
        }
        engine.copy_to_replicas(bucket, shard);
    };
    for (const auto& unit : engine.units())
        unit->impl().for_each_shard(fill_shard);
    refresh_parameters();
}

void ShardedModel::refresh_parameters() { impl_->engine.refresh_parameters(); }

void ShardedModel::discard_step() { impl_->engine.discard_step(); }

EvaluationScope ShardedModel::evaluation() & {
    return EvaluationScope(&impl_->engine.evaluation_depth());
}

std::span<const std::unique_ptr<Unit>> ShardedModel::units() const& noexcept {
    return impl_->engine.units();
}

Unit& ShardedModel::unit(std::string_view name) & {
    for (const auto& unit : impl_->engine.units()) {
        if (unit->name() == name)
            return *unit;
    }
    const auto& names = impl_->engine.unit_names();
    throw Error(
        ErrorCode::invalid_argument,
        "no unit is named " + std::string(name) + nearest_asked(name, names),
        names.empty() ? "the model has no units yet" : "the units are " + join(names, ", "));
}

Communicator& ShardedModel::world() & noexcept { return impl_->engine.world(); }
const ShardedModelOptions& ShardedModel::options() const& noexcept {
    return impl_->engine.options();
}

std::int64_t ShardedModel::parameter_count() const noexcept {
    std::int64_t count = 0;
    for (const auto& unit : impl_->engine.units())
        for (const ParameterSpec& parameter : unit->parameters())
            count += parameter.element_count();
    return count;
}

MemoryPlan ShardedModel::memory_plan(OptimizerKind optimizer, int reductions) const {
    const ModelEngine& engine = impl_->engine;
    engine.require_finalized("memory_plan()");
    return engine.memory_plan(optimizer, reductions);
}

ModelMemory ShardedModel::memory() const {
    const ModelEngine& engine = impl_->engine;
    engine.require_finalized("memory()");
    return engine.memory();
}

Arrangement ShardedModel::arrangement() const {
    const ModelEngine& engine = impl_->engine;
    engine.require_finalized("arrangement()");
    return arrangement_of(engine.mesh(), engine.options().strategy);
}

State ShardedModel::state() & {
    ModelEngine& engine = impl_->engine;
    engine.require_finalized("state()");
    engine.wait_for_gathers();  // the caller may write to what it reads
    State state = state_to_save();
    settle(state);
    return state;
}

State ShardedModel::state_to_save() & {
    ModelEngine& engine = impl_->engine;
    engine.require_finalized("state_to_save()");
    State state;
    engine.append_state(state);
    return state;
}

}  // namespace autolaunch::fsdp
