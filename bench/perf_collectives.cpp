#include "perf_collectives.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

namespace autolaunch::bench {
namespace {

std::size_t bytes_of(const PerfCase& one) { return one.each * size_of(one.type); }

CollectiveCall call_of(const PerfCase& one, const CallBuffers& at, CollectiveKind kind) {
    return {.kind = kind,
            .send = at.send,
            .recv = at.recv,
            .type = one.type,
            .op = one.op,
            .root = one.root};
}

std::vector<Step> one_call(CollectiveCall call) {
    std::vector<Step> steps(1);
    steps[0].calls.push_back(std::move(call));
    return steps;
}

template <CollectiveKind kind>
std::vector<Step> counted(const PerfCase& one, const CallBuffers& at) {
    CollectiveCall call = call_of(one, at, kind);
    call.count = one.each;
    return one_call(std::move(call));
}

template <CollectiveKind kind>
std::vector<Step> blocked(const PerfCase& one, const CallBuffers& at) {
    CollectiveCall call = call_of(one, at, kind);
    call.blocks = BlockCounts::uniform(one.each, one.size);
    if (kind == CollectiveKind::all_to_all)
        call.recv_blocks = call.blocks;
    return one_call(std::move(call));
}

// One buffer: the root's is the one that it would send, so that its part of the time is no copy of
// its own.
std::vector<Step> broadcast(const PerfCase& one, const CallBuffers& at) {
    CollectiveCall call = call_of(one, at, CollectiveKind::broadcast);
    call.send = nullptr;
    call.recv = one.rank == one.root ? at.send : at.recv;
    call.count = one.each;
    return one_call(std::move(call));
}

Step local_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    Step step;
    step.copy_to = to;
    step.copy_from = from;
    step.copy_bytes = bytes;
    return step;
}

Step send_and_receive(const PerfCase& one, const std::byte* send, int to, std::byte* recv, int from,
                      std::size_t count) {
    Step step;
    step.calls.push_back(
        {.kind = CollectiveKind::send, .send = send, .count = count, .type = one.type, .root = to});
    step.calls.push_back({.kind = CollectiveKind::recv,
                          .recv = recv,
                          .count = count,
                          .type = one.type,
                          .root = from});
    return step;
}

/// Each rank sends to the next and receives from the one before.
std::vector<Step> ring(const PerfCase& one, const CallBuffers& at) {
    const int next = (one.rank + 1) % one.size;
    const int previous = (one.rank + one.size - 1) % one.size;
    if (one.size == 1)
        return {local_copy(at.recv, at.send, bytes_of(one))};
    return {send_and_receive(one, at.send, next, at.recv, previous, one.each)};
}

/// An all-gather that doubles what each rank has in every exchange with a neighbour along one edge
/// of the cube.
std::vector<Step> hypercube(const PerfCase& one, const CallBuffers& at) {
    const auto block = [&](int rank) {
        return at.recv + static_cast<std::size_t>(rank) * bytes_of(one);
    };
    std::vector<Step> steps;
    if (block(one.rank) != at.send)
        steps.push_back(local_copy(block(one.rank), at.send, bytes_of(one)));
    for (int mask = 1; mask < one.size; mask <<= 1) {
        const int own = one.rank & ~(mask - 1);
        const int peer = one.rank ^ mask;
        steps.push_back(send_and_receive(one, block(own), peer, block(own ^ mask), peer,
                                         one.each * static_cast<std::size_t>(mask)));
    }
    return steps;
}

Origin of_input(int rank, std::size_t first, std::size_t count) {
    return {Origin::From::input, rank, first, count};
}

std::vector<Origin> reduced(const PerfCase& one) {
    return {{Origin::From::reduction, 0, 0, one.each}};
}

std::vector<Origin> reduced_block(const PerfCase& one) {
    return {{Origin::From::reduction, 0, static_cast<std::size_t>(one.rank) * one.each, one.each}};
}

// Whoever is not the root is promised nothing, except that its input stays.
std::vector<Origin> reduced_at_root(const PerfCase& one) {
    if (one.rank == one.root)
        return reduced(one);
    if (one.in_place)
        return {of_input(one.rank, 0, one.each)};
    return {};
}

std::vector<Origin> of_root(const PerfCase& one) {
    if (one.rank == one.root && !one.in_place)
        return {};
    return {of_input(one.root, 0, one.each)};
}

std::vector<Origin> of_all(const PerfCase& one) {
    std::vector<Origin> origins;
    for (int rank = 0; rank < one.size; ++rank)
        origins.push_back(of_input(rank, 0, one.each));
    return origins;
}

std::vector<Origin> of_all_at_root(const PerfCase& one) {
    return one.rank == one.root ? of_all(one) : std::vector<Origin>();
}

std::vector<Origin> own_block_of_all(const PerfCase& one) {
    std::vector<Origin> origins;
    for (int rank = 0; rank < one.size; ++rank)
        origins.push_back(of_input(rank, static_cast<std::size_t>(one.rank) * one.each, one.each));
    return origins;
}

std::vector<Origin> own_block_of_root(const PerfCase& one) {
    return {of_input(one.root, static_cast<std::size_t>(one.rank) * one.each, one.each)};
}

std::vector<Origin> of_previous(const PerfCase& one) {
    return {of_input((one.rank + one.size - 1) % one.size, 0, one.each)};
}

double one_time(double) { return 1; }
double others_share(double ranks) { return (ranks - 1) / ranks; }
double twice_others_share(double ranks) { return 2 * (ranks - 1) / ranks; }

// The factors of the first six are explained in nccl-tests' doc/PERFORMANCE.md, those of gather and
// scatter (all data but the root's own crosses its link), sendrecv and hypercube stand in
// src/NAME.cu.
constexpr std::array<CollectiveSpec, 10> kCollectives = {{
    {.name = "all_reduce",
     .send = Extent::whole,
     .recv = Extent::whole,
     .reduces = true,
     .has_root = false,
     .root_sends = false,
     .in_place_defined = true,
     .power_of_two = false,
     .bus_formula = "2(n-1)/n",
     .bus_factor = twice_others_share,
     .moved_share = one_time,
     .expected = reduced,
     .steps = counted<CollectiveKind::all_reduce>},
    {.name = "reduce_scatter",
     .send = Extent::blocks,
     .recv = Extent::block,
     .reduces = true,
     .has_root = false,
     .root_sends = false,
     .in_place_defined = true,
     .power_of_two = false,
     .bus_formula = "(n-1)/n",
     .bus_factor = others_share,
     .moved_share = one_time,
     .expected = reduced_block,
     .steps = blocked<CollectiveKind::reduce_scatter>},
    {.name = "all_gather",
     .send = Extent::block,
     .recv = Extent::blocks,
     .reduces = false,
     .has_root = false,
     .root_sends = false,
     .in_place_defined = true,
     .power_of_two = false,
     .bus_formula = "(n-1)/n",
     .bus_factor = others_share,
     .moved_share = one_time,
     .expected = of_all,
     .steps = blocked<CollectiveKind::all_gather>},
    {.name = "broadcast",
     .send = Extent::whole,
     .recv = Extent::whole,
     .reduces = false,
     .has_root = true,
     .root_sends = true,
     .in_place_defined = true,
     .power_of_two = false,
     .bus_formula = "1",
     .bus_factor = one_time,
     .moved_share = one_time,
     .expected = of_root,
     .steps = broadcast},
    {.name = "reduce",
     .send = Extent::whole,
     .recv = Extent::whole,
     .reduces = true,
     .has_root = true,
     .root_sends = false,
     .in_place_defined = true,
     .power_of_two = false,
     .bus_formula = "1",
     .bus_factor = one_time,
     .moved_share = one_time,
     .expected = reduced_at_root,
     .steps = counted<CollectiveKind::reduce>},
    {.name = "alltoall",
     .send = Extent::blocks,
     .recv = Extent::blocks,
     .reduces = false,
     .has_root = false,
     .root_sends = false,
     .in_place_defined = true,
     .power_of_two = false,
     .bus_formula = "(n-1)/n",
     .bus_factor = others_share,
     .moved_share = one_time,
     .expected = own_block_of_all,
     .steps = blocked<CollectiveKind::all_to_all>},
    {.name = "gather",
     .send = Extent::block,
     .recv = Extent::blocks,
     .reduces = false,
     .has_root = true,
     .root_sends = false,
     .in_place_defined = true,
     .power_of_two = false,
     .bus_formula = "(n-1)/n",
     .bus_factor = others_share,
     .moved_share = one_time,
     .expected = of_all_at_root,
     .steps = blocked<CollectiveKind::gather>},
    {.name = "scatter",
     .send = Extent::blocks,
     .recv = Extent::block,
     .reduces = false,
     .has_root = true,
     .root_sends = true,
     .in_place_defined = true,
     .power_of_two = false,
     .bus_formula = "(n-1)/n",
     .bus_factor = others_share,
     .moved_share = one_time,
     .expected = own_block_of_root,
     .steps = blocked<CollectiveKind::scatter>},
    {.name = "sendrecv",
     .send = Extent::whole,
     .recv = Extent::whole,
     .reduces = false,
     .has_root = false,
     .root_sends = false,
     .in_place_defined = false,
     .power_of_two = false,
     .bus_formula = "1",
     .bus_factor = one_time,
     .moved_share = one_time,
     .expected = of_previous,
     .steps = ring},
    {.name = "hypercube",
     .send = Extent::block,
     .recv = Extent::blocks,
     .reduces = false,
     .has_root = false,
     .root_sends = false,
     .in_place_defined = true,
     .power_of_two = true,
     .bus_formula = "1",
     .bus_factor = one_time,
     .moved_share = others_share,
     .expected = of_all,
     .steps = hypercube},
}};

}  // namespace

