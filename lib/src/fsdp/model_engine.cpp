#include "fsdp/model_engine.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <array>
#include <iterator>

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

ModelEngine::ModelEngine(Communicator given, const ShardedModelOptions& chosen)
    : world(std::move(given)),
      options(chosen),
      device(ModelDevice::of(world)),
      stream(device->stream_for({})) {}

ModelEngine::~ModelEngine() {
    reduce_lane.reset();
    gather_lane.reset();
    calls->close();
}

std::vector<UnitToPlan> ModelEngine::units_to_plan() const {
    std::vector<UnitToPlan> plans;
    for (const auto& unit : units) {
        const Unit::Impl& impl = unit->impl();
        plans.push_back({impl.name(), impl.parameters(), impl.options().reshard_after_forward});
    }
    return plans;
}

// Also where a rank has one CPU: made in between, each call waits for the slowest rank, and beside
// it only who needs the result (docs/performance.md has both).
bool ModelEngine::ranks_want_overlap() {
    const bool wanted = world.size() > 1 && options.overlap.value_or(true);
    return !world.any_rank(!wanted);
}

void ModelEngine::finalize() {
    const bool overlap = ranks_want_overlap();
    mesh = make_mesh(world, options, overlap);
    const auto plans = units_to_plan();
    const BucketLimits limits{options.merge_below, options.merge_cap,
                              static_cast<int>(size_of(options.precision.param))};
    for (const BucketPlan& plan : plan_buckets(plans, limits)) {
        Bucket& bucket = buckets.emplace_back(buckets.size(), plan, plans, mesh, options);
        bucket.allocate_parameters(mesh, *device);
        std::size_t placement = 0;
        for (const auto& member : plan.members) {
            units[member.unit_index]->impl().place(bucket, member.parameters, placement);
            placement += member.parameters.size();
        }
    }
    const auto present = [](std::initializer_list<std::optional<Communicator>> communicators) {
        std::vector<Communicator> found;
        for (const auto& communicator : communicators)
            if (communicator)
                found.push_back(*communicator);
        return found;
    };
    gather_lane = device->make_lane(present({mesh.gather}), overlap && mesh.gather);
    reduce_lane = device->make_lane(present({mesh.scatter, mesh.replicas}), overlap);
    gatherer.emplace(buckets, mesh, *device, *gather_lane,
                     static_cast<std::size_t>(options.gather_slots));
    reducer.emplace(buckets, mesh, *device, *reduce_lane, options);
    masters.emplace(*device, calls);
    if (device->is_gpu())
        for (const auto& communicator : present({world, mesh.gather, mesh.scatter, mesh.replicas}))
            calls->watch(communicator);
    finalized = true;
}

void ModelEngine::begin_call(const char* doing) {
    require_finalized(doing);
    check_calls();
}

void ModelEngine::check_calls() {
    gather_lane->check();
    reduce_lane->check();
    calls->check();
}

// The lanes are idle. The model's fill may differ between ranks; copies that did would never be one
// model again.
void ModelEngine::copy_to_replicas(const Bucket& bucket, const OptimizerShard& shard) {
    if (!mesh.replicas)
        return;
    const ScopedLabel label(*mesh.replicas, shard.name, "initial values");
    const bool on_gpu = device->is_gpu() && !bucket.is_offloaded();
    mesh.replicas
        ->broadcast(shard.master, shard.elements, bucket.master_type(), 0,
                    on_gpu ? stream : Stream{})
        .wait();
}

void ModelEngine::begin_training() {
    if (!reducer->is_allocated())
        reducer->allocate();
}

