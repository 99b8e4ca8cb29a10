#include "fsdp/gradient_reducer.hpp"

#include "fsdp/hidden_bytes.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace autolaunch::fsdp {

namespace {

constexpr std::uint64_t kNone = ~std::uint64_t{0};

}  // namespace

GradientReducer::GradientReducer(std::deque<Bucket>& buckets, ShardMesh& mesh, ModelDevice& device,
                                 Lane& lane, const ShardedModelOptions& options, bool hide)
    : buckets_(buckets),
      mesh_(mesh),
      device_(device),
      lane_(lane),
      options_(options),
      free_byte_(hide ? kHiddenByte : std::uint8_t{0}),
      sums_in_place_(options.precision.reduce == options.precision.accumulate &&
                     !options.deterministic),
      states_(buckets.size()) {}

// The lane's jobs are over, for it ends before; what clears the marks is on the trainer's stream.
GradientReducer::~GradientReducer() {
    try {
        device_.wait(used_up_);
    } catch (const std::exception&) {  // the GPU is lost
    }
}

void GradientReducer::allocate() {
    std::size_t largest = 0, count = 0;
    const auto& peers = mesh_.scatter ? mesh_.scatter : mesh_.replicas;
    for (Bucket& bucket : buckets_) {
        if (!bucket.is_trainable())
            continue;
        bucket.allocate_gradients(mesh_, device_, is_in_place(bucket));
        const std::size_t bytes = bytes_of(bucket);
        if (bucket.keeps_whole_gradient()) {
            if (!sums_in_place_)
                states_[bucket.index()].own = device_.allocate(peers, bytes);
            continue;
        }
        largest = std::max(largest, bytes);
        ++count;
    }
    const std::size_t slots = std::min(count, static_cast<std::size_t>(options_.reduce_slots));
    for (std::size_t i = 0; i < slots; ++i)
        slots_.emplace_back().memory = device_.allocate(peers, largest);
    nonfinite_ = device_.allocate({}, buckets_.size() * sizeof(std::uint64_t));
    forget_nonfinite(device_.stream_for({}));
    if (options_.deterministic)
        allocate_ordered_sums();
    allocated_ = true;
}

void GradientReducer::allocate_ordered_sums() {
    std::size_t shard = 0;
    for (const Bucket& bucket : buckets_)
        if (bucket.is_trainable())
            shard = std::max(shard, bucket.shard_elements());
    const std::size_t most = exchange_elements(shard, static_cast<std::size_t>(mesh_.shard_count),
                                               static_cast<std::size_t>(mesh_.replica_count));
    if (most > 0)
        ordered_ = device_.make_ordered_sums(mesh_.scatter ? mesh_.scatter : mesh_.replicas, most);
}

void GradientReducer::forget_nonfinite(Stream stream) {
    device_.fill(nonfinite_.data(), 0xff, nonfinite_.bytes(), stream);
    used_up_ = device_.record(stream);
}

// The trainer may go over to another stream in any call.
std::byte* GradientReducer::whole(Bucket& bucket, Stream stream) {
    State& state = states_[bucket.index()];
    if (!state.whole)
        begin_whole(bucket, state, stream);
    device_.wait(stream, state.ready);
    return state.whole;
}

// Slots and own whole gradients are zero whenever they are free: the lane clears them behind the
// reduction. Those that are hidden meanwhile are cleared here.
void GradientReducer::begin_whole(Bucket& bucket, State& state, Stream stream) {
    if (is_in_place(bucket)) {
        state.whole = bucket.resident_gradient();
        device_.wait(stream, used_up_);
        device_.fill(state.whole, 0, bucket.gradient_bytes(), stream);
        state.ready = device_.record(stream);
        return;
    }
    state.slot = state.own.data() ? nullptr : free_slot();
    if (state.slot) {
        state.slot->held = true;
        state.ready = state.slot->reduction;
        state.whole = static_cast<std::byte*>(state.slot->memory.data());
    } else {
        take_own(bucket, state);
        state.ready = state.own_reduction;
        state.whole = static_cast<std::byte*>(state.own.data());
    }
    if (free_byte_ != 0) {
        device_.wait(stream, state.ready);
        device_.fill(state.whole, 0, bytes_of(bucket), stream);
    }
}

// The one whose reduction began first, on all ranks the same. Null when backward still adds to all
// of them: several units' gradients are complete only later, as with tied parameters or with
// accumulation without reduce_grads().
GradientReducer::Slot* GradientReducer::free_slot() {
    Slot* soonest = nullptr;
    for (Slot& slot : slots_)
        if (!slot.held && (!soonest || slot.turn < soonest->turn))
            soonest = &slot;
    return soonest;
}

