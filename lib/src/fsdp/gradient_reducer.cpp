#include "fsdp/gradient_reducer.hpp"

#include "fsdp/cast.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace autolaunch::fsdp {

GradientReducer::GradientReducer(std::deque<Bucket>& buckets, ShardMesh& mesh, Lane& lane,
                                 const ShardedModelOptions& options)
    : buckets_(buckets),
      mesh_(mesh),
      lane_(lane),
      options_(options),
      keeps_whole_(options.strategy == ShardingStrategy::shard_optimizer || mesh.shard_count == 1),
      in_place_(keeps_whole_ && options.precision.reduce == options.precision.accumulate && !options.deterministic),
      states_(buckets.size()) {}

void GradientReducer::allocate() {
    std::size_t largest = 0, count = 0;
    const auto& peers = mesh_.scatter ? mesh_.scatter : mesh_.replicas;
    for (Bucket& bucket : buckets_) {
        if (!bucket.is_trainable()) continue;
        bucket.allocate_gradients(mesh_, in_place_);
        const std::size_t bytes = bucket.arena_elements() * size_of(options_.precision.reduce);
        if (keeps_whole_ && !in_place_) states_[bucket.index()].own = allocate_zeroed(peers, bytes);
        largest = std::max(largest, bytes);
        ++count;
    }
    const std::size_t slots = keeps_whole_ ? 0 : std::min(count, static_cast<std::size_t>(options_.reduce_slots));
    for (std::size_t i = 0; i < slots; ++i) slots_.emplace_back().memory = allocate_zeroed(peers, largest);
    allocated_ = true;
}

// Slots and own whole gradients are zero whenever they are free: the lane clears them behind the reduction.
std::byte* GradientReducer::whole(Bucket& bucket) {
    State& state = states_[bucket.index()];
    if (state.whole) return state.whole;
    if (in_place_) {
        state.whole = bucket.resident_gradient();
        std::memset(state.whole, 0, bucket.gradient_bytes());
        return state.whole;
    }
    state.slot = state.own.data() ? nullptr : free_slot();
    if (state.slot) {
        state.slot->held = true;
        state.whole = static_cast<std::byte*>(state.slot->memory.data());
    } else {
        take_own(bucket, state);
    }
    return state.whole;
}

// Null when backward still adds to all of them: several units' gradients are complete only later, as with tied
// parameters or with accumulation without reduce_grads().
GradientReducer::Slot* GradientReducer::free_slot() {
    Slot* soonest = nullptr;
    for (Slot& slot : slots_) {
        if (slot.held) continue;
        if (slot.reduction.is_completed()) return &slot;
        if (!soonest) soonest = &slot;
    }
    if (soonest) std::exchange(soonest->reduction, {}).wait();
    return soonest;
}

void GradientReducer::take_own(Bucket& bucket, State& state) {
    if (!state.own.data())  // no collective allocation: another rank may have a slot free
        state.own = allocate_zeroed({}, bucket.arena_elements() * size_of(options_.precision.reduce));
    std::exchange(state.own_reduction, {}).wait();
    state.whole = static_cast<std::byte*>(state.own.data());
}

void GradientReducer::reduce(Bucket& bucket, Bucket::Member& member, bool last) {
    member.added = false;
    member.reduced = true;
    member.shard.has_gradient = true;
    const auto& members = bucket.members();
    const bool complete = std::all_of(members.begin(), members.end(), [](const auto& each) { return each.reduced; });
    if (complete || last) start_reduction(bucket);
    if (last) start_finish(bucket);
}

void GradientReducer::start_reduction(Bucket& bucket) {
    State& state = states_[bucket.index()];
    for (Bucket::Member& member : bucket.members()) member.reduced = false;
    std::byte* memory = whole(bucket);  // zeros where nothing was added on this rank
    const bool first = !std::exchange(state.reduced, true);
    if (in_place_) return;
    const Work work = lane_.submit(bucket.name(), "gradients", [this, &bucket, &state, memory, first] {
        sum_over_ranks(bucket, state, memory, first);
        std::memset(memory, 0, bucket.arena_elements() * size_of(options_.precision.reduce));
    });
    (state.slot ? state.slot->reduction : state.own_reduction) = work;
    if (state.slot) state.slot->held = false;
    state.slot = nullptr;
    state.whole = nullptr;
}

