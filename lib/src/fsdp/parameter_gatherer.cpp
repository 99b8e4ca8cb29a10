#include "fsdp/parameter_gatherer.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace autolaunch::fsdp {

ParameterGatherer::ParameterGatherer(std::deque<Bucket>& buckets, ShardMesh& mesh,
                                     ModelDevice& device, Lane& lane, std::size_t slots, bool hide)
    : mesh_(mesh), device_(device), lane_(lane), states_(buckets.size()) {
    for (const bool trainable : {false, true}) {
        std::size_t largest = 0, count = 0;
        for (const Bucket& bucket : buckets) {
            if (bucket.is_resident() || bucket.is_trainable() != trainable)
                continue;
            largest = std::max(largest, bucket.arena_elements() * size_of(bucket.param_type()));
            ++count;
        }
        if (count == 0)
            continue;
        std::vector<std::byte*> places;
        for (std::size_t i = 0; i < std::min(slots, count); ++i) {
            memory_.push_back(device_.allocate(mesh_.gather, largest));
            places.push_back(static_cast<std::byte*>(memory_.back().data()));
        }
        slots_[trainable ? 1 : 0] = GatherSlots(
            std::move(places), largest,
            [this](std::size_t bytes) { return device_.allocate({}, bytes); }, hide);
    }
}

// The lane's jobs are over, for it ends before; what reads and writes parameters is on the
// trainer's streams.
ParameterGatherer::~ParameterGatherer() {
    try {
        device_.wait(written_);
        for (const auto& [arena, streams] : readers_)
            for (const auto& [handle, read] : streams)
                device_.wait(read);
    } catch (const std::exception&) {  // the GPU is lost
    }
}

void ParameterGatherer::open(Bucket& bucket) {
    prefetch(bucket);
    if (states_[bucket.index()].scopes++ == 0 && !bucket.is_resident())
        slots_of(bucket).hold(bucket.index());
}

void ParameterGatherer::read_on(Bucket& bucket, Stream stream) noexcept {
    try {
        Fence read = device_.record(stream);
        if (read.event)
            readers_[arena(bucket)][stream.handle()] = std::move(read);
    } catch (const std::exception&) {  // the GPU is lost; the next call says so
    }
}

void ParameterGatherer::close(Bucket& bucket) noexcept {
    if (--states_[bucket.index()].scopes == 0 && !bucket.is_resident())
        slots_of(bucket).let_go(bucket.index());
}

bool ParameterGatherer::prefetch(Bucket& bucket) {
    State& state = states_[bucket.index()];
    const bool is_away = bucket.is_resident()
                             ? !std::exchange(state.whole, true) && mesh_.shard_count > 1
                             : slots_of(bucket).keep(bucket.index());
    if (is_away)
        gather(bucket);
    return is_away;
}

void ParameterGatherer::gather(Bucket& bucket) {
    ++gather_count_;
    const std::byte* send = bucket.param_shard();
    std::byte* recv = arena(bucket);
    std::vector<Fence> after = {written_};
    if (const auto found = readers_.find(recv); found != readers_.end()) {
        for (auto& [stream, read] : found->second)
            after.push_back(std::move(read));
        readers_.erase(found);
    }
    states_[bucket.index()].gather = lane_.submit(
        bucket.name(), "parameters",
        [this, send, recv, count = bucket.shard_elements(), type = bucket.param_type()](
            Stream stream) { mesh_.gather->all_gather(send, recv, count, type, stream); },
        after);
}

// Where nothing is gathered the parameters are there when they are written.
void ParameterGatherer::wait(Bucket& bucket, Stream stream) {
    device_.wait(stream, mesh_.shard_count > 1 ? states_[bucket.index()].gather : written_);
}

std::byte* ParameterGatherer::arena(const Bucket& bucket) const noexcept {
    if (bucket.is_resident())
        return bucket.resident_arena();
    return slots_[bucket.is_trainable() ? 1 : 0].memory_of(bucket.index());
}

void ParameterGatherer::begin_writing(Stream stream) {
    device_.wait(stream, lane_.latest());
    for (const auto& [arena, streams] : readers_)
        for (const auto& [handle, read] : streams)
            device_.wait(stream, read);
}

void ParameterGatherer::invalidate(Fence written) noexcept {
    written_ = std::move(written);
    for (State& state : states_)
        state.whole = false;
    for (GatherSlots& slots : slots_)
        slots.clear();
}

std::size_t ParameterGatherer::slot_bytes() const noexcept {
    std::size_t bytes = 0;
    for (const auto& memory : memory_)
        bytes += memory.bytes();
    for (const GatherSlots& slots : slots_)
        bytes += slots.extra_bytes();
    return bytes;
}

}  // namespace autolaunch::fsdp