void GradientReducer::take_own(Bucket& bucket, State& state) {
    if (!state.own.data())  // no collective allocation: another rank may have a slot free
        state.own = device_.allocate({}, bytes_of(bucket));
}

void GradientReducer::reduce(Bucket& bucket, Bucket::Member& member, bool last, Stream stream) {
    member.added = false;
    member.reduced = true;
    member.shard.has_gradient = true;
    const auto& members = bucket.members();
    const bool complete =
        std::all_of(members.begin(), members.end(), [](const auto& each) { return each.reduced; });
    if (complete || last) {
        start_reduction(bucket, stream);
    } else if (Fence added = device_.record(stream); added.event) {
        states_[bucket.index()].added.push_back(std::move(added));
    }
    if (last)
        start_finish(bucket, stream);
}

// After what is on the stream, and was on other members' streams: backward, and the optimizer that
// read the shard.
Fence GradientReducer::submit(Bucket& bucket, Lane::Job job, Stream stream) {
    std::vector<Fence> after = {device_.record(stream), used_up_};
    for (Fence& added : std::exchange(states_[bucket.index()].added, {}))
        after.push_back(std::move(added));
    Fence done = lane_.submit(bucket.name(), "gradients", std::move(job), after);
    if (!lane_.is_beside())
        device_.wait(stream, done);
    return done;
}

void GradientReducer::start_reduction(Bucket& bucket, Stream stream) {
    State& state = states_[bucket.index()];
    for (Bucket::Member& member : bucket.members())
        member.reduced = false;
    std::byte* memory = whole(bucket, stream);  // zeros where nothing was added on this rank
    const bool first = !std::exchange(state.reduced, true);
    if (is_in_place(bucket))
        return;
    Fence done = submit(
        bucket,
        [this, &bucket, &state, memory, first](Stream lane) {
            sum_over_ranks(bucket, state, memory, first, lane);
            device_.fill(memory, free_byte_, bytes_of(bucket), lane);
        },
        stream);
    (state.slot ? state.slot->reduction : state.own_reduction) = std::move(done);
    if (state.slot) {
        state.slot->held = false;
        state.slot->turn = ++turns_;
    }
    state.slot = nullptr;
    state.whole = nullptr;
}

void GradientReducer::sum_over_ranks(Bucket& bucket, State& state, std::byte* whole, bool first,
                                     Stream stream) {
    const DataType type = options_.precision.reduce;
    const std::size_t count = bucket.shard_elements();
    const bool sums_copies = mesh_.replicas && (!mesh_.scatter || options_.deterministic);
    const bool straight = first && type == bucket.gradient_type() && !options_.deterministic &&
                          (mesh_.scatter || sums_copies);
    std::byte* own_block =
        whole + static_cast<std::size_t>(mesh_.shard_rank) * count * size_of(type);
    std::byte* sum = straight ? bucket.gradient_shard() : own_block;
    look_for_nonfinite(bucket, whole, stream);
    if (mesh_.scatter)
        sum_shards(whole, sum, count, stream);
    if (sums_copies)
        sum_copies(mesh_.scatter ? sum : whole, sum, count, stream);
    if (options_.deterministic) {
        state.tree.add(device_, reinterpret_cast<float*>(bucket.gradient_shard()),
                       reinterpret_cast<const float*>(sum), count, stream);
    } else if (first && !straight) {
        device_.cast(bucket.gradient_shard(), bucket.gradient_type(), sum, type, count, stream);
    } else if (!first) {
        device_.accumulate(bucket.gradient_shard(), bucket.gradient_type(), sum, type, count,
                           stream);
    }
}

void GradientReducer::sum_shards(std::byte* whole, std::byte* sum, std::size_t count,
                                 Stream stream) {
    if (ordered_)
        return ordered_->reduce_scatter(*mesh_.scatter, reinterpret_cast<float*>(whole), count,
                                        stream);
    mesh_.scatter->reduce_scatter(whole, sum, count, options_.precision.reduce, ReduceOp::sum,
                                  stream);
}

void GradientReducer::sum_copies(const std::byte* values, std::byte* sum, std::size_t count,
                                 Stream stream) {
    if (ordered_)
        return ordered_->all_reduce(*mesh_.replicas, reinterpret_cast<float*>(sum), count, stream);
    mesh_.replicas->all_reduce(values, sum, count, options_.precision.reduce, ReduceOp::sum,
                               stream);
}

