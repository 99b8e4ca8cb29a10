// Collectives of the mpi backend that reduce. Short ones in steps in which every rank takes another
// group's sum; longer ones by an exchange of slices, each reduced by one rank. Both take sums
// pairwise over the ranks.
#include "comm/even_blocks.hpp"
#include "comm/mpi/mpi_backend.hpp"
#include "comm/mpi/mpi_exchange.hpp"
#include "comm/mpi/mpi_group.hpp"
#include "comm/mpi/pairs.hpp"
#include "comm/reduce.hpp"
#include "comm/stepwise_reduction.hpp"

#include <algorithm>
#include <array>

namespace autolaunch {
namespace {

/// Slices go through a copy of every rank's piece, so their pieces are short enough to stay in
/// cache.
constexpr std::size_t kReducePieceBytes = 1 << 20;
/// Up to so many bytes reductions go in steps. With more ranks an exchange of slices has more
/// messages to pay for.
constexpr std::size_t kStepwiseBytes = 32 << 10;
constexpr std::size_t kStepwiseBytesPerRank = 2 << 10;

bool goes_stepwise(const CollectiveCall& call, int ranks) {
    const std::size_t longest =
        std::max(kStepwiseBytes, kStepwiseBytesPerRank * static_cast<std::size_t>(ranks));
    return call.count * call.element_bytes() <= longest;
}

/// One rank's sum on its way: in the caller's memory before the first step, in scratch memory
/// afterwards.
class PartialSum {
public:
    /// `memory`: 2 * count * reduction.bytes()
    PartialSum(const CollectiveCall& call, const StepwiseReduction& reduction, std::byte* memory)
        : call_(call), reduction_(reduction), own_(call.send_bytes()), memory_(memory) {
        if (!reduction.rewrites() || call.count == 0)
            return;
        reduction.prepare(call.send, memory, call.count);
        own_ = memory;
    }

    std::size_t bytes() const { return call_.count * reduction_.bytes(); }
    const std::byte* data() const { return own_; }
    std::byte* place_of_other() const { return memory_ + bytes(); }

    /// The other group's sum has come. `is_last`: the result goes straight to where the user wants
    /// it.
    void add_other(bool own_is_lower, bool is_last) {
        std::array<const void*, 2> inputs = {own_, place_of_other()};
        if (!own_is_lower)
            std::swap(inputs[0], inputs[1]);
        void* const output = is_last && !reduction_.finishes() ? call_.recv : memory_;
        reduce_elements({.inputs = inputs, .outputs = {&output, 1}}, call_.count,
                        reduction_.travelling, reduction_.step_op());
        own_ = static_cast<std::byte*>(output);
    }

