#include "base/hash.hpp"
#include "base/text.hpp"
#include "fsdp/engine.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/fsdp/sharded_model.hpp>

#include <algorithm>
#include <set>

namespace autolaunch::fsdp {

class ShardedModel::Impl {
public:
    Impl(Communicator world, const ShardedModelOptions& options) : engine(std::move(world), options) {}

    Engine engine;
    std::set<std::string> full_names;
};

namespace {

// Names, shapes and strategy in one text, so that ranks can compare their models by its hash.
std::uint64_t hash_of_model(const Engine& engine, std::span<const std::unique_ptr<Unit>> units) {
    std::string text = std::to_string(static_cast<int>(engine.options.strategy));
    for (const auto& unit : units) {
        text += '\n' + unit->name();
        for (const auto& placement : unit->layout().placements()) {
            text += '\t' + placement.parameter.name;
            for (const auto extent : placement.parameter.shape) text += ' ' + std::to_string(extent);
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
ShardedModel::~ShardedModel() = default;

Unit& ShardedModel::add_unit(std::string name, std::vector<ParameterSpec> parameters) {
    Engine& engine = impl_->engine;
    if (engine.finalized)
        throw Error(ErrorCode::invalid_argument, "unit " + name + " was added to a finalized model",
                    "add every unit before finalize()");
    if (parameters.empty()) throw Error(ErrorCode::invalid_argument, "unit " + name + " has no parameters");
    const auto same = std::find(engine.unit_names.begin(), engine.unit_names.end(), name);
    if (same != engine.unit_names.end()) throw Error(ErrorCode::invalid_argument, "two units have the name " + name);
    auto unit = std::make_unique<Unit::Impl>(engine, impl_->engine.units.size(), name, std::move(parameters));
    for (std::size_t i = 0; i < unit->layout().placements().size(); ++i) {
        if (!impl_->full_names.insert(unit->full_name(i)).second)
            throw Error(ErrorCode::invalid_argument, "two parameters have the full name " + unit->full_name(i));
    }
    engine.unit_names.push_back(std::move(name));
    impl_->engine.units.push_back(std::unique_ptr<Unit>(new Unit(std::move(unit))));
    return *impl_->engine.units.back();
}

void ShardedModel::finalize() {
    Engine& engine = impl_->engine;
    if (engine.finalized) throw Error(ErrorCode::invalid_argument, "finalize() was called twice");
    if (impl_->engine.units.empty()) throw Error(ErrorCode::invalid_argument, "the model has no units");
    engine.require_equal(hash_of_model(engine, impl_->engine.units), "the ranks do not have the same model",
                         "every rank must add the same units with the same names and shapes, in the same order");
    std::int64_t largest = 0;
    for (const auto& unit : impl_->engine.units) largest = std::max(largest, unit->layout().arena_elements());
    engine.pool.set_buffer_bytes(static_cast<std::size_t>(largest) * sizeof(float));
    for (const auto& unit : impl_->engine.units) unit->impl().allocate();
    engine.finalized = true;
}

void ShardedModel::initialize(const Fill& fill) {
    impl_->engine.require_finalized("initialize()");
    for (const auto& unit : impl_->engine.units) {
        for (const auto& interval : unit->impl().intervals()) {
            const auto& parameter = unit->layout().placements()[interval.parameter_index].parameter;
            float* values = unit->impl().parameter_shard() + interval.shard_offset;
            fill(unit->impl().full_name(interval.parameter_index), parameter.shape, interval.parameter_offset,
                 {values, static_cast<std::size_t>(interval.count)});
        }
    }
}

EvaluationScope ShardedModel::evaluation() { return EvaluationScope(&impl_->engine.evaluation_depth); }

std::span<const std::unique_ptr<Unit>> ShardedModel::units() const noexcept { return impl_->engine.units; }

Unit& ShardedModel::unit(std::string_view name) {
    for (const auto& unit : impl_->engine.units) {
        if (unit->name() == name) return *unit;
    }
    const auto& names = impl_->engine.unit_names;
    const std::string close = nearest(name, names);
    throw Error(ErrorCode::invalid_argument, "no unit is named " + std::string(name),
                close.empty() ? "the units are " + join(names, ", ") : "did you mean " + close + "?");
}

Communicator& ShardedModel::world() noexcept { return impl_->engine.world; }
const ShardedModelOptions& ShardedModel::options() const noexcept { return impl_->engine.options; }

std::int64_t ShardedModel::parameter_count() const noexcept {
    std::int64_t count = 0;
    for (const auto& unit : impl_->engine.units) {
        for (const auto& placement : unit->layout().placements()) count += placement.parameter.element_count();
    }
    return count;
}

State ShardedModel::state() {
    impl_->engine.require_finalized("state()");
    State state;
    for (const auto& unit : impl_->engine.units) {
        const OptimizerShard& shard = unit->impl().shard();
        shard.append_state(state, shard.master, shard.master_type, "");
    }
    return state;
}

}  // namespace autolaunch::fsdp
