// The collectives' results. failure_cases.cpp has what happens when ranks fail.
#include "communicator_suite.hpp"

#include "comm/reduce.hpp"
#include "expect.hpp"
#include "failure_by_kind.hpp"
#include "failure_cases.hpp"
#include "shape_runner.hpp"

#include <autolaunch/error.hpp>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

namespace autolaunch::conformance {
namespace {

/// Every pair of properties, kind by kind (shapes.hpp).
void pairs_of_properties(Communicator& comm) {
    const auto shapes = paired_shapes(comm.size());
    ShapeRunner runner(comm, shapes);
    for (const Shape& shape : shapes)
        runner.run(shape);
}

void every_type_and_operation(Communicator& comm) {
    const auto shapes = reducing_shapes();
    ShapeRunner runner(comm, shapes);
    for (const Shape& shape : shapes)
        runner.run(shape);
}

void messages_keep_their_order(Communicator& comm) {
    constexpr int kMessages = 200;
    if (comm.rank() > 1)
        return;
    for (int i = 0; i < kMessages; ++i) {
        std::int32_t value = comm.rank() == 0 ? i : -1;
        if (comm.rank() == 0)
            comm.send(&value, 1, i32, 1).wait();
        if (comm.rank() == 1)
            comm.recv(&value, 1, i32, 0).wait();
        expect(value == i, fmt::format("message {} arrives {}th, not {}", i, i, value));
    }
}

/// Sums that are not exact: every rank must still see the same bits, in every type and at every
/// size.
void all_reduce_is_bit_identical(Communicator& comm) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    for (const std::size_t count : {std::size_t{37}, std::size_t{4099}, std::size_t{100'003}}) {
        std::vector<float> values(count);
        for (std::size_t i = 0; i < count; ++i) {
            values[i] =
                std::sin(static_cast<float>(i + 1) * static_cast<float>(comm.rank() + 1)) * 1e3f;
        }
        comm.all_reduce(std::span(values)).wait();
        std::vector<float> all(count * ranks);
        comm.all_gather(values.data(), all.data(), count, f32).wait();
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            const bool same =
                std::memcmp(&all[rank * count], values.data(), count * sizeof(float)) == 0;
            expect(same, fmt::format("ranks {} and {} have the same bits", comm.rank(), rank));
        }
    }
}

/// The order that the contract names, worked out from everybody's inputs: sums that are not exact,
/// to the last bit.
template <class T>
void expect_pairwise(Communicator& comm, std::size_t count) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    std::vector<T> values(count), all(count * ranks), wanted(count);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<T>(
            std::sin(static_cast<float>(i + 1) * static_cast<float>(comm.rank() + 1)) * 1e3f);
    comm.all_gather(values.data(), all.data(), count, data_type_of<T>).wait();
    std::vector<const void*> inputs;
    for (std::size_t rank = 0; rank < ranks; ++rank)
        inputs.push_back(&all[rank * count]);
    void* const output = wanted.data();
    reduce_elements({.inputs = inputs, .outputs = {&output, 1}}, count, data_type_of<T>,
                    ReduceOp::avg);
    comm.all_reduce(values.data(), values.data(), count, data_type_of<T>, ReduceOp::avg).wait();
    expect(
        std::memcmp(values.data(), wanted.data(), count * sizeof(T)) == 0,
        fmt::format("averages of {} elements of {} are pairwise", count, name_of(data_type_of<T>)));
    // The same elements scattered: block r is rank r's.
    const std::size_t block = count / ranks;
    std::vector<T> own(block);
    const T* mine = &all[static_cast<std::size_t>(comm.rank()) * count];
    comm.reduce_scatter(mine, own.data(), block, data_type_of<T>, ReduceOp::avg).wait();
    const T* as_wanted = wanted.data() + static_cast<std::size_t>(comm.rank()) * block;
    expect(std::memcmp(own.data(), as_wanted, block * sizeof(T)) == 0,
           "scattered averages are the same");
}

void sums_are_pairwise(Communicator& comm) {
    // Three of each four: where nodes have four ranks, pairs of a part are not pairs within nodes.
    Communicator part = comm.split(comm.rank() % 4 == 3 ? 1 : 0, 0).value();
    for (Communicator group : {comm, part}) {
        for (const std::size_t count : {std::size_t{33}, std::size_t{70'001}}) {
            expect_pairwise<float>(group, count);
            expect_pairwise<double>(group, count);
            expect_pairwise<bfloat16>(group, count);
            expect_pairwise<float16>(group, count);
        }
    }
}

/// 1 + 2^-8 + 2^-8 + …: rounding to bf16 after every step would lose every term behind the first.
void bf16_is_accumulated_in_f32(Communicator& comm) {
    for (const std::size_t count : {std::size_t{5}, std::size_t{50'001}}) {
        std::vector<bfloat16> values(count, bfloat16(comm.rank() == 0 ? 1.0f : 1.0f / 256.0f));
        comm.all_reduce(std::span(values)).wait();
        const bfloat16 wanted(1.0f + static_cast<float>(comm.size() - 1) / 256.0f);
        for (const bfloat16 value : values)
            expect(value.bits == wanted.bits, "bf16 sums are rounded once");
    }
}

template <class T>
void expect_wrapping(Communicator& comm, ReduceOp op) {
    constexpr T kLargest = std::numeric_limits<T>::max();
    auto wanted = static_cast<std::uint64_t>(kLargest);
    for (int rank = 1; rank < comm.size(); ++rank)
        wanted = op == ReduceOp::sum ? wanted + static_cast<std::uint64_t>(kLargest)
                                     : wanted * static_cast<std::uint64_t>(kLargest);
    // As one, in vectors of every width, and where an algorithm for long buffers serves.
    for (const std::size_t count : {std::size_t{1}, std::size_t{131}, std::size_t{40'001}}) {
        std::vector<T> values(count, kLargest);
        comm.all_reduce(std::span(values), op).wait();
        for (const T value : values)
            expect(value == static_cast<T>(wanted),
                   fmt::format("{} of {} wraps", name_of(op), name_of(data_type_of<T>)));
        values.assign(count, kLargest);
        comm.reduce(values.data(), values.data(), count, data_type_of<T>, op, 0).wait();
        expect(comm.rank() != 0 || values.back() == static_cast<T>(wanted), "so does reduce");
    }
}

void integers_wrap(Communicator& comm) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod}) {
        expect_wrapping<std::int8_t>(comm, op);
        expect_wrapping<std::uint8_t>(comm, op);
        expect_wrapping<std::int32_t>(comm, op);
        expect_wrapping<std::uint32_t>(comm, op);
        expect_wrapping<std::int64_t>(comm, op);
        expect_wrapping<std::uint64_t>(comm, op);
    }
}

/// Different collectives at once in flight: what a slot held must be gone before it is used again.
void mixed_collectives(Communicator& comm) {
    for (int round = 0; round < 150; ++round) {
        const int root = round % comm.size();
        std::vector<std::int32_t> block(static_cast<std::size_t>(1 + round * 97 % 20'000),
                                        comm.rank() + round);
        comm.broadcast(block.data(), block.size(), i32, root).wait();
        expect(block.front() == root + round && block.back() == root + round, "broadcast in a mix");
        comm.all_reduce(std::span(block)).wait();
        expect(block.back() == comm.size() * (root + round), "all_reduce in a mix");
        if (round % 7 == 0)
            comm.barrier();
        expect(comm.all_reduce_value(comm.rank() + round, ReduceOp::max) == comm.size() - 1 + round,
               "max in a mix");
        expect(comm.any_rank(comm.rank() == root), "any_rank is true when one rank is");
        expect(!comm.any_rank(false), "any_rank is false when none is");
    }
}

/// Two groups of the same ranks, each on a thread of its own, and neither waits for the other.
void two_groups_on_two_queues(Communicator& comm) {
    constexpr int kRounds = 40;
    Communicator other = comm.split(0, -comm.rank()).value();
    CpuQueue first, second;
    const auto lengths = [](int round) { return static_cast<std::size_t>(1 + round * 379 % 9000); };
    std::vector<std::vector<std::int64_t>> sums, maxima;
    std::vector<Work> works;
    for (int round = 0; round < kRounds; ++round) {
        sums.emplace_back(lengths(round), comm.rank() + round);
        maxima.emplace_back(lengths(round + 7), other.rank() + round);
    }
    for (int round = 0; round < kRounds; ++round) {
        auto& sum = sums[static_cast<std::size_t>(round)];
        auto& maximum = maxima[static_cast<std::size_t>(round)];
        works.push_back(comm.all_reduce(std::span(sum), ReduceOp::sum, first.stream()));
        works.push_back(other.all_reduce(std::span(maximum), ReduceOp::max, second.stream()));
    }
    // The last of one queue before the first of the other: order between queues is nobody's
    // promise.
    for (auto work = works.rbegin(); work != works.rend(); ++work)
        expect(work->wait_for(std::chrono::seconds(90)), "queues of two groups go on side by side");
    const std::int64_t ranks = comm.size();
    for (int round = 0; round < kRounds; ++round) {
        const std::int64_t sum = ranks * (ranks - 1) / 2 + ranks * round;
        for (const auto value : sums[static_cast<std::size_t>(round)])
            expect(value == sum, "sums on the first queue");
        for (const auto value : maxima[static_cast<std::size_t>(round)])
            expect(value == ranks - 1 + round, "maxima on the second queue");
    }
}

void split_by_parity(Communicator& comm) {
    // Reversed keys: the last rank of each part comes first.
    auto part = comm.split(comm.rank() % 2, -comm.rank());
    expect(part.has_value(), "a rank with a color gets a group");
    const int members = (comm.size() + 1 - comm.rank() % 2) / 2;
    expect(part->size() == members, "a part has the ranks of its color");
    expect(part->rank() == members - 1 - comm.rank() / 2, "ranks in a part are ordered by key");
    std::vector<std::int32_t> ranks(static_cast<std::size_t>(members));
    const std::int32_t own = comm.rank();
    part->all_gather(&own, ranks.data(), 1, i32).wait();
    for (int i = 0; i < members; ++i) {
        expect(ranks[static_cast<std::size_t>(i)] == comm.rank() % 2 + 2 * (members - 1 - i),
               "who is where in a part");
    }
    // The part works on when a part of it is made, and the parent beside it.
    auto again = part->split(0, 0);
    expect(again && again->all_reduce_value(1) == members, "a part of a part works");
    expect(comm.all_reduce_value(1) == comm.size(), "the parent works beside its parts");
    expect(part->all_reduce_value(1) == members, "the part works beside its own part");
}

void split_without_color(Communicator& comm) {
    auto part = comm.split(comm.rank() == 0 ? -1 : 3, 0);
    expect(part.has_value() == (comm.rank() != 0), "a negative color gets nothing");
    if (part)
        expect(part->size() == comm.size() - 1 && part->rank() == comm.rank() - 1,
               "equal keys keep the order");
    comm.barrier();
}

template <class Call>
void expect_invalid(const std::string& what, const Call& call) {
    expect_throws<Error>(
        what, call, [](const Error& error) { return error.code() == ErrorCode::invalid_argument; });
}

void arguments_are_checked(Communicator& comm) {
    std::vector<float> data(64);
    const auto negative = static_cast<std::size_t>(-1);
    expect_invalid("negative count", [&] {
        comm.all_reduce(data.data(), data.data(), negative, f32, ReduceOp::sum);
    });
    expect_invalid("null", [&] { comm.all_gather(nullptr, data.data(), 1, f32); });
    expect_invalid("overlap",
                   [&] { comm.all_reduce(data.data(), data.data() + 1, 4, f32, ReduceOp::sum); });
    expect_invalid("overlap in reduce", [&] {
        comm.reduce(data.data(), data.data() + 1, 4, f32, ReduceOp::sum, comm.rank());
    });
    if (comm.size() > 1) {
        const std::size_t own = static_cast<std::size_t>(comm.rank());
        float* elsewhere = data.data() + (own + 1) % static_cast<std::size_t>(comm.size());
        expect_invalid("another rank's block in all_gather",
                       [&] { comm.all_gather(elsewhere, data.data(), 1, f32); });
        expect_invalid("another rank's block in reduce_scatter",
                       [&] { comm.reduce_scatter(data.data(), elsewhere, 1, f32, ReduceOp::sum); });
        expect_invalid("another rank's block in gather",
                       [&] { comm.gather(elsewhere, data.data(), 1, f32, comm.rank()); });
        expect_invalid("another rank's block in scatter",
                       [&] { comm.scatter(data.data(), elsewhere, 1, f32, comm.rank()); });
        expect_invalid("overlap in all_to_all",
                       [&] { comm.all_to_all(data.data(), data.data() + 1, 1, f32); });
        const std::vector<std::size_t> few(own, 1);
        expect_invalid("too few counts",
                       [&] { comm.all_gather_v(nullptr, data.data(), few, f32); });
    }
    expect_invalid("root too large", [&] { comm.broadcast(data.data(), 1, f32, comm.size()); });
    expect_invalid("negative root", [&] { comm.broadcast(data.data(), 1, f32, -1); });
    expect_invalid("no such type",
                   [&] { comm.broadcast(data.data(), 1, static_cast<DataType>(99), 0); });
    expect_invalid("no such op", [&] {
        comm.all_reduce(data.data(), data.data(), 1, f32, ReduceOp(static_cast<ReduceOp::Kind>(9)));
    });
    expect_invalid("send to oneself", [&] { comm.send(data.data(), 1, f32, comm.rank()); });
    expect_invalid("recv from oneself", [&] { comm.recv(data.data(), 1, f32, comm.rank()); });
    CpuQueue queue;
    const Stream foreign = comm.backend() == "nccl" ? queue.stream() : Stream::cuda(0, nullptr);
    expect_invalid("a stream of another device",
                   [&] { comm.broadcast(data.data(), 1, f32, 0, foreign); });
    expect(comm.status() == CommunicatorStatus::ok, "a rejected call leaves the group as it was");
    comm.barrier();
}

using std::chrono::milliseconds;
using Kind = CollectiveKind;
constexpr milliseconds kPlenty{100'000};

constexpr Case kCases[] = {
    {"pairs_of_properties", 1, false, Needs::nothing, kPlenty, pairs_of_properties},
    {"every_type_and_operation", 1, false, Needs::nothing, kPlenty, every_type_and_operation},
    {"messages_keep_their_order", 2, false, Needs::nothing, kPlenty, messages_keep_their_order},
    {"all_reduce_is_bit_identical", 1, false, Needs::nothing, kPlenty, all_reduce_is_bit_identical},
    {"sums_are_pairwise", 1, false, Needs::fixed_order, kPlenty, sums_are_pairwise},
    {"bf16_is_accumulated_in_f32", 1, false, Needs::nothing, kPlenty, bf16_is_accumulated_in_f32},
    {"integers_wrap", 1, false, Needs::nothing, kPlenty, integers_wrap},
    {"mixed_collectives", 1, false, Needs::nothing, kPlenty, mixed_collectives},
    {"two_groups_on_two_queues", 1, false, Needs::cpu_queues, kPlenty, two_groups_on_two_queues},
    {"split_by_parity", 1, false, Needs::nothing, kPlenty, split_by_parity},
    {"split_without_color", 2, false, Needs::nothing, kPlenty, split_without_color},
    {"arguments_are_checked", 1, false, Needs::nothing, kPlenty, arguments_are_checked},
    {"abort_ends_everything", 1, true, Needs::nothing, kPlenty, abort_ends_everything},
    {"abort_wakes_others", 2, true, Needs::nothing, kPlenty, abort_wakes_others},
    {"abort_from_another_thread", 2, true, Needs::nothing, kPlenty, abort_from_another_thread},
    {"absent_rank_times_out", 2, true, Needs::nothing, milliseconds(500), absent_rank_times_out},
    {"different_counts_are_named", 2, true, Needs::mismatch_detection, kPlenty,
     different_counts_are_named},
    {"different_calls_are_named", 2, true, Needs::mismatch_detection, kPlenty,
     different_calls_are_named},
    {"different_roots_are_noticed_later", 2, true, Needs::mismatch_detection, kPlenty,
     different_roots_are_noticed_later},
    {"wrong_message_is_named", 2, true, Needs::mismatch_detection, kPlenty, wrong_message_is_named},
    {"abort_in_each_kind", 1, true, Needs::nothing, kPlenty, abort_in_each_kind, 4},
    {"absent_rank_in_each_kind", 2, true, Needs::nothing, milliseconds(1500),
     absent_rank_in_each_kind, 4},
    {"each_mismatch_is_named", 2, true, Needs::mismatch_detection, kPlenty, each_mismatch_is_named,
     4},
    {"killed_rank_in_all_reduce", 2, true, Needs::loss_detection, kPlenty,
     killed_rank<Kind::all_reduce>, 4},
    {"killed_rank_in_reduce", 2, true, Needs::loss_detection, kPlenty, killed_rank<Kind::reduce>,
     4},
    {"killed_rank_in_broadcast", 2, true, Needs::loss_detection, kPlenty,
     killed_rank<Kind::broadcast>, 4},
    {"killed_rank_in_all_gather", 2, true, Needs::loss_detection, kPlenty,
     killed_rank<Kind::all_gather>, 4},
    {"killed_rank_in_reduce_scatter", 2, true, Needs::loss_detection, kPlenty,
     killed_rank<Kind::reduce_scatter>, 4},
    {"killed_rank_in_all_to_all", 2, true, Needs::loss_detection, kPlenty,
     killed_rank<Kind::all_to_all>, 4},
    {"killed_rank_in_gather", 2, true, Needs::loss_detection, kPlenty, killed_rank<Kind::gather>,
     4},
    {"killed_rank_in_scatter", 2, true, Needs::loss_detection, kPlenty, killed_rank<Kind::scatter>,
     4},
    {"killed_rank_in_a_ring", 2, true, Needs::loss_detection, kPlenty, killed_rank<Kind::send>, 4},
    {"killed_rank_is_named", 2, true, Needs::loss_detection, kPlenty, killed_rank_is_named},
    {"killed_rank_ends_large_all_reduce", 2, true, Needs::loss_detection, kPlenty,
     killed_rank_ends_large_all_reduce},
};

}  // namespace

std::span<const Case> cases() { return kCases; }

}  // namespace autolaunch::conformance