    void finish() {
        if (own_ == call_.recv && !reduction_.finishes())
            return;
        if (own_ != memory_) {  // no step was taken: a group of one rank
            std::copy_n(own_, bytes(), memory_);
        }
        reduction_.finish(memory_, call_.recv, call_.count);
    }

private:
    const CollectiveCall& call_;
    const StepwiseReduction& reduction_;
    const std::byte* own_;
    std::byte* memory_;
};

}  // namespace

void MpiBackend::all_reduce(const CollectiveCall& call) {
    if (goes_stepwise(call, size()))
        return all_reduce_by_doubling(call);
    const BlockCounts slices = even_blocks(call.count, size());
    std::byte* own = call.recv_bytes() + slices.offset(rank()) * call.element_bytes();
    reduce_blocks(call.send_bytes(), own, slices, call);
    all_gather({.kind = CollectiveKind::all_gather,
                .send = own,
                .recv = call.recv,
                .blocks = slices,
                .type = call.type});
}

void MpiBackend::all_reduce_by_doubling(const CollectiveCall& call) {
    if (size() == 1)
        group_->throw_if_aborted();
    const StepwiseReduction reduction(call, size());
    PartialSum sum(call, reduction, scratch(2 * call.count * reduction.bytes()));
    for (int width = 1; width < size(); width *= 2) {
        const auto pair = mpi::pair_of(rank(), width, size());
        if (!pair)
            continue;
        const mpi::Doubling step(*pair, rank());
        exchange_->receive(sum.place_of_other(), sum.bytes(), step.receive_from, call.type);
        for (int peer = step.send_first; peer < step.send_end; peer += step.send_stride)
            exchange_->send(sum.data(), sum.bytes(), peer);
        exchange_->run(calling_);
        sum.add_other(pair->own_is_lower, width * 2 >= size());
    }
    sum.finish();
}

void MpiBackend::reduce(const CollectiveCall& call) {
    if (goes_stepwise(call, size()))
        return reduce_by_tree(call);
    const bool is_root = rank() == call.root;
    const BlockCounts slices = even_blocks(call.count, size());
    memory_->slice.resize(slices.count(rank()) * call.element_bytes());
    std::byte* own = is_root ? call.recv_bytes() + slices.offset(rank()) * call.element_bytes()
                             : memory_->slice.data();
    reduce_blocks(call.send_bytes(), own, slices, call);
    gather({.kind = CollectiveKind::gather,
            .send = own,
            .recv = call.recv,
            .blocks = slices,
            .type = call.type,
            .root = call.root});
}

void MpiBackend::reduce_by_tree(const CollectiveCall& call) {
    if (size() == 1)
        group_->throw_if_aborted();
    const StepwiseReduction reduction(call, size());
    PartialSum sum(call, reduction, scratch(2 * call.count * reduction.bytes()));
    for (int width = 1; width < size(); width *= 2) {
        const auto pair = mpi::pair_of(rank(), width, size());
        if (!pair)
            continue;
        const int other = mpi::leader_of(pair->other_first, pair->other_count, call.root);
        const int both = mpi::leader_of(std::min(pair->own_first, pair->other_first),
                                        pair->own_count + pair->other_count, call.root);
        if (both != rank()) {
            exchange_->send(sum.data(), sum.bytes(), other);
            return exchange_->run(calling_);
        }
        exchange_->receive(sum.place_of_other(), sum.bytes(), other, call.type);
        exchange_->run(calling_);
        sum.add_other(pair->own_is_lower, width * 2 >= size());
    }
    sum.finish();
}

void MpiBackend::reduce_scatter(const CollectiveCall& call) {
    reduce_blocks(call.send_bytes(), call.recv_bytes(), call.blocks, call);
}

// Rank r gets every rank's block r of `send`, in pieces, and reduces it to `recv`, which may be its
// own block of send: that one nobody else reads.
void MpiBackend::reduce_blocks(const std::byte* send, std::byte* recv, const BlockCounts& blocks,
                               const CollectiveCall& call) {
    const auto factors = factors_of(call);
    const std::size_t bytes = call.element_bytes();
    const std::size_t longest = kReducePieceBytes / bytes;
    const auto part_of = [&](int peer, std::size_t begin) {
        const std::size_t count = blocks.count(peer);
        return begin < count ? std::min(longest, count - begin) : 0;
    };
    std::byte* gathered =
        scratch(static_cast<std::size_t>(size()) * std::min(longest, blocks.longest()) * bytes);
    inputs_.resize(static_cast<std::size_t>(size()));
    if (blocks.longest() == 0)
        group_->throw_if_aborted();
    for (std::size_t begin = 0; begin < blocks.longest(); begin += longest) {
        const std::size_t own = part_of(rank(), begin);
        for (int distance = 1; distance < size(); ++distance) {
            const int next = rank_ahead(distance), previous = rank_behind(distance);
            exchange_->send(send + (blocks.offset(next) + begin) * bytes,
                            part_of(next, begin) * bytes, next);
            std::byte* at = gathered + static_cast<std::size_t>(previous) * own * bytes;
            exchange_->receive(at, own * bytes, previous, call.type);
            inputs_[static_cast<std::size_t>(previous)] = at;
        }
        exchange_->run(calling_);
        inputs_[static_cast<std::size_t>(rank())] = send + (blocks.offset(rank()) + begin) * bytes;
        void* const output = recv + begin * bytes;
        reduce_elements({.inputs = inputs_, .factors = factors, .outputs = {&output, 1}}, own,
                        call.type, call.op);
    }
}

// Each rank multiplies by a factor of its own, and whoever reduces must know them all.
std::span<const double> MpiBackend::factors_of(const CollectiveCall& call) {
    if (call.op.kind() != ReduceOp::Kind::pre_multiplied_sum)
        return {};
    auto& factors = memory_->factors;
    factors.assign(static_cast<std::size_t>(size()), call.op.factor());
    all_gather({.kind = CollectiveKind::all_gather,
                .send = &factors[static_cast<std::size_t>(rank())],
                .recv = factors.data(),
                .blocks = BlockCounts::uniform(1, size()),
                .type = DataType::f64});
    return factors;
}

}  // namespace autolaunch
