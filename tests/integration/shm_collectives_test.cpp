// Every collective of the shm backend, uniform and ragged, against results computed from all ranks' inputs; the ranks
// are threads of this process. (tests/conformance has them as processes.)
#include "shm_ranks.hpp"

#include "../conformance/expect.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

using namespace autolaunch;
using conformance::expect;
using conformance::expect_throws;
using test::run_thread_ranks;

namespace {

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

std::int32_t input(int rank, std::size_t i) {
    return static_cast<std::int32_t>((index(rank) + 1) * 1'000'003 + i * 7919 % 65'521);
}

std::vector<std::int32_t> inputs(int rank, std::size_t begin, std::size_t count) {
    std::vector<std::int32_t> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = input(rank, begin + i);
    return values;
}

std::vector<std::int32_t> sums(int size, std::size_t begin, std::size_t count) {
    std::vector<std::int32_t> values(count);
    for (int rank = 0; rank < size; ++rank)
        for (std::size_t i = 0; i < count; ++i) values[i] += input(rank, begin + i);
    return values;
}

/// Some blocks are empty, some short, one long.
std::vector<std::size_t> ragged(int size, std::size_t scale) {
    std::vector<std::size_t> counts(index(size));
    for (std::size_t rank = 0; rank < counts.size(); ++rank)
        counts[rank] = rank % 3 == 1 ? 0 : scale / (rank + 1) + rank;
    return counts;
}

std::vector<std::size_t> offsets(const std::vector<std::size_t>& counts) {
    std::vector<std::size_t> begins(counts.size() + 1);
    std::partial_sum(counts.begin(), counts.end(), begins.begin() + 1);
    return begins;
}

// Around the limits of the small path, of one slot, and of the ring of slots.
const std::vector<std::size_t> kCounts = {0, 1, 5, 4096, 4097, 65'536, 65'600, 700'001};

void check_rooted(Communicator& comm, std::size_t count) {
    const int size = comm.size(), rank = comm.rank();
    for (int root = 0; root < size; ++root) {
        const std::string what = fmt::format("count {} root {} rank {}", count, root, rank);
        std::vector<std::int32_t> send = inputs(rank, 0, count), recv(rank == root ? count : 0);
        comm.reduce(send.data(), recv.data(), count, i32, ReduceOp::sum, root);
        if (rank == root) expect(recv == sums(size, 0, count), "reduce, " + what);
        expect(send == inputs(rank, 0, count), "reduce's send is as it was, " + what);
        comm.reduce(send.data(), rank == root ? send.data() : nullptr, count, i32, ReduceOp::sum, root);
        if (rank == root) expect(send == sums(size, 0, count), "reduce in place, " + what);

        std::vector<std::int32_t> data = rank == root ? inputs(root, 0, count) : std::vector<std::int32_t>(count);
        comm.broadcast(data.data(), count, i32, root);
        expect(data == inputs(root, 0, count), "broadcast, " + what);
    }
}

void check_rooted_blocks(Communicator& comm, const std::vector<std::size_t>& counts, int root) {
    const int size = comm.size(), rank = comm.rank();
    const auto begins = offsets(counts);
    const std::string what = fmt::format("together {} root {} rank {}", begins.back(), root, rank);
    std::vector<std::int32_t> all(rank == root ? begins.back() : 0);
    std::vector<std::int32_t> own = inputs(rank, 0, counts[index(rank)]);
    comm.gather_v(own.data(), all.data(), counts, i32, root);
    for (int peer = 0; peer < size && rank == root; ++peer) {
        const std::vector<std::int32_t> block(all.begin() + std::ptrdiff_t(begins[index(peer)]),
                                              all.begin() + std::ptrdiff_t(begins[index(peer) + 1]));
        expect(block == inputs(peer, 0, counts[index(peer)]), "gather_v, " + what);
    }
    own.assign(own.size(), 0);
    comm.scatter_v(all.data(), own.data(), counts, i32, root);
    expect(own == inputs(rank, 0, counts[index(rank)]), "scatter_v, " + what);
    if (rank == root) {
        std::int32_t* block = all.data() + begins[index(rank)];
        comm.gather_v(block, all.data(), counts, i32, root);
        comm.scatter_v(all.data(), block, counts, i32, root);
    } else {
        comm.gather_v(own.data(), nullptr, counts, i32, root);
        comm.scatter_v(nullptr, own.data(), counts, i32, root);
    }
    expect(own == inputs(rank, 0, counts[index(rank)]), "gather_v and scatter_v in place, " + what);
}

void check_blocks(Communicator& comm, const std::vector<std::size_t>& counts) {
    const int size = comm.size(), rank = comm.rank();
    const auto begins = offsets(counts);
    const std::size_t mine = counts[index(rank)], total = begins.back();
    const std::string what = fmt::format("together {} rank {}", total, rank);
    std::vector<std::int32_t> wanted;
    for (int peer = 0; peer < size; ++peer) {
        const auto block = inputs(peer, 0, counts[index(peer)]);
        wanted.insert(wanted.end(), block.begin(), block.end());
    }
    std::vector<std::int32_t> own = inputs(rank, 0, mine), all(total);
    comm.all_gather_v(own.data(), all.data(), counts, i32);
    expect(all == wanted, "all_gather_v, " + what);
    all.assign(total, 0);
    std::copy(own.begin(), own.end(), all.begin() + std::ptrdiff_t(begins[index(rank)]));
    comm.all_gather_v(all.data() + begins[index(rank)], all.data(), counts, i32);
    expect(all == wanted, "all_gather_v in place, " + what);

    std::vector<std::int32_t> send = inputs(rank, 0, total), block(mine);
    comm.reduce_scatter_v(send.data(), block.data(), counts, i32, ReduceOp::sum);
    expect(block == sums(size, begins[index(rank)], mine), "reduce_scatter_v, " + what);
    comm.reduce_scatter_v(send.data(), send.data() + begins[index(rank)], counts, i32, ReduceOp::sum);
    std::copy_n(send.begin() + std::ptrdiff_t(begins[index(rank)]), mine, block.begin());
    expect(block == sums(size, begins[index(rank)], mine), "reduce_scatter_v in place, " + what);
}

/// What `from` sends to `to`: nothing on the diagonal's neighbours, more the further apart.
std::size_t between(int from, int to, std::size_t scale) {
    if (to == from + 1) return 0;
    return scale / static_cast<std::size_t>(1 + from + 2 * to) + static_cast<std::size_t>(from);
}

void check_all_to_all(Communicator& comm, std::size_t scale) {
    const int size = comm.size(), rank = comm.rank();
    std::vector<std::size_t> send_counts, recv_counts;
    for (int peer = 0; peer < size; ++peer) {
        send_counts.push_back(between(rank, peer, scale));
        recv_counts.push_back(between(peer, rank, scale));
    }
    std::vector<std::int32_t> send, wanted;
    for (int peer = 0; peer < size; ++peer) {
        const auto out = inputs(rank, index(peer) * 11, send_counts[index(peer)]);
        const auto in = inputs(peer, index(rank) * 11, recv_counts[index(peer)]);
        send.insert(send.end(), out.begin(), out.end());
        wanted.insert(wanted.end(), in.begin(), in.end());
    }
    std::vector<std::int32_t> recv(wanted.size());
    comm.all_to_all_v(send.data(), send_counts, recv.data(), recv_counts, i32);
    expect(recv == wanted, fmt::format("all_to_all_v, scale {} rank {}", scale, rank));
}

void check_factors(Communicator& comm, std::size_t count) {
    std::vector<float> data(count, 1.0f);
    comm.all_reduce(std::span(data), ReduceOp::pre_multiplied_sum(comm.rank() + 1));
    const float wanted = static_cast<float>(comm.size() * (comm.size() + 1) / 2);
    expect(data == std::vector<float>(count, wanted), fmt::format("each rank's own factor, count {}", count));
    std::vector<float> blocks(count * index(comm.size()), 2.0f), block(count);
    comm.reduce_scatter(blocks.data(), block.data(), count, f32, ReduceOp::pre_multiplied_sum(comm.rank() + 1));
    expect(block == std::vector<float>(count, 2 * wanted), "factors in a reduce_scatter");
    comm.all_reduce(block.data(), data.data(), count, f32, ReduceOp::avg);
    expect(data == std::vector<float>(count, 2 * wanted), "the average of equal values");
}

void check_ring(Communicator& comm, std::size_t count) {
    const int next = (comm.rank() + 1) % comm.size(), previous = (comm.rank() + comm.size() - 1) % comm.size();
    const auto out = inputs(comm.rank(), 0, count);
    std::vector<std::int32_t> in(count), sum(count), second(3);
    const auto few = inputs(comm.rank(), 5, 3);
    comm.group_start();
    comm.send(out.data(), count, i32, next);
    comm.send(few.data(), 3, i32, next);
    comm.all_reduce(out.data(), sum.data(), count, i32, ReduceOp::sum);
    comm.recv(in.data(), count, i32, previous);
    comm.recv(second.data(), 3, i32, previous);
    comm.group_end();
    expect(in == inputs(previous, 0, count) && second == inputs(previous, 5, 3), "a ring that all send into first");
    expect(sum == sums(comm.size(), 0, count), "a collective in a group");
}

}  // namespace

TEST_CASE("every collective gives what its definition says, with ranks as threads") {
    for (const int size : {1, 2, 3, 5}) {
        CAPTURE(size);
        run_thread_ranks(size, [](Communicator& comm) {
            for (const std::size_t count : kCounts) {
                check_rooted(comm, count);
                check_blocks(comm, std::vector<std::size_t>(index(comm.size()), count));
                check_blocks(comm, ragged(comm.size(), count));
                for (int root = 0; root < comm.size(); ++root) {
                    check_rooted_blocks(comm, std::vector<std::size_t>(index(comm.size()), count), root);
                    check_rooted_blocks(comm, ragged(comm.size(), count), root);
                }
                check_all_to_all(comm, count);
                check_factors(comm, count);
                if (comm.size() > 1) check_ring(comm, count);
                comm.barrier();
            }
        });
    }
}

TEST_CASE("all_to_all_v names the two ranks whose counts do not meet") {
    run_thread_ranks(3, [](Communicator& comm) {
        std::vector<std::size_t> sends(3, 4), receives(3, 4);
        if (comm.rank() == 2) receives[0] = 5;
        std::vector<float> send(12), recv(13);
        expect_throws<Error>(
            "a pair of counts that differ",
            [&] {
                comm.all_to_all_v(send.data(), sends, recv.data(), receives, f32);
                comm.barrier();
            },
            [](const Error& error) {
                return std::string(error.what()).find("rank 0 sends 4 elements of f32 to rank 2, which expects 5") !=
                       std::string::npos;
            });
    });
}

TEST_CASE("a difference in ragged counts, in the operation or in the root is named") {
    const auto differs = [](const std::string& text, const std::function<void(Communicator&)>& call) {
        CAPTURE(text);
        run_thread_ranks(2, [&](Communicator& comm) {
            expect_throws<Error>(
                text, [&] { call(comm), comm.barrier(); },
                [&](const Error& error) { return std::string(error.what()).find(text) != std::string::npos; });
        });
    };
    std::vector<std::vector<float>> memory(2, std::vector<float>(100));
    const auto data = [&](Communicator& comm) { return memory[index(comm.rank())].data(); };
    differs("the same with other counts", [&](Communicator& comm) {
        const std::vector<std::size_t> mine =
            comm.rank() == 0 ? std::vector<std::size_t>{3, 4} : std::vector<std::size_t>{4, 3};
        std::vector<float> all(7);
        comm.all_gather_v(data(comm), all.data(), mine, f32);
    });
    differs("reduce (max) to rank 0", [&](Communicator& comm) {
        std::vector<float> out(50);
        comm.reduce(data(comm), out.data(), 50, f32, comm.rank() == 0 ? ReduceOp::max : ReduceOp::min, 0);
    });
    differs("gather to rank 1 of 5 elements", [&](Communicator& comm) {
        std::vector<float> out(10);
        comm.gather(data(comm), out.data(), 5, f32, comm.rank());
    });
    differs("broadcast from rank 1", [&](Communicator& comm) { comm.broadcast(data(comm), 5, f32, 1 - comm.rank()); });
}

TEST_CASE("an abort wakes a rank that waits for messages") {
    run_thread_ranks(2, [](Communicator& comm) {
        float value = 0;
        if (comm.rank() == 1) return comm.abort("no message will come");
        expect_throws<AbortedError>(
            "a receive is woken", [&] { comm.recv(&value, 1, f32, 1); },
            [](const AbortedError& error) {
                return std::string(error.what()).find("no message will come") != std::string::npos;
            });
    });
}
