#include "fsdp/engine.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <array>

namespace autolaunch::fsdp {

namespace {

std::string describe(const UnitEvent& event, const std::vector<std::string>& names) {
    switch (event.action) {
        case UnitAction::gather:
            return "unshard of " + names[event.unit_index];
        case UnitAction::reduce:
            return "reduce_grads of " + names[event.unit_index];
        case UnitAction::step:
            break;
    }
    return "the optimizer step";
}

}  // namespace

int Engine::shard_count() const noexcept { return options.strategy == ShardingStrategy::no_shard ? 1 : world.size(); }

void Engine::observe(UnitEvent event) {
    if (evaluation_depth > 0) return;
    const auto expected = order.observe(event);
    if (!expected) return;
    const std::string what = "the order of units changed: expected " + describe(*expected, unit_names) + ", got " +
                             describe(event, unit_names);
    world.abort("rank " + std::to_string(world.rank()) + ": " + what);
    throw Error(ErrorCode::mismatch, what,
                "every step must gather and reduce the units in the first step's order; put evaluation passes inside "
                "model.evaluation()");
}

void Engine::require_equal(std::uint64_t value, const std::string& what, const std::string& hint) {
    // One all-reduce finds both ends: the maximum of the value, and of its complement.
    const auto number = static_cast<std::int64_t>(value >> 1);
    std::array<std::int64_t, 2> ends = {number, -number};
    world.all_reduce(std::span<std::int64_t>(ends), ReduceOp::max).wait();
    if (ends[0] != -ends[1]) throw Error(ErrorCode::mismatch, what, hint);
}

void Engine::require_finalized(const char* doing) const {
    if (!finalized)
        throw Error(ErrorCode::invalid_argument, std::string(doing) + " needs a finalized model", "call finalize()");
}

std::vector<OptimizerShard*> Engine::optimizer_shards() {
    std::vector<OptimizerShard*> shards;
    for (const auto& unit : units) shards.push_back(&unit->impl().shard());
    return shards;
}

void Engine::begin_step() {
    if (unsharded_units > 0)
        throw Error(ErrorCode::invalid_argument, "step() was called while a unit is unsharded",
                    "end the scope of every UnshardedParameters first: they would keep the old values");
    for (const auto& unit : units) {
        if (unit->impl().whole_gradient_pending())
            throw Error(ErrorCode::invalid_argument,
                        "step() was called while unit " + unit->name() + " has gradients not yet reduced",
                        "call its reduce_grads() first");
    }
    observe({UnitAction::step, 0});
    if (order_compared) return;
    require_equal(order.hash(), "the ranks gathered or reduced the units in different orders",
                  "every rank must run the units in the same order");
    order_compared = true;
}

double Engine::sum_over_shards(double value, std::string_view what) {
    sum_over_shards({&value, 1}, what);
    return value;
}

void Engine::sum_over_shards(std::span<double> values, std::string_view what) {
    if (options.strategy == ShardingStrategy::no_shard) return;
    const ScopedLabel label(world, "optimizer", what);
    world.all_reduce(values).wait();
}

void Engine::end_step() {
    for (const auto& unit : units) unit->impl().shard().has_gradient = false;
}

ScopedLabel::ScopedLabel(Communicator& world, std::string_view unit, std::string_view what)
    : world_(world), before_bytes_(world.label().copy(before_.data(), before_.size())) {
    std::array<char, 64> label{};
    const std::size_t unit_bytes = unit.copy(label.data(), label.size() - what.size() - 1);
    label[unit_bytes] = ' ';
    const std::size_t what_bytes = what.copy(label.data() + unit_bytes + 1, what.size());
    world_.set_label({label.data(), unit_bytes + 1 + what_bytes});
}

ScopedLabel::~ScopedLabel() { world_.set_label({before_.data(), before_bytes_}); }

void require_supported(const ShardedModelOptions& options) {
    const bool strategy_ok =
        options.strategy == ShardingStrategy::full_shard || options.strategy == ShardingStrategy::no_shard;
    if (!strategy_ok)
        throw Error(ErrorCode::unsupported,
                    "sharding strategy " + std::string(name_of(options.strategy)) + " is not supported",
                    "full_shard and no_shard are");
    const Precision& precision = options.precision;
    for (const DataType type : {precision.param, precision.reduce, precision.accumulate, precision.master}) {
        if (type != DataType::f32)
            throw Error(ErrorCode::unsupported, "precision " + std::string(name_of(type)) + " is not supported",
                        "f32 is, for parameters, gradients and masters");
    }
}

void require_cpu(Stream stream) {
    if (stream.device().type != DeviceType::cpu)
        throw Error(ErrorCode::unsupported, "this build shards models in CPU memory only",
                    "pass no stream, or a default-constructed one");
}

}  // namespace autolaunch::fsdp
