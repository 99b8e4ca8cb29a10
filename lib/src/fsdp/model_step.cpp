// The model as its optimizer sees it: OptimizedModel's part of ModelEngine.
#include "fsdp/model_engine.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <array>
#include <iterator>

namespace autolaunch::fsdp {

OptimizedModel& optimized(ShardedModel& model) { return model.units().front()->impl().engine(); }

std::vector<Bucket*> ModelEngine::trainable_buckets() {
    std::vector<Bucket*> trainable;
    for (Bucket& bucket : buckets_)
        if (bucket.is_trainable())
            trainable.push_back(&bucket);
    return trainable;
}

std::vector<OptimizerShard*> ModelEngine::optimizer_shards() {
    std::vector<OptimizerShard*> shards;
    for (Bucket* bucket : trainable_buckets())
        for (auto& member : bucket->members())
            shards.push_back(&member.shard);
    return shards;
}

void ModelEngine::begin_step() {
    begin_call("step()");
    require_no_scope("step()");
    for (const auto& unit : units_) {
        if (unit->impl().has_unreduced_gradient())
            throw Error(
                ErrorCode::invalid_argument,
                "step() was called while unit " + unit->name() + " has gradients not yet reduced",
                "call its reduce_grads() first; the last micro-batch of a TorchModel goes outside "
                "no_sync()");
    }
    observe({UnitAction::step, 0});
    if (!order_compared_) {
        require_equal(order_.hash(), "the ranks gathered or reduced the units in different orders",
                      "every rank must run the units in the same order");
        order_compared_ = true;
    }
    reducer_->complete_step(stream_);
    gatherer_->begin_writing(stream_);
    gather_lane_->check();
    masters_->forget(stream_);
}

// The lanes are idle.
Communicator& ModelEngine::of_shards() {
    return mesh_.replica_count == 1 ? world_ : *mesh_.scatter;
}

void ModelEngine::sum_over_shards(std::span<double> values, std::string_view what) {
    if (mesh_.shard_count == 1)
        return;
    const ScopedLabel label(of_shards(), "optimizer", what);
    of_shards().all_reduce(values, ReduceOp::sum).wait();
}

void ModelEngine::sum_over_shards_on_stream(double* values, std::size_t count,
                                            std::string_view what) {
    if (mesh_.shard_count == 1)
        return;
    const ScopedLabel label(of_shards(), "optimizer", what);
    of_shards().all_reduce(values, values, count, DataType::f64, ReduceOp::sum, stream_);
}

void ModelEngine::require_finite_contributions() {
    const auto own = reducer_->own_nonfinite(stream_);
    const int first =
        world_.all_reduce_value<std::int32_t>(own ? world_.rank() : world_.size(), ReduceOp::min);
    if (first == world_.size())
        return;
    std::array<std::uint64_t, 2> place{};  // bucket and element
    if (own)
        place = {own->bucket->index(), own->element};
    world_.broadcast(place.data(), place.size(), DataType::u64, first).wait();
    const Bucket& bucket = buckets_[place[0]];
    const auto element = static_cast<std::int64_t>(place[1]);
    const auto& placements = bucket.layout().placements();
    const auto after =
        std::find_if(placements.begin(), placements.end(),
                     [&](const auto& placement) { return placement.offset > element; });
    const auto& placement = *std::prev(after);
    std::string unit;
    for (const auto& member : bucket.members())
        if (member.begin <= element && element < member.end)
            unit = member.shard.name;
    throw Error(ErrorCode::invalid_argument,
                "rank " + std::to_string(first) + "'s gradient of " + placement.parameter.name +
                    " (unit " + unit + ") is a NaN or infinite at element " +
                    std::to_string(element - placement.offset),
                "look at what that rank computed in this step: its data, a division, an overflow");
}

void ModelEngine::end_step() {
    reducer_->reset(stream_);
    gatherer_->invalidate(device_->record(stream_));
    gather_ahead(options_.gather_slots, {});  // the next step begins with whole parameters
}

}  // namespace autolaunch::fsdp