void ModelEngine::observe(UnitEvent event) {
    if (evaluation_depth > 0)
        return;
    begin_training();
    const auto expected = order.observe(event);
    if (!expected)
        return;
    const std::string what = "the order of units changed: expected " +
                             describe(*expected, unit_names) + ", got " +
                             describe(event, unit_names);
    abort("rank " + std::to_string(world.rank()) + ": " + what);
    throw Error(ErrorCode::mismatch, what,
                "every step must gather and reduce the units in the first step's order: put "
                "evaluation passes inside "
                "model.evaluation(), give up a step with model.discard_step(), and fill up a "
                "shorter last step with "
                "micro-batches of weight 0");
}

// As many units ahead as there are slots besides the one in use.
void ModelEngine::prefetch() {
    if (evaluation_depth > 0)
        return;
    gather_ahead(options.gather_slots - 1, units[order.latest().unit_index]->impl().buckets());
}

// All ranks choose alike, for the order is the same.
void ModelEngine::gather_ahead(int ahead, std::span<Bucket* const> in_use) {
    if (!gather_lane->is_beside())
        return;
    std::vector<const Bucket*> seen(in_use.begin(), in_use.end());
    for (const UnitEvent& event : order.upcoming()) {
        if (ahead == 0 || event.action == UnitAction::step)
            return;
        if (event.action != UnitAction::gather)
            continue;
        bool is_new = false;
        for (Bucket* bucket : units[event.unit_index]->impl().buckets()) {
            if (std::find(seen.begin(), seen.end(), bucket) != seen.end())
                continue;
            seen.push_back(bucket);
            gatherer->prefetch(*bucket);
            is_new = true;
        }
        if (is_new)
            --ahead;
    }
}

bool ModelEngine::reduces_again(Bucket& bucket) const {
    const auto& members = bucket.members();
    const auto upcoming = order.upcoming();
    if (upcoming.empty())
        return true;
    return std::any_of(upcoming.begin(), upcoming.end(), [&](const UnitEvent& event) {
        return event.action == UnitAction::reduce &&
               std::any_of(members.begin(), members.end(), [&](const auto& member) {
                   return member.unit_index == event.unit_index;
               });
    });
}

void ModelEngine::abort(const std::string& reason) {
    world.abort(reason);
    for (auto* communicator : {&mesh.gather, &mesh.scatter, &mesh.replicas})
        if (*communicator)
            (*communicator)->abort(reason);
}

void ModelEngine::require_equal(std::uint64_t value, const std::string& what,
                                const std::string& hint) {
    // One all-reduce finds both ends: the maximum of the value, and of its complement.
    const auto number = static_cast<std::int64_t>(value >> 1);
    std::array<std::int64_t, 2> ends = {number, -number};
    world.all_reduce(std::span<std::int64_t>(ends), ReduceOp::max).wait();
    if (ends[0] != -ends[1])
        throw Error(ErrorCode::mismatch, what, hint);
}

void ModelEngine::require_finalized(const char* doing) const {
    if (!finalized)
        throw Error(ErrorCode::invalid_argument, std::string(doing) + " needs a finalized model",
                    "call finalize()");
}

std::vector<OptimizerShard*> ModelEngine::optimizer_shards() {
    std::vector<OptimizerShard*> shards;
    for (Bucket& bucket : buckets) {
        if (!bucket.is_trainable())
            continue;
        for (auto& member : bucket.members())
            shards.push_back(&member.shard);
    }
    return shards;
}

void ModelEngine::require_no_scope(const char* doing) const {
    if (evaluation_depth > 0)
        throw Error(ErrorCode::invalid_argument,
                    std::string(doing) + " was called inside model.evaluation()",
                    "end that scope first");
    if (unsharded_units > 0)
        throw Error(
            ErrorCode::invalid_argument,
            std::string(doing) + " was called while a unit is unsharded",
            "end the scope of every UnshardedParameters first: they would keep the old values");
}