std::span<const CollectiveSpec> all_collectives() { return kCollectives; }

const CollectiveSpec& collective_named(std::string_view name) {
    std::vector<std::string> names;
    for (const auto& spec : kCollectives) {
        if (spec.name == name)
            return spec;
        names.emplace_back(spec.name);
    }
    throw std::invalid_argument("'" + std::string(name) + "' is no collective; there are " +
                                join(names, ", "));
}

std::size_t each_of(const CollectiveSpec& spec, std::size_t count, int ranks, std::size_t quantum) {
    if (spec.send == Extent::whole)
        return count;
    return count / static_cast<std::size_t>(ranks) / quantum * quantum;
}

std::size_t elements_of(Extent extent, std::size_t each, int ranks) {
    return extent == Extent::blocks ? each * static_cast<std::size_t>(ranks) : each;
}

std::size_t message_elements(const CollectiveSpec& spec, const PerfCase& one) {
    return std::max(elements_of(spec.send, one.each, one.size),
                    elements_of(spec.recv, one.each, one.size));
}

CallBuffers place(const CollectiveSpec& spec, const PerfCase& one, std::byte* send_memory,
                  std::byte* recv_memory) {
    if (!one.in_place)
        return {send_memory, recv_memory};
    const std::size_t own = static_cast<std::size_t>(one.rank) * bytes_of(one);
    return {recv_memory + (spec.send == Extent::block ? own : 0),
            recv_memory + (spec.recv == Extent::block ? own : 0)};
}

}  // namespace autolaunch::bench