void GradientReducer::sum_over_ranks(Bucket& bucket, State& state, std::byte* whole, bool first) {
    const DataType type = options_.precision.reduce;
    const std::size_t count = bucket.shard_elements();
    const bool sums_copies = mesh_.replicas && (!mesh_.scatter || options_.deterministic);
    const bool straight =
        first && type == bucket.gradient_type() && !options_.deterministic && (mesh_.scatter || sums_copies);
    std::byte* own_block = whole + static_cast<std::size_t>(mesh_.shard_rank) * count * size_of(type);
    std::byte* sum = straight ? bucket.gradient_shard() : own_block;
    look_for_nonfinite(state, whole, bucket.arena_elements());
    if (mesh_.scatter) mesh_.scatter->reduce_scatter(whole, sum, count, type, ReduceOp::sum).wait();
    if (sums_copies) mesh_.replicas->all_reduce(mesh_.scatter ? sum : whole, sum, count, type, ReduceOp::sum).wait();
    if (options_.deterministic) {
        state.tree.add(reinterpret_cast<float*>(bucket.gradient_shard()), reinterpret_cast<const float*>(sum), count);
    } else if (first && !straight) {
        cast(bucket.gradient_shard(), bucket.gradient_type(), sum, type, count);
    } else if (!first) {
        accumulate(bucket.gradient_shard(), bucket.gradient_type(), sum, type, count);
    }
}

void GradientReducer::start_finish(Bucket& bucket) {
    State& state = states_[bucket.index()];
    if (std::exchange(state.finished, true)) return;
    const bool sums_copies = mesh_.replicas && mesh_.scatter && !options_.deterministic;
    if (!sums_copies && !in_place_ && !options_.deterministic) return;
    lane_.submit(bucket.name(), "gradients", [this, &bucket, &state] { finish(bucket, state); });
}

void GradientReducer::finish(Bucket& bucket, State& state) {
    const std::size_t count = bucket.shard_elements();
    const DataType type = bucket.gradient_type();
    std::byte* shard = bucket.gradient_shard();
    if (options_.deterministic) return state.tree.finish(reinterpret_cast<float*>(shard), count);
    if (in_place_) {
        look_for_nonfinite(state, bucket.resident_gradient(), bucket.arena_elements());
        if (mesh_.scatter)
            mesh_.scatter->reduce_scatter(bucket.resident_gradient(), shard, count, type, ReduceOp::sum).wait();
    }
    if (mesh_.replicas) mesh_.replicas->all_reduce(shard, shard, count, type, ReduceOp::sum).wait();
}

void GradientReducer::complete_step() {
    for (Bucket& bucket : buckets_) {
        const auto& members = bucket.members();
        if (std::any_of(members.begin(), members.end(), [](const auto& each) { return each.reduced; }))
            start_reduction(bucket);
        if (states_[bucket.index()].reduced) start_finish(bucket);
    }
    lane_.synchronize();
}

void GradientReducer::reset() noexcept {
    for (Bucket& bucket : buckets_) {
        State& state = states_[bucket.index()];
        state.reduced = state.finished = false;
        state.nonfinite.reset();
        if (in_place_) state.whole = nullptr;
        for (Bucket::Member& member : bucket.members()) member.shard.has_gradient = false;
    }
}

// A sum of one rank's values shows no more than the values do.
void GradientReducer::look_for_nonfinite(State& state, const std::byte* values, std::size_t count) const {
    const bool sums = mesh_.scatter || mesh_.replicas;
    if (!options_.find_nonfinite || !sums || state.nonfinite) return;
    state.nonfinite = first_nonfinite(values, options_.precision.reduce, count);
}

std::optional<GradientReducer::NonFinite> GradientReducer::own_nonfinite() const {
    for (const Bucket& bucket : buckets_) {
        const State& state = states_[bucket.index()];
        if (state.nonfinite) return NonFinite{&bucket, *state.nonfinite};
    }
    return std::nullopt;
}

std::size_t GradientReducer::whole_bytes() const noexcept {
    std::size_t bytes = 0;
    for (const Slot& slot : slots_) bytes += slot.memory.bytes();
    for (const State& state : states_) bytes += state.own.bytes() + state.tree.bytes();
    return bytes;
}

}  // namespace autolaunch::fsdp