void GradientReducer::start_finish(Bucket& bucket, Stream stream) {
    State& state = states_[bucket.index()];
    if (std::exchange(state.finished, true))
        return;
    const bool sums_copies = mesh_.replicas && mesh_.scatter && !options_.deterministic;
    if (!sums_copies && !is_in_place(bucket) && !options_.deterministic)
        return;
    submit(
        bucket, [this, &bucket, &state](Stream lane) { finish(bucket, state, lane); }, stream);
}

void GradientReducer::finish(Bucket& bucket, State& state, Stream stream) {
    const std::size_t count = bucket.shard_elements();
    const DataType type = bucket.gradient_type();
    std::byte* shard = bucket.gradient_shard();
    if (options_.deterministic)
        return state.tree.finish(device_, reinterpret_cast<float*>(shard), count, stream);
    if (is_in_place(bucket)) {
        look_for_nonfinite(bucket, bucket.resident_gradient(), stream);
        if (mesh_.scatter)
            mesh_.scatter->reduce_scatter(bucket.resident_gradient(), shard, count, type,
                                          ReduceOp::sum, stream);
    }
    if (mesh_.replicas)
        mesh_.replicas->all_reduce(shard, shard, count, type, ReduceOp::sum, stream);
}

void GradientReducer::complete_step(Stream stream) {
    for (Bucket& bucket : buckets_) {
        const auto& members = bucket.members();
        if (std::any_of(members.begin(), members.end(),
                        [](const auto& each) { return each.reduced; }))
            start_reduction(bucket, stream);
        if (states_[bucket.index()].reduced)
            start_finish(bucket, stream);
    }
    device_.wait(stream, lane_.latest());
    lane_.check();
}

void GradientReducer::reset(Stream stream) {
    for (Bucket& bucket : buckets_) {
        State& state = states_[bucket.index()];
        state.reduced = state.finished = false;
        if (is_in_place(bucket))
            state.whole = nullptr;
        for (Bucket::Member& member : bucket.members())
            member.shard.has_gradient = false;
    }
    forget_nonfinite(stream);
}

// Held slots are the trainer's; all others are clear when the lane is through.
void GradientReducer::discard(Stream stream) {
    if (!allocated_)
        return;
    lane_.synchronize();
    for (Bucket& bucket : buckets_) {
        State& state = states_[bucket.index()];
        for (const Fence& added : std::exchange(state.added, {}))
            device_.wait(stream, added);
        if (state.whole && !is_in_place(bucket)) {
            device_.wait(stream, state.ready);
            device_.fill(state.whole, free_byte_, bytes_of(bucket), stream);
            Fence zero = device_.record(stream);
            (state.slot ? state.slot->reduction : state.own_reduction) = std::move(zero);
            if (state.slot)
                state.slot->held = false;
        }
        state.slot = nullptr;
        state.whole = nullptr;
        state.tree.discard();
        for (Bucket::Member& member : bucket.members())
            member.added = member.reduced = false;
    }
    reset(stream);
}

// A sum of one rank's values shows no more than the values do.
void GradientReducer::look_for_nonfinite(const Bucket& bucket, const std::byte* values,
                                         Stream stream) const {
    const bool sums = mesh_.scatter || mesh_.replicas;
    if (!options_.find_nonfinite || !sums)
        return;
    device_.find_nonfinite(values, options_.precision.reduce, bucket.arena_elements(),
                           static_cast<std::uint64_t*>(nonfinite_.data()) + bucket.index(), stream);
}

std::optional<GradientReducer::NonFinite> GradientReducer::own_nonfinite(Stream stream) const {
    std::vector<std::uint64_t> first(buckets_.size(), kNone);
    device_.read(first.data(), nonfinite_.data(), first.size() * sizeof first[0], stream);
    for (const Bucket& bucket : buckets_)
        if (first[bucket.index()] != kNone)
            return NonFinite{&bucket, first[bucket.index()]};
    return std::nullopt;
}

std::size_t GradientReducer::whole_bytes() const noexcept {
    std::size_t bytes = 0;
    for (const Slot& slot : slots_)
        bytes += slot.memory.bytes();
    for (const State& state : states_)
        bytes += state.own.bytes() + state.tree.bytes();
    return bytes + (ordered_ ? ordered_->bytes() : 0);
}

}  // namespace autolaunch::fsdp
