#include "fsdp/model_engine.hpp"

#include "fsdp/unit_memory.hpp"

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

#ifdef NDEBUG
constexpr bool kDebugBuild = false;
#else
constexpr bool kDebugBuild = true;
#endif

// Whether parameters of units that are not unsharded, and gradients that were reduced, read as NaN.
bool hides_what_is_given_back(const ShardedModelOptions& options, const ModelDevice& device) {
    if (options.find_dangling && device.is_gpu())
        throw Error(ErrorCode::unsupported,
                    "find_dangling looks at parameters in the CPU's memory, and these are a GPU's",
                    "on GPUs compute-sanitizer's initcheck and memcheck find reads out of place; "
                    "or debug with a communicator of CPUs (backend \"cpu\")");
    return !device.is_gpu() && (options.find_dangling || kDebugBuild);
}

}  // namespace

ModelEngine::ModelEngine(Communicator given, const ShardedModelOptions& chosen)
    : world_(std::move(given)),
      options_(chosen),
      device_(ModelDevice::of(world_)),
      stream_(device_->stream_for({})) {}

ModelEngine::~ModelEngine() {
    reduce_lane_.reset();
    gather_lane_.reset();
    calls_->close();
}

Unit& ModelEngine::add(std::unique_ptr<Unit> unit) {
    unit_names_.push_back(unit->name());
    units_.push_back(std::move(unit));
    return *units_.back();
}

std::vector<UnitToPlan> ModelEngine::units_to_plan() const {
    std::vector<UnitToPlan> plans;
    for (const auto& unit : units_) {
        const Unit::Impl& impl = unit->impl();
        plans.push_back({impl.name(), impl.parameters(), impl.options().reshard_after_forward});
    }
    return plans;
}

// Also where a rank has one CPU: made in between, each call waits for the slowest rank, and beside
// it only who needs the result (docs/performance.md has both).
bool ModelEngine::ranks_want_overlap() {
    const bool wanted = world_.size() > 1 && options_.overlap.value_or(true);
    return !world_.any_rank(!wanted);
}

