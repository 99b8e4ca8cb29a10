// Collectives of the mpi backend that reduce: by MPI, or by an exchange of slices and our own reduction.
#include "comm/mpi/mpi_exchange.hpp"
#include "comm/mpi/mpi_types.hpp"
#include "comm/reduce.hpp"

#include <cstring>

namespace autolaunch {
namespace {

/// Our own reductions go through a copy of every rank's piece, so their pieces are short enough to stay in cache.
constexpr std::size_t kReducePieceBytes = 1 << 20;
/// Up to this many bytes a rank every rank reduces everything: one exchange instead of two.
constexpr std::size_t kReduceEverywhereBytes = 4096;

const std::byte* send_bytes(const CollectiveCall& call) { return static_cast<const std::byte*>(call.send); }
std::byte* recv_bytes(const CollectiveCall& call) { return static_cast<std::byte*>(call.recv); }

/// `count` elements in as many slices as there are ranks, the first ones an element longer.
BlockCounts slices_of(std::size_t count, int ranks) {
    const auto parts = static_cast<std::size_t>(ranks);
    std::vector<std::size_t> counts(parts, count / parts);
    for (std::size_t i = 0; i < count % parts; ++i) ++counts[i];
    return BlockCounts::ragged(counts);
}

}  // namespace

void MpiBackend::all_reduce(const CollectiveCall& call) {
    if (left_to_mpi(call)) return reduce_by_mpi(call);
    if (call.count * call.element_bytes() <= kReduceEverywhereBytes) return reduce_everywhere(call, true);
    const BlockCounts slices = slices_of(call.count, size());
    std::byte* own = recv_bytes(call) + slices.offset(rank()) * call.element_bytes();
    reduce_blocks(send_bytes(call), own, slices, call);
    all_gather(
        {.kind = CollectiveKind::all_gather, .send = own, .recv = call.recv, .blocks = slices, .type = call.type});
}

void MpiBackend::reduce(const CollectiveCall& call) {
    if (left_to_mpi(call)) return reduce_by_mpi(call);
    const bool is_root = rank() == call.root;
    if (call.count * call.element_bytes() <= kReduceEverywhereBytes) return reduce_everywhere(call, is_root);
    const BlockCounts slices = slices_of(call.count, size());
    memory_->slice.resize(slices.count(rank()) * call.element_bytes());
    std::byte* own = is_root ? recv_bytes(call) + slices.offset(rank()) * call.element_bytes() : memory_->slice.data();
    reduce_blocks(send_bytes(call), own, slices, call);
    gather({.kind = CollectiveKind::gather,
            .send = own,
            .recv = call.recv,
            .blocks = slices,
            .type = call.type,
            .root = call.root});
}

void MpiBackend::reduce_scatter(const CollectiveCall& call) {
    reduce_blocks(send_bytes(call), recv_bytes(call), call.blocks, call);
}

bool MpiBackend::left_to_mpi(const CollectiveCall& call) const {
    if (options_.fixed_order) return false;
    const bool by_sum = call.op.kind() == ReduceOp::Kind::avg || call.op.kind() == ReduceOp::Kind::pre_multiplied_sum;
    return mpi::op_of(by_sum ? ReduceOp::sum : call.op, call.type) != MPI_OP_NULL;
}

// avg is a sum and a division, pre_multiplied_sum a multiplication and a sum, each rounded as our own reduction does.
void MpiBackend::reduce_by_mpi(const CollectiveCall& call) {
    const bool to_all = call.kind == CollectiveKind::all_reduce;
    const bool is_wanted = to_all || rank() == call.root;
    const bool multiplies = call.op.kind() == ReduceOp::Kind::pre_multiplied_sum;
    const bool divides = call.op.kind() == ReduceOp::Kind::avg;
    const MPI_Op op = mpi::op_of(multiplies || divides ? ReduceOp::sum : call.op, call.type);
    const std::size_t longest = multiplies ? std::min(options_.piece_elements, kReducePieceBytes / call.element_bytes())
                                           : options_.piece_elements;
    mpi::for_each_piece(call.count, longest, [&](std::size_t begin, std::size_t part) {
        const std::size_t offset = begin * call.element_bytes();
        const void* input = send_bytes(call) + offset;
        void* output = is_wanted ? recv_bytes(call) + offset : nullptr;
        if (multiplies) {
            void* product = scratch(part * call.element_bytes());
            const double factor = call.op.factor();
            reduce_elements({.inputs = {&input, 1}, .factors = {&factor, 1}, .outputs = {&product, 1}}, part, call.type,
                            call.op);
            input = product;
        }
        if (is_wanted && input == output) input = MPI_IN_PLACE;
        group_->run(calling_, [&](MPI_Request* request) {
            const auto count = static_cast<int>(part);
            const MPI_Datatype type = mpi::type_of(call.type);
            return to_all ? MPI_Iallreduce(input, output, count, type, op, group_->data(), request)
                          : MPI_Ireduce(input, output, count, type, op, call.root, group_->data(), request);
        });
        if (divides && is_wanted) {
            const void* sum = output;
            reduce_elements({.inputs = {&sum, 1}, .outputs = {&output, 1}, .ranks = static_cast<std::size_t>(size())},
                            part, call.type, call.op);
        }
    });
}

// For few bytes: every rank that wants the result takes all inputs and reduces them.
void MpiBackend::reduce_everywhere(const CollectiveCall& call, bool is_wanted) {
    const auto factors = factors_of(call);
    const auto ranks = static_cast<std::size_t>(size());
    const std::size_t bytes = call.count * call.element_bytes();
    std::byte* gathered = scratch(ranks * bytes);
    CollectiveCall inputs{.kind = CollectiveKind::all_gather,
                          .send = call.send,
                          .recv = gathered,
                          .blocks = BlockCounts::uniform(call.count, size()),
                          .type = call.type,
                          .root = call.root};
    if (call.kind == CollectiveKind::all_reduce) {
        all_gather(inputs);
    } else {
        gather(inputs);
    }
    if (!is_wanted) return;
    std::vector<const void*> by_rank;
    for (std::size_t peer = 0; peer < ranks; ++peer) by_rank.push_back(gathered + peer * bytes);
    reduce_elements({.inputs = by_rank, .factors = factors, .outputs = {&call.recv, 1}}, call.count, call.type,
                    call.op);
}

// Rank r gets every rank's block r of `send`, in pieces, and reduces it to `recv`, which may be its own block of send:
// that one nobody else reads.
void MpiBackend::reduce_blocks(const std::byte* send, std::byte* recv, const BlockCounts& blocks,
                               const CollectiveCall& call) {
    const auto factors = factors_of(call);
    const std::size_t bytes = call.element_bytes();
    const std::size_t longest = std::max<std::size_t>(kReducePieceBytes / bytes, 1);
    const auto part_of = [&](int peer, std::size_t begin) {
        const std::size_t count = blocks.count(peer);
        return begin < count ? std::min(longest, count - begin) : 0;
    };
    std::byte* gathered = scratch(static_cast<std::size_t>(size()) * std::min(longest, blocks.longest()) * bytes);
    std::vector<const void*> inputs(static_cast<std::size_t>(size()));
    for (std::size_t begin = 0; begin < blocks.longest(); begin += longest) {
        const std::size_t own = part_of(rank(), begin);
        Exchange exchange(*this, Exchange::Tag::collective);
        for (int distance = 1; distance < size(); ++distance) {
            const int next = (rank() + distance) % size();
            const int previous = (rank() + size() - distance) % size();
            std::byte* theirs = const_cast<std::byte*>(send) + (blocks.offset(next) + begin) * bytes;
            exchange.send({theirs, part_of(next, begin) * bytes, next, call.type});
            std::byte* at = gathered + static_cast<std::size_t>(previous) * own * bytes;
            exchange.receive({at, own * bytes, previous, call.type});
            inputs[static_cast<std::size_t>(previous)] = at;
        }
        exchange.run(calling_);
        inputs[static_cast<std::size_t>(rank())] = send + (blocks.offset(rank()) + begin) * bytes;
        void* const output = recv + begin * bytes;
        reduce_elements({.inputs = inputs, .factors = factors, .outputs = {&output, 1}}, own, call.type, call.op);
    }
}

// Each rank multiplies by a factor of its own, and whoever reduces must know them all.
std::span<const double> MpiBackend::factors_of(const CollectiveCall& call) {
    if (call.op.kind() != ReduceOp::Kind::pre_multiplied_sum) return {};
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