void ModelEngine::begin_step() {
    begin_call("step()");
    require_no_scope("step()");
    for (const auto& unit : units) {
        if (unit->impl().has_unreduced_gradient())
            throw Error(
                ErrorCode::invalid_argument,
                "step() was called while unit " + unit->name() + " has gradients not yet reduced",
                "call its reduce_grads() first; the last micro-batch of a TorchModel goes outside "
                "no_sync()");
    }
    observe({UnitAction::step, 0});
    if (!order_compared) {
        require_equal(order.hash(), "the ranks gathered or reduced the units in different orders",
                      "every rank must run the units in the same order");
        order_compared = true;
    }
    reducer->complete_step(stream);
    gatherer->begin_writing(stream);
    gather_lane->check();
    masters->forget(stream);
}

void ModelEngine::sum_over_shards(std::span<double> values, std::string_view what) {
    if (mesh.shard_count == 1)
        return;
    Communicator& communicator =
        mesh.replica_count == 1 ? world : *mesh.scatter;  // the lanes are idle
    const ScopedLabel label(communicator, "optimizer", what);
    communicator.all_reduce(values, ReduceOp::sum).wait();
}

void ModelEngine::sum_over_shards_on_stream(double* values, std::size_t count,
                                            std::string_view what) {
    if (mesh.shard_count == 1)
        return;
    Communicator& communicator = mesh.replica_count == 1 ? world : *mesh.scatter;
    const ScopedLabel label(communicator, "optimizer", what);
    communicator.all_reduce(values, values, count, DataType::f64, ReduceOp::sum, stream);
}

void ModelEngine::require_finite_contributions() {
    const auto own = reducer->own_nonfinite(stream);
    const int first =
        world.all_reduce_value<std::int32_t>(own ? world.rank() : world.size(), ReduceOp::min);
    if (first == world.size())
        return;
    std::array<std::uint64_t, 2> place{};  // bucket and element
    if (own)
        place = {own->bucket->index(), own->element};
    world.broadcast(place.data(), place.size(), DataType::u64, first).wait();
    const Bucket& bucket = buckets[place[0]];
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

void ModelEngine::discard_step() {
    begin_call("discard_step()");
    require_no_scope("discard_step()");
    require_equal(order.hash_of_step(), "the ranks discard a step at different calls",
                  "every rank must have gathered and reduced the same units in it");
    order.discard_step();
    reducer->discard(stream);
}

void ModelEngine::end_step() {
    reducer->reset(stream);
    gatherer->invalidate(device->record(stream));
    gather_ahead(options.gather_slots, {});  // the next step begins with whole parameters
}

void require_supported(const ShardedModelOptions& options) {
    const Precision& precision = options.precision;
    const auto is_float = [](DataType type) {
        return type == DataType::f32 || type == DataType::bf16 || type == DataType::f16;
    };
    for (const DataType type :
         {precision.param, precision.reduce, precision.accumulate, precision.master}) {
        if (!is_float(type))
            throw Error(ErrorCode::unsupported,
                        "precision " + std::string(name_of(type)) + " is not supported",
                        "f32, bf16 and f16 are");
    }
    const auto reject = [](const std::string& what, const std::string& hint) {
        throw Error(ErrorCode::invalid_argument, what, hint);
    };
    if (precision.master != DataType::f32 && precision.master != precision.param)
        reject("masters of " + std::string(name_of(precision.master)) + " for parameters of " +
                   std::string(name_of(precision.param)),
               "masters are f32, or of the parameters' type");
    if (precision.master == DataType::f16)
        reject("masters in f16", "no optimizer takes them: leave precision.master at f32");
    if (options.gather_slots < 1 || options.reduce_slots < 1)
        reject("a model needs a slot at least", "2 is usual");
    if (options.merge_below < 0 || options.merge_cap < 0)
        reject("merge_below or merge_cap is negative", "0 is off");
    const bool f32_sums =
        precision.reduce == DataType::f32 && precision.accumulate == DataType::f32;
    if (options.deterministic && !f32_sums)
        reject("deterministic sums need f32",
               "leave precision.reduce and precision.accumulate at f32");
}

}  // namespace autolaunch::fsdp