void ModelEngine::finalize() {
    const bool overlap = ranks_want_overlap();
    mesh_ = make_mesh(world_, options_, overlap);
    const auto plans = units_to_plan();
    const BucketLimits limits{options_.merge_below, options_.merge_cap,
                              static_cast<int>(size_of(options_.precision.param))};
    auto bucket_plans = plan_buckets(plans, limits);
    choose_whole(bucket_plans, plans,
                 {.strategy = options_.strategy,
                  .precision = options_.precision,
                  .shard_count = mesh_.shard_count,
                  .gather_slots = options_.gather_slots,
                  .reduce_slots = options_.reduce_slots,
                  .deterministic = options_.deterministic,
                  .keep_largest = options_.keep_largest});
    for (const BucketPlan& plan : bucket_plans) {
        Bucket& bucket = buckets_.emplace_back(buckets_.size(), plan, plans, mesh_, options_);
        bucket.allocate_parameters(mesh_, *device_);
        std::size_t placement = 0;
        for (const auto& member : plan.members) {
            units_[member.unit_index]->impl().place(bucket, member.parameters, placement);
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
    gather_lane_ = device_->make_lane(present({mesh_.gather}), overlap && mesh_.gather);
    reduce_lane_ = device_->make_lane(present({mesh_.scatter, mesh_.replicas}), overlap);
    const bool hides = hides_what_is_given_back(options_, *device_);
    gatherer_.emplace(buckets_, mesh_, *device_, *gather_lane_,
                      static_cast<std::size_t>(options_.gather_slots), hides);
    reducer_.emplace(buckets_, mesh_, *device_, *reduce_lane_, options_, hides);
    masters_.emplace(*device_, calls_);
    if (device_->is_gpu())
        for (const auto& communicator :
             present({world_, mesh_.gather, mesh_.scatter, mesh_.replicas}))
            calls_->watch(communicator);
    finalized_ = true;
}

void ModelEngine::begin_call(const char* doing) {
    require_finalized(doing);
    check_calls();
}

void ModelEngine::check_calls() {
    gather_lane_->check();
    reduce_lane_->check();
    calls_->check();
}

void ModelEngine::begin_writing_masters() {
    gather_lane_->synchronize();
    reduce_lane_->synchronize();
    masters_->forget(stream_);
}

// The lanes are idle. The model's fill may differ between ranks; copies that did would never be one
// model again.
void ModelEngine::copy_to_replicas(const Bucket& bucket, const OptimizerShard& shard) {
    if (!mesh_.replicas)
        return;
    const ScopedLabel label(*mesh_.replicas, shard.name, "initial values");
    const bool on_gpu = device_->is_gpu() && !bucket.is_offloaded();
    mesh_.replicas
        ->broadcast(shard.master, shard.elements, bucket.master_type(), 0,
                    on_gpu ? stream_ : Stream{})
        .wait();
}

void ModelEngine::refresh_parameters() {
    begin_call("refresh_parameters()");
    if (unsharded_units_ > 0)
        throw Error(
            ErrorCode::invalid_argument, "parameters were written while a unit is unsharded",
            "end the scope of every UnshardedParameters first: they would keep the old values");
    gather_lane_->synchronize();
    gatherer_->begin_writing(stream_);
    masters_->write_back(stream_);
    for (Bucket& bucket : buckets_)
        bucket.refresh_param(*device_, stream_);
    gatherer_->invalidate(device_->record(stream_));
}

void ModelEngine::append_state(State& state) {
    calls_->check();
    for (const auto& unit : units_)
        unit->impl().for_each_shard([&](Bucket& bucket, OptimizerShard& shard) {
            const std::size_t bytes = shard.elements * size_of(bucket.master_type());
            const auto reading = bucket.is_offloaded()
                                     ? StateMirror::Reading{shard.master, nullptr}
                                     : masters_->read(shard.master, bytes, stream_);
            shard.append_state(state, reading.memory, bucket.master_type(), "", reading.arrival);
        });
}

ModelMemory ModelEngine::memory() const {
    ModelMemory memory;
    for (const Bucket& bucket : buckets_) {
        memory.parameters += bucket.param_bytes();
        memory.masters += bucket.master_bytes();
        memory.on_host += bucket.host_bytes();
        memory.gradients += bucket.gradient_bytes();
    }
    memory.gathered = gatherer_->slot_bytes();
    memory.whole_gradients = reducer_->whole_bytes();
    (options_.offload_optimizer && device_->is_gpu() ? memory.on_host : memory.optimizer) +=
        *optimizer_bytes_;
    return memory;
}

MemoryPlan ModelEngine::memory_plan(OptimizerKind optimizer, int reductions) const {
    MemoryPlanOptions planned;
    planned.strategy = options_.strategy;
    planned.precision = options_.precision;
    planned.optimizer = optimizer;
    planned.ranks = mesh_.shard_count * mesh_.replica_count;
    planned.shard_group = mesh_.shard_count;
    planned.gather_slots = options_.gather_slots;
    planned.reduce_slots = options_.reduce_slots;
    planned.keep_largest = options_.keep_largest;
    planned.merge_below_bytes = options_.merge_below;
    planned.merge_cap_bytes = options_.merge_cap;
    planned.offload_optimizer = options_.offload_optimizer && device_->is_gpu();
    planned.deterministic = options_.deterministic;
    planned.on_gpus = device_->is_gpu();
    planned.reductions = reductions;
    return plan_memory_of(units_to_plan(), planned);
}

void ModelEngine::begin_training() {
    if (!reducer_->is_allocated())
        reducer_->allocate();
}

void ModelEngine::observe(UnitEvent event) {
    if (evaluation_depth_ > 0)
        return;
    begin_training();
    const auto expected = order_.observe(event);
    if (!expected)
        return;
    const std::string what = "the order of units changed: expected " +
                             describe(*expected, unit_names_) + ", got " +
                             describe(event, unit_names_);
    abort("rank " + std::to_string(world_.rank()) + ": " + what);
    throw Error(ErrorCode::mismatch, what,
                "every step must gather and reduce the units in the first step's order: put "
                "evaluation passes inside "
                "model.evaluation(), give up a step with model.discard_step(), and fill up a "
                "shorter last step with "
                "micro-batches of weight 0");
}

// As many units ahead as there are slots besides the one in use.
void ModelEngine::prefetch() {
    if (evaluation_depth_ > 0)
        return;
    gather_ahead(options_.gather_slots - 1, units_[order_.latest().unit_index]->impl().buckets());
}

// All ranks choose alike, for the order is the same.
void ModelEngine::gather_ahead(int ahead, std::span<Bucket* const> in_use) {
    if (!gather_lane_->is_beside())
        return;
    // One that stays whole takes no slot: once it is there it is passed over.
    std::vector<bool> seen(buckets_.size());
    for (const Bucket* bucket : in_use)
        seen[bucket->index()] = true;
    for (const UnitEvent& event : order_.upcoming()) {
        if (ahead == 0 || event.action == UnitAction::step)
            return;
        if (event.action != UnitAction::gather)
            continue;
        bool is_new = false;
        for (Bucket* bucket : units_[event.unit_index]->impl().buckets()) {
            if (seen[bucket->index()])
                continue;
            seen[bucket->index()] = true;
            const bool started = gatherer_->prefetch(*bucket);
            is_new |= started || !bucket->is_resident();
        }
        if (is_new)
            --ahead;
    }
}

bool ModelEngine::reduces_again(Bucket& bucket) const {
    const auto& members = bucket.members();
    const auto upcoming = order_.upcoming();
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
    world_.abort(reason);
    for (auto* communicator : {&mesh_.gather, &mesh_.scatter, &mesh_.replicas})
        if (*communicator)
            (*communicator)->abort(reason);
}

void ModelEngine::require_equal(std::uint64_t value, const std::string& what,
                                const std::string& hint) {
    // One all-reduce finds both ends: the maximum of the value, and of its complement.
    const auto number = static_cast<std::int64_t>(value >> 1);
    std::array<std::int64_t, 2> ends = {number, -number};
    world_.all_reduce(std::span<std::int64_t>(ends), ReduceOp::max).wait();
    if (ends[0] != -ends[1])
        throw Error(ErrorCode::mismatch, what, hint);
}

void ModelEngine::require_finalized(const char* doing) const {
    if (!finalized_)
        throw Error(ErrorCode::invalid_argument, std::string(doing) + " needs a finalized model",
                    "call finalize()");
}

void ModelEngine::require_no_scope(const char* doing) const {
    if (evaluation_depth_ > 0)
        throw Error(ErrorCode::invalid_argument,
                    std::string(doing) + " was called inside model.evaluation()",
                    "end that scope first");
    if (unsharded_units_ > 0)
        throw Error(
            ErrorCode::invalid_argument,
            std::string(doing) + " was called while a unit is unsharded",
            "end the scope of every UnshardedParameters first: they would keep the old values");
}

void ModelEngine::discard_step() {
    begin_call("discard_step()");
    require_no_scope("discard_step()");
    require_equal(order_.hash_of_step(), "the ranks discard a step at different calls",
                  "every rank must have gathered and reduced the same units in it");
    order_.discard_step();
    reducer_->discard(stream_);
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
