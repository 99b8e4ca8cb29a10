// Collectives of the hierarchical backend that only copy.
#include "comm/copy_unless_same.hpp"
#include "comm/hierarchical/hierarchical_backend.hpp"

namespace autolaunch {
namespace {

/// Below this one rank of the node does all: slices would only add steps.
constexpr std::size_t kSliceFromBytes = 8192;
/// Slices start on cache lines where the buffer does.
constexpr std::size_t kSliceQuantumBytes = 64;

}  // namespace

BlockCounts HierarchicalBackend::slices_of(std::size_t count, DataType type, int only) const {
    const auto parts = static_cast<std::size_t>(ranks_per_node());
    std::vector<std::size_t> counts(parts, 0);
    const std::size_t quantum = kSliceQuantumBytes / size_of(type);
    if (count * size_of(type) < kSliceFromBytes) {
        counts[static_cast<std::size_t>(only)] = count;
        return BlockCounts::ragged(counts);
    }
    const std::size_t each = (count / parts / quantum + 1) * quantum;
    for (std::size_t i = 0, left = count; i < parts; ++i, left -= counts[i - 1])
        counts[i] = std::min(each, left);
    return BlockCounts::ragged(counts);
}

std::vector<std::size_t> HierarchicalBackend::segment_counts(const BlockCounts& blocks,
                                                             int node) const {
    std::vector<std::size_t> counts;
    for (int i = 0; i < ranks_per_node(); ++i)
        counts.push_back(blocks.count(node * ranks_per_node() + i));
    return counts;
}

BlockCounts HierarchicalBackend::segment(const BlockCounts& blocks, int node) const {
    return BlockCounts::ragged(segment_counts(blocks, node));
}

std::size_t HierarchicalBackend::segment_offset(const BlockCounts& blocks, int node) const {
    return blocks.offset(node * ranks_per_node());
}

BlockCounts HierarchicalBackend::segment_totals(const BlockCounts& blocks) const {
    std::vector<std::size_t> totals;
    for (int node = 0; node < nodes(); ++node)
        totals.push_back(segment(blocks, node).total());
    return BlockCounts::ragged(totals);
}

void HierarchicalBackend::share_slices(std::byte* data, const BlockCounts& slices, DataType type) {
    within_node({.kind = CollectiveKind::all_gather,
                 .send = data + slices.offset(local_rank()) * size_of(type),
                 .recv = data,
                 .blocks = slices,
                 .type = type});
}

// The root's node cuts the buffer in slices; each crosses between ranks of one local rank; every
// node puts them together.
void HierarchicalBackend::broadcast(const CollectiveCall& call) {
    const int root_node = call.root / ranks_per_node();
    const int root_local = call.root % ranks_per_node();
    const BlockCounts slices = slices_of(call.count, call.type, root_local);
    std::byte* own = call.recv_bytes() + slices.offset(local_rank()) * call.element_bytes();
    if (node() == root_node) {
        within_node({.kind = CollectiveKind::scatter,
                     .send = call.recv,
                     .recv = own,
                     .blocks = slices,
                     .type = call.type,
                     .root = root_local});
    }
    between_nodes({.kind = CollectiveKind::broadcast,
                   .recv = own,
                   .count = slices.count(local_rank()),
                   .type = call.type,
                   .root = root_node});
    share_slices(call.recv_bytes(), slices, call.type);
}

// Every block crosses to the ranks of its own local rank, to its place; then each node shares node
// by node.
void HierarchicalBackend::all_gather(const CollectiveCall& call) {
    const std::size_t bytes = call.element_bytes();
    const auto place = [&](int node) {
        return call.recv_bytes() +
               call.blocks.offset(node * ranks_per_node() + local_rank()) * bytes;
    };
    const std::size_t own_count = call.blocks.count(rank());
    copy_unless_same(place(node()), call.send_bytes(), own_count * bytes);
    std::vector<CollectiveCall> messages;
    for (int distance = 1; distance < nodes(); ++distance) {
        const int next = (node() + distance) % nodes();
        const int previous = (node() + nodes() - distance) % nodes();
        messages.push_back({.kind = CollectiveKind::send,
                            .send = place(node()),
                            .count = own_count,
                            .type = call.type,
                            .root = next});
        messages.push_back({.kind = CollectiveKind::recv,
                            .recv = place(previous),
                            .count = call.blocks.count(previous * ranks_per_node() + local_rank()),
                            .type = call.type,
                            .root = previous});
    }
    between_nodes(messages);
    for (int node = 0; node < nodes(); ++node) {
        within_node({.kind = CollectiveKind::all_gather,
                     .send = place(node),
                     .recv = call.recv_bytes() + segment_offset(call.blocks, node) * bytes,
                     .blocks = segment(call.blocks, node),
                     .type = call.type});
    }
}

// Blocks for this node through shared memory, all others straight to their rank.
void HierarchicalBackend::all_to_all(const CollectiveCall& call) {
    const std::size_t bytes = call.element_bytes();
    const std::byte* from = call.send_bytes();
    if (from == call.recv) {
        reserve_scratch(call.blocks.total() * bytes);
        copy_unless_same(scratch_->data(), from, call.blocks.total() * bytes);
        from = scratch_->data();
    }
    std::vector<CollectiveCall> messages;
    for (int distance = 1; distance < size(); ++distance) {
        const int next = (rank() + distance) % size();
        const int previous = (rank() + size() - distance) % size();
        if (next / ranks_per_node() != node())
            messages.push_back({.kind = CollectiveKind::send,
                                .send = from + call.blocks.offset(next) * bytes,
                                .count = call.blocks.count(next),
                                .type = call.type,
                                .root = next});
        if (previous / ranks_per_node() != node())
            messages.push_back(
                {.kind = CollectiveKind::recv,
                 .recv = call.recv_bytes() + call.recv_blocks.offset(previous) * bytes,
                 .count = call.recv_blocks.count(previous),
                 .type = call.type,
                 .root = previous});
    }
    between_ranks(messages);
    within_node({.kind = CollectiveKind::all_to_all,
                 .send = from + segment_offset(call.blocks, node()) * bytes,
                 .recv = call.recv_bytes() + segment_offset(call.recv_blocks, node()) * bytes,
                 .blocks = segment(call.blocks, node()),
                 .recv_blocks = segment(call.recv_blocks, node()),
                 .type = call.type});
}

// On every node the rank of the root's local rank gathers; then these send to the root, to the
// nodes' places.
void HierarchicalBackend::gather(const CollectiveCall& call) {
    const int root_node = call.root / ranks_per_node();
    const int leader = call.root % ranks_per_node();
    const BlockCounts own = segment(call.blocks, node());
    std::byte* gathered = nullptr;
    if (rank() == call.root) {
        gathered = call.recv_bytes() + segment_offset(call.blocks, node()) * call.element_bytes();
    } else if (local_rank() == leader) {
        reserve_scratch(own.total() * call.element_bytes());
        gathered = scratch_->data();
    }
    within_node({.kind = CollectiveKind::gather,
                 .send = call.send,
                 .recv = gathered,
                 .blocks = own,
                 .type = call.type,
                 .root = leader});
    if (local_rank() != leader)
        return;
    between_nodes({.kind = CollectiveKind::gather,
                   .send = gathered,
                   .recv = call.recv,
                   .blocks = segment_totals(call.blocks),
                   .type = call.type,
                   .root = root_node});
}

void HierarchicalBackend::scatter(const CollectiveCall& call) {
    const int root_node = call.root / ranks_per_node();
    const int leader = call.root % ranks_per_node();
    const BlockCounts own = segment(call.blocks, node());
    const std::byte* to_scatter = nullptr;
    if (local_rank() == leader) {
        std::byte* received = nullptr;
        if (rank() == call.root) {  // in place: MPI writes nothing there
            received = const_cast<std::byte*>(call.send_bytes()) +
                       segment_offset(call.blocks, node()) * call.element_bytes();
        } else {
            reserve_scratch(own.total() * call.element_bytes());
            received = scratch_->data();
        }
        between_nodes({.kind = CollectiveKind::scatter,
                       .send = call.send,
                       .recv = received,
                       .blocks = segment_totals(call.blocks),
                       .type = call.type,
                       .root = root_node});
        to_scatter = received;
    }
    within_node({.kind = CollectiveKind::scatter,
                 .send = to_scatter,
                 .recv = call.recv,
                 .blocks = own,
                 .type = call.type,
                 .root = leader});
}

}  // namespace autolaunch
