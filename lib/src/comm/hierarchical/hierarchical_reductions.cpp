// Collectives of the hierarchical backend that reduce.
#include "comm/even_blocks.hpp"
#include "comm/hierarchical/hierarchical_backend.hpp"
#include "comm/stepwise_reduction.hpp"

#include <algorithm>

namespace autolaunch {
namespace {

/// What is rewritten before it is reduced goes in pieces of so many elements, which stay in cache.
constexpr std::size_t kPieceElements = 256 * 1024;

/// How much of a block of `count` elements is in the piece of `most` that starts at `begin`.
std::size_t capped(std::size_t count, std::size_t begin, std::size_t most) {
    return begin < count ? std::min(most, count - begin) : 0;
}

}  // namespace

void HierarchicalBackend::all_reduce(const CollectiveCall& call) {
    const StepwiseReduction reduction(call, size());
    const std::size_t piece =
        reduction.rewrites() ? kPieceElements : std::max<std::size_t>(call.count, 1);
    for (std::size_t begin = 0; begin < call.count; begin += piece) {
        const std::size_t count = std::min(piece, call.count - begin);
        const void* input = call.send_bytes() + begin * call.element_bytes();
        std::byte* output = call.recv_bytes() + begin * call.element_bytes();
        const BlockCounts slices = slices_of(count, call.type);
        const std::size_t own_count = slices.count(local_rank());
        std::byte* own = output + slices.offset(local_rank()) * call.element_bytes();
        std::byte* partial = own;
        if (reduction.rewrites()) {
            reserve_scratch((count + own_count) * reduction.bytes());
            reduction.prepare(input, scratch_->data(), count);
            input = scratch_->data();
            partial = scratch_->data() + count * reduction.bytes();
        }
        within_node({.kind = CollectiveKind::reduce_scatter,
                     .send = input,
                     .recv = partial,
                     .blocks = slices,
                     .type = reduction.travelling,
                     .op = reduction.step_op()});
        if (reduction.halves) {  // f32 to where the sum ends, and halves from there
            const BlockCounts parts = even_blocks(own_count, nodes());
            std::byte* part = partial + parts.offset(node()) * reduction.bytes();
            std::byte* place = own + parts.offset(node()) * call.element_bytes();
            between_nodes({.kind = CollectiveKind::reduce_scatter,
                           .send = partial,
                           .recv = part,
                           .blocks = parts,
                           .type = reduction.travelling,
                           .op = reduction.step_op()});
            reduction.finish(part, place, parts.count(node()));
            between_nodes({.kind = CollectiveKind::all_gather,
                           .send = place,
                           .recv = own,
                           .blocks = parts,
                           .type = call.type});
        } else {
            between_nodes({.kind = CollectiveKind::all_reduce,
                           .send = partial,
                           .recv = partial,
                           .count = own_count,
                           .type = call.type,
                           .op = reduction.step_op()});
            reduction.finish(partial, own, own_count);
        }
        share_slices(output, slices, call.type);
    }
}

void HierarchicalBackend::reduce(const CollectiveCall& call) {
    const StepwiseReduction reduction(call, size());
    const int root_node = call.root / ranks_per_node();
    const int root_local = call.root % ranks_per_node();
    for (std::size_t begin = 0; begin < call.count; begin += kPieceElements) {
        const std::size_t count = std::min(kPieceElements, call.count - begin);
        const void* input = call.send_bytes() + begin * call.element_bytes();
        const BlockCounts slices = slices_of(count, call.type, root_local);
        const std::size_t own_count = slices.count(local_rank());
        const std::size_t prepared = reduction.rewrites() ? count : 0;
        reserve_scratch((prepared + 2 * own_count) * reduction.bytes());
        std::byte* partial = scratch_->data() + prepared * reduction.bytes();
        std::byte* finished = partial + own_count * reduction.bytes();
        if (reduction.rewrites()) {
            reduction.prepare(input, scratch_->data(), count);
            input = scratch_->data();
        }
        within_node({.kind = CollectiveKind::reduce_scatter,
                     .send = input,
                     .recv = partial,
                     .blocks = slices,
                     .type = reduction.travelling,
                     .op = reduction.step_op()});
        between_nodes({.kind = CollectiveKind::reduce,
                       .send = partial,
                       .recv = partial,
                       .count = own_count,
                       .type = reduction.travelling,
                       .op = reduction.step_op(),
                       .root = root_node});
        if (node() != root_node)
            continue;
        reduction.finish(partial, finished, own_count);
        within_node({.kind = CollectiveKind::gather,
                     .send = finished,
                     .recv = rank() == call.root ? call.recv_bytes() + begin * call.element_bytes()
                                                 : nullptr,
                     .blocks = slices,
                     .type = call.type,
                     .root = root_local});
    }
}

// Node by node, the ranks of this node reduce what belongs to that node's ranks; then each sends
// its local rank's sums there. A piece is the same stretch of every rank's block.
void HierarchicalBackend::reduce_scatter(const CollectiveCall& call) {
    const StepwiseReduction reduction(call, size());
    const auto ranks = static_cast<std::size_t>(size());
    const std::size_t piece = reduction.rewrites()
                                  ? std::max<std::size_t>(kPieceElements / ranks, 1)
                                  : call.blocks.longest();
    for (std::size_t begin = 0; begin < call.blocks.longest(); begin += piece) {
        std::vector<std::size_t> mine;  // by node: what its rank of this local rank gets
        for (int node = 0; node < nodes(); ++node)
            mine.push_back(
                capped(call.blocks.count(node * ranks_per_node() + local_rank()), begin, piece));
        const BlockCounts partials = BlockCounts::ragged(mine);
        const std::size_t prepared =
            reduction.rewrites() ? piece * static_cast<std::size_t>(ranks_per_node()) : 0;
        const std::size_t own_count = partials.count(node());
        reserve_scratch((prepared + partials.total() + own_count) * reduction.bytes());
        std::byte* const at = scratch_->data() + prepared * reduction.bytes();
        std::byte* const sums = at + partials.total() * reduction.bytes();
        for (int node = 0; node < nodes(); ++node)
            reduce_segment(call, reduction, node, begin, piece,
                           at + partials.offset(node) * reduction.bytes());
        between_nodes({.kind = CollectiveKind::reduce_scatter,
                       .send = at,
                       .recv = sums,
                       .blocks = partials,
                       .type = reduction.travelling,
                       .op = reduction.step_op()});
        reduction.finish(sums, call.recv_bytes() + begin * call.element_bytes(), own_count);
    }
}

void HierarchicalBackend::reduce_segment(const CollectiveCall& call,
                                         const StepwiseReduction& reduction, int node,
                                         std::size_t begin, std::size_t piece, std::byte* partial) {
    std::vector<std::size_t> counts = segment_counts(call.blocks, node);
    for (std::size_t& count : counts)
        count = capped(count, begin, piece);
    const void* input =
        call.send_bytes() + segment_offset(call.blocks, node) * call.element_bytes();
    if (reduction.rewrites()) {
        std::byte* to = scratch_->data();
        for (int i = 0; i < ranks_per_node(); ++i) {
            const std::size_t count = counts[static_cast<std::size_t>(i)];
            const std::size_t from = call.blocks.offset(node * ranks_per_node() + i) + begin;
            if (count != 0)
                reduction.prepare(call.send_bytes() + from * call.element_bytes(), to, count);
            to += count * reduction.bytes();
        }
        input = scratch_->data();
    }
    within_node({.kind = CollectiveKind::reduce_scatter,
                 .send = input,
                 .recv = partial,
                 .blocks = BlockCounts::ragged(counts),
                 .type = reduction.travelling,
                 .op = reduction.step_op()});
}

}  // namespace autolaunch
