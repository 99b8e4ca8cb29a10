// Every collective of the shm backend, uniform and ragged, against results computed from all ranks'
// inputs; with ranks as threads and as processes, and buffers from allocate(), from elsewhere, and
// both in one call.
#include "shm_ranks.hpp"

#include "../conformance/expect.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace shm_collectives_test {

using namespace autolaunch;
using conformance::expect;
using test::run_thread_ranks;

namespace {

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

std::int32_t input(int rank, std::size_t i) {
    return static_cast<std::int32_t>((index(rank) + 1) * 1'000'003 + i * 7919 % 65'521);
}

std::vector<std::int32_t> inputs(int rank, std::size_t begin, std::size_t count) {
    std::vector<std::int32_t> values(count);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = input(rank, begin + i);
    return values;
}

std::vector<std::int32_t> sums(int size, std::size_t begin, std::size_t count) {
    std::vector<std::int32_t> values(count);
    for (int rank = 0; rank < size; ++rank)
        for (std::size_t i = 0; i < count; ++i)
            values[i] += input(rank, begin + i);
    return values;
}

/// Where the buffers of a case come from.
enum class Place { heap, allocated, mixed };

/// Memory for the buffers of one case after the other.
class Arena {
public:
    Arena(Communicator& comm, Place place) {
        constexpr std::size_t kBytes = 120 << 20;
        if (place != Place::heap)
            shared_ = comm.allocate(kBytes);
        // One rank alone has its buffers elsewhere, so that all must find out.
        if (place == Place::allocated ||
            (place == Place::mixed && comm.rank() != comm.size() - 1)) {
            memory_ = shared_.as<std::int32_t>();
        } else {
            heap_ = std::make_unique_for_overwrite<std::int32_t[]>(kBytes / 4);
            memory_ = {heap_.get(), kBytes / 4};
        }
    }
    void reset() { used_ = 0; }
    std::int32_t* take(std::size_t count) {
        expect(count <= memory_.size() - used_, "the arena is large enough");
        std::int32_t* const begin = memory_.data() + used_;
        used_ += count + 1;  // odd places
        return begin;
    }

private:
    CommunicatorBuffer shared_;
    std::unique_ptr<std::int32_t[]> heap_;
    std::span<std::int32_t> memory_;
    std::size_t used_ = 0;
};

/// A buffer in an arena.
class Data {
public:
    Data(Arena& arena, const std::vector<std::int32_t>& values)
        : count_(values.size()), begin_(arena.take(count_)) {
        std::copy(values.begin(), values.end(), begin_);
    }
    Data(Arena& arena, std::size_t count) : Data(arena, std::vector<std::int32_t>(count)) {}
    std::int32_t* data() const { return begin_; }
    void clear() { std::fill_n(begin_, count_, 0); }
    std::vector<std::int32_t> part(std::size_t begin, std::size_t count) const {
        return {begin_ + begin, begin_ + begin + count};
    }
    bool operator==(const std::vector<std::int32_t>& values) const {
        return part(0, count_) == values;
    }

private:
    std::size_t count_;
    std::int32_t* begin_;
};

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

void check_rooted(Communicator& comm, Arena& arena, std::size_t count) {
    const int size = comm.size(), rank = comm.rank();
    for (int root = 0; root < size; ++root) {
        const std::string what = fmt::format("count {} root {} rank {}", count, root, rank);
        arena.reset();
        Data send(arena, inputs(rank, 0, count)), recv(arena, rank == root ? count : 0);
        comm.reduce(send.data(), recv.data(), count, i32, ReduceOp::sum, root);
        if (rank == root)
            expect(recv == sums(size, 0, count), "reduce, " + what);
        expect(send == inputs(rank, 0, count), "reduce's send is as it was, " + what);
        comm.reduce(send.data(), rank == root ? send.data() : nullptr, count, i32, ReduceOp::sum,
                    root);
        if (rank == root)
            expect(send == sums(size, 0, count), "reduce in place, " + what);

        Data data(arena, rank == root ? inputs(root, 0, count) : std::vector<std::int32_t>(count));
        comm.broadcast(data.data(), count, i32, root);
        expect(data == inputs(root, 0, count), "broadcast, " + what);
    }
}

void check_rooted_blocks(Communicator& comm, Arena& arena, const std::vector<std::size_t>& counts,
                         int root) {
    const int size = comm.size(), rank = comm.rank();
    const auto begins = offsets(counts);
    const std::string what = fmt::format("together {} root {} rank {}", begins.back(), root, rank);
    arena.reset();
    Data all(arena, rank == root ? begins.back() : 0),
        own(arena, inputs(rank, 0, counts[index(rank)]));
    comm.gather_v(own.data(), all.data(), counts, i32, root);
    for (int peer = 0; peer < size && rank == root; ++peer) {
        expect(all.part(begins[index(peer)], counts[index(peer)]) ==
                   inputs(peer, 0, counts[index(peer)]),
               "gather_v, " + what);
    }
    own.clear();
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

void check_blocks(Communicator& comm, Arena& arena, const std::vector<std::size_t>& counts) {
    const int size = comm.size(), rank = comm.rank();
    const auto begins = offsets(counts);
    const std::size_t mine = counts[index(rank)], total = begins.back();
    const std::string what = fmt::format("together {} rank {}", total, rank);
    std::vector<std::int32_t> wanted;
    for (int peer = 0; peer < size; ++peer) {
        const auto block = inputs(peer, 0, counts[index(peer)]);
        wanted.insert(wanted.end(), block.begin(), block.end());
    }
    arena.reset();
    Data own(arena, inputs(rank, 0, mine)), all(arena, total);
    comm.all_gather_v(own.data(), all.data(), counts, i32);
    expect(all == wanted, "all_gather_v, " + what);
    all.clear();
    std::copy_n(own.data(), mine, all.data() + begins[index(rank)]);
    comm.all_gather_v(all.data() + begins[index(rank)], all.data(), counts, i32);
    expect(all == wanted, "all_gather_v in place, " + what);

    Data send(arena, inputs(rank, 0, total)), block(arena, mine);
    comm.reduce_scatter_v(send.data(), block.data(), counts, i32, ReduceOp::sum);
    expect(block == sums(size, begins[index(rank)], mine), "reduce_scatter_v, " + what);
    comm.reduce_scatter_v(send.data(), send.data() + begins[index(rank)], counts, i32,
                          ReduceOp::sum);
    expect(send.part(begins[index(rank)], mine) == sums(size, begins[index(rank)], mine),
           "reduce_scatter_v in place, " + what);
}

/// What `from` sends to `to`: nothing on the diagonal's neighbours, more the further apart.
std::size_t between(int from, int to, std::size_t scale) {
    if (to == from + 1)
        return 0;
    return scale / static_cast<std::size_t>(1 + from + 2 * to) + static_cast<std::size_t>(from);
}

void check_all_to_all(Communicator& comm, Arena& arena, std::size_t scale) {
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
    arena.reset();
    Data out(arena, send), recv(arena, wanted.size());
    comm.all_to_all_v(out.data(), send_counts, recv.data(), recv_counts, i32);
    expect(recv == wanted, fmt::format("all_to_all_v, scale {} rank {}", scale, rank));
    const std::size_t each = scale / 3;
    Data both(arena, inputs(rank, 0, each * index(size)));
    comm.all_to_all(both.data(), both.data(), each, i32);
    for (int peer = 0; peer < size; ++peer) {
        const auto block = inputs(peer, each * index(rank), each);
        expect(both.part(each * index(peer), each) == block,
               fmt::format("all_to_all in place, rank {}", rank));
    }
}

void check_all_reduce(Communicator& comm, Arena& arena, std::size_t count) {
    arena.reset();
    const int size = comm.size(), rank = comm.rank();
    Data send(arena, inputs(rank, 0, count)), recv(arena, count);
    comm.all_reduce(send.data(), recv.data(), count, i32, ReduceOp::sum);
    expect(recv == sums(size, 0, count), "all_reduce");
    expect(send == inputs(rank, 0, count), "all_reduce's send is as it was");
    comm.all_reduce(send.data(), send.data(), count, i32, ReduceOp::sum);
    expect(send == sums(size, 0, count), "all_reduce in place");
    send.clear();  // the others are done with it
    comm.barrier();
}

void check_factors(Communicator& comm, std::size_t count) {
    std::vector<float> data(count, 1.0f);
    comm.all_reduce(std::span(data), ReduceOp::pre_multiplied_sum(comm.rank() + 1));
    const float wanted = static_cast<float>(comm.size() * (comm.size() + 1) / 2);
    expect(data == std::vector<float>(count, wanted),
           fmt::format("each rank's own factor, count {}", count));
    std::vector<float> blocks(count * index(comm.size()), 2.0f), block(count);
    comm.reduce_scatter(blocks.data(), block.data(), count, f32,
                        ReduceOp::pre_multiplied_sum(comm.rank() + 1));
    expect(block == std::vector<float>(count, 2 * wanted), "factors in a reduce_scatter");
    comm.all_reduce(block.data(), data.data(), count, f32, ReduceOp::avg);
    expect(data == std::vector<float>(count, 2 * wanted), "the average of equal values");
}

void check_ring(Communicator& comm, Arena& arena, std::size_t count) {
    const int next = (comm.rank() + 1) % comm.size(),
              previous = (comm.rank() + comm.size() - 1) % comm.size();
    const auto out = inputs(comm.rank(), 0, count);
    arena.reset();
    Data in(arena, count), sum(arena, count), second(arena, 3);
    const auto few = inputs(comm.rank(), 5, 3);
    comm.group_start();
    comm.send(out.data(), count, i32, next);
    comm.send(few.data(), 3, i32, next);
    comm.all_reduce(out.data(), sum.data(), count, i32, ReduceOp::sum);
    comm.recv(in.data(), count, i32, previous);
    comm.recv(second.data(), 3, i32, previous);
    comm.group_end();
    expect(in == inputs(previous, 0, count) && second == inputs(previous, 5, 3),
           "a ring that all send into first");
    expect(sum == sums(comm.size(), 0, count), "a collective in a group");
}

}  // namespace

namespace {

void check_everything(Communicator& comm, Place place) {
    Arena arena(comm, place);
    for (const std::size_t count : kCounts) {
        check_all_reduce(comm, arena, count);
        check_rooted(comm, arena, count);
        check_blocks(comm, arena, std::vector<std::size_t>(index(comm.size()), count));
        check_blocks(comm, arena, ragged(comm.size(), count));
        for (int root = 0; root < comm.size(); ++root) {
            check_rooted_blocks(comm, arena, std::vector<std::size_t>(index(comm.size()), count),
                                root);
            check_rooted_blocks(comm, arena, ragged(comm.size(), count), root);
        }
        check_all_to_all(comm, arena, count);
        check_factors(comm, count);
        if (comm.size() > 1)
            check_ring(comm, arena, count);
        comm.barrier();
    }
}

}  // namespace

TEST_CASE("every collective gives what its definition says, with ranks as threads") {
    for (const Place place : {Place::heap, Place::allocated}) {
        for (const int size : {1, 2, 3, 5})
            run_thread_ranks(size, [&](Communicator& comm) { check_everything(comm, place); });
    }
}

TEST_CASE("every collective gives what its definition says, with ranks as processes") {
    for (const Place place : {Place::heap, Place::allocated, Place::mixed}) {
        for (const int size : {2, 3, 5}) {
            CAPTURE(size);
            CAPTURE(static_cast<int>(place));
            const auto statuses = test::run_process_ranks(
                size, [&](Communicator& comm) { check_everything(comm, place); });
            CHECK(statuses == std::vector<int>(index(size)));
        }
    }
}

TEST_CASE(
    "an all_to_all of long blocks reaches ranks that have only short ones, and the other way "
    "round") {
    const auto statuses = test::run_process_ranks(3, [](Communicator& comm) {
        const auto count_between = [](int a, int b) {
            return a == 0 || b == 0 ? std::size_t(5) : std::size_t(200'000);
        };
        const auto value = [](int from, int to, std::size_t i) { return input(from * 3 + to, i); };
        std::vector<std::size_t> counts;
        for (int peer = 0; peer < comm.size(); ++peer)
            counts.push_back(count_between(comm.rank(), peer));
        const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t(0));
        for (const Place place : {Place::heap, Place::allocated, Place::mixed}) {
            Arena arena(comm, place);
            std::vector<std::int32_t> sent, expected;
            for (int peer = 0; peer < comm.size(); ++peer) {
                for (std::size_t i = 0; i < counts[index(peer)]; ++i) {
                    sent.push_back(value(comm.rank(), peer, i));
                    expected.push_back(value(peer, comm.rank(), i));
                }
            }
            std::int32_t* const send = arena.take(total);
            std::int32_t* const recv = arena.take(total);
            std::copy(sent.begin(), sent.end(), send);
            for (int round = 0; round < 20; ++round) {
                std::fill(recv, recv + total, -1);
                comm.all_to_all_v(send, counts, recv, counts, i32);
                expect(std::equal(expected.begin(), expected.end(), recv),
                       "every block is where it belongs");
            }
        }
    });
    CHECK(statuses == std::vector<int>(3));
}

TEST_CASE("allocated memory is there, and in the page tables of all, when allocate() returns") {
#if defined(__SANITIZE_THREAD__)
    MESSAGE("skipped: ThreadSanitizer's shadow of the memory takes page faults of its own");
#else
    void* const page =
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    constexpr int kPopulateWrite = 23;
    const bool known = ::madvise(page, 4096, kPopulateWrite) == 0;
    ::munmap(page, 4096);
    if (!known) {
        MESSAGE("skipped: this kernel has no MADV_POPULATE_WRITE");
        return;
    }
    const auto statuses = test::run_process_ranks(2, [](Communicator& comm) {
        constexpr std::size_t kBytes = 16 << 20, kPages = 2 * kBytes / 4096;
        CommunicatorBuffer buffer = comm.allocate(kBytes);
        comm.barrier();
        rusage before{}, after{};
        ::getrusage(RUSAGE_SELF, &before);
        auto floats = buffer.as<float>();
        std::fill(floats.begin(), floats.end(), 1.0f);
        comm.all_reduce(floats);
        ::getrusage(RUSAGE_SELF, &after);
        expect(floats.back() == 2.0f, "sum in allocated memory");
        // Some are taken by AddressSanitizer's shadow.
        expect(after.ru_minflt - before.ru_minflt < long(kPages / 4),
               "no page fault for every page");
    });
    CHECK(statuses == std::vector<int>(2));
#endif
}

TEST_CASE(
    "allocated memory is freed when the last rank lets it go, and others' calls go on meanwhile") {
    const auto statuses = test::run_process_ranks(2, [](Communicator& comm) {
        constexpr std::size_t kBytes = 8 << 20;
        const auto mapped = [] {
            std::ifstream maps("/proc/self/maps");
            std::string line;
            bool found = false;
            while (std::getline(maps, line))
                found |= line.find("memfd:autolaunch-buffers") != std::string::npos;
            return found;
        };
        std::optional<CommunicatorBuffer> buffer(comm.allocate(kBytes));
        expect(buffer->bytes() == kBytes &&
                   reinterpret_cast<std::uintptr_t>(buffer->data()) % 4096 == 0,
               "a page");
        expect(mapped(), "it is mapped");
        auto floats = buffer->as<float>();
        std::fill(floats.begin(), floats.end(), 1.0f);
        std::vector<float> heap(floats.size(), 1.0f);
        comm.all_reduce(floats);
        expect(floats.back() == 2.0f, "sum in allocated memory");
        if (comm.rank() == 0)
            buffer.reset();
        // Rank 0 calls with other memory now; rank 1 still with the allocated.
        comm.all_reduce(comm.rank() == 0 ? std::span(heap) : floats);
        comm.barrier();
        expect(mapped(), "rank 0 keeps the mapping as long as rank 1 has its part");
        buffer.reset();
        comm.barrier();
        comm.broadcast(heap.data(), heap.size(), f32, 0);
        expect(!mapped(), "nobody has it any more");
    });
    CHECK(statuses == std::vector<int>(2));
}

}  // namespace shm_collectives_test
