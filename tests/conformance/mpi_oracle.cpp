#include "mpi_oracle.hpp"

#include "comm/call.hpp"
#include "comm/mpi/mpi_runtime.hpp"
#include "elements.hpp"
#include "expect.hpp"
#include "mpi_types.hpp"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

namespace autolaunch::conformance {
namespace {

using Kind = CollectiveKind;

constexpr int kCalls = 150;
constexpr std::size_t kLongest = 3000;

/// One random call; equal on all ranks, because all have the same seed.
struct RandomCall {
    Kind kind = Kind::all_reduce;
    DataType type = DataType::f32;
    ReduceOp::Kind op = ReduceOp::Kind::sum;
    int root = 0;
    std::size_t count = 0;
    std::vector<std::vector<std::size_t>> counts;  // [from][to]; of rank r's block: [r][0]
    bool in_place = false;
};

class Random {
public:
    explicit Random(std::uint64_t seed) : engine_(seed) {}
    int below(int limit) { return static_cast<int>(engine_() % static_cast<unsigned>(limit)); }
    /// Short ones as often as long ones.
    std::size_t length() {
        return static_cast<std::size_t>(below(1 + below(static_cast<int>(kLongest))));
    }

private:
    std::mt19937_64 engine_;
};

RandomCall draw(Random& random, int size) {
    RandomCall call;
    call.kind = static_cast<Kind>(random.below(8));
    call.type = static_cast<DataType>(random.below(kDataTypes));
    call.op = static_cast<ReduceOp::Kind>(random.below(5));  // MPI has no pre_multiplied_sum
    call.root = random.below(size);
    call.count = random.length();
    call.in_place = random.below(2) == 1;
    call.counts.resize(static_cast<std::size_t>(size));
    for (auto& row : call.counts)
        for (int to = 0; to < size; ++to)
            row.push_back(random.length());
    return call;
}

/// What MPI can sum as we do: it has no halves, and its sums of bytes may saturate.
DataType wide_of(DataType type) {
    if (type == DataType::bf16 || type == DataType::f16)
        return DataType::f32;
    return type == DataType::i8 || type == DataType::u8 ? DataType::i32 : type;
}

std::vector<std::byte> with_inputs(const RandomCall& call, std::size_t count, int rank) {
    std::vector<std::byte> bytes(count * size_of(call.type));
    const bool reduces = call.kind == Kind::all_reduce || call.kind == Kind::reduce ||
                         call.kind == Kind::reduce_scatter;
    for (std::size_t i = 0; i < count; ++i)
        store(call.type, bytes.data(), i,
              reduces ? reduced_input(call.op, rank, i) : moved_input(rank, i));
    return bytes;
}

std::vector<int> offsets_of(const std::vector<int>& counts) {
    std::vector<int> offsets(counts.size(), 0);
    for (std::size_t i = 1; i < counts.size(); ++i)
        offsets[i] = offsets[i - 1] + counts[i - 1];
    return offsets;
}

/// MPI_Allreduce of `send`: avg as sum and division, in wide_of() the type.
std::vector<std::byte> mpi_reduced(const RandomCall& call, const std::vector<std::byte>& send,
                                   int size) {
    const std::size_t count = send.size() / size_of(call.type);
    const DataType wide = wide_of(call.type);
    std::vector<std::byte> in(count * size_of(wide)), out(in.size()), result(send.size());
    for (std::size_t i = 0; i < count; ++i)
        store(wide, in.data(), i, load(call.type, send.data(), i));
    const auto op = ReduceOp(call.op == ReduceOp::Kind::avg ? ReduceOp::Kind::sum : call.op);
    mpi::check(MPI_Allreduce(in.data(), out.data(), static_cast<int>(count), type_of(wide),
                             op_of(op), MPI_COMM_WORLD),
               "reduce");
    for (std::size_t i = 0; i < count; ++i) {
        double value = load(wide, out.data(), i);
        if (call.op == ReduceOp::Kind::avg)
            value = wide == DataType::f32 ? static_cast<float>(value) / static_cast<float>(size)
                                          : value / size;
        store(call.type, result.data(), i, value);
    }
    return result;
}

class Comparison {
public:
    Comparison(Communicator& comm, const RandomCall& call)
        : comm_(comm),
          call_(call),
          rank_(static_cast<std::size_t>(comm.rank())),
          type_(type_of(call.type)) {
        for (const auto& row : call.counts)
            blocks_.push_back(row[0]);
        for (const std::size_t count : blocks_)
            int_blocks_.push_back(static_cast<int>(count));
        offsets_ = offsets_of(int_blocks_);
        total_ = static_cast<std::size_t>(offsets_.back() + int_blocks_.back());
    }

    void run() {
        switch (call_.kind) {
            case Kind::all_reduce:
            case Kind::reduce:
                return reduce();
            case Kind::broadcast:
                return broadcast();
            case Kind::all_gather:
            case Kind::gather:
                return gather();
            case Kind::reduce_scatter:
                return reduce_scatter();
            case Kind::scatter:
                return scatter();
            default:
                return all_to_all();
        }
    }

private:
    bool is_root() const { return comm_.rank() == call_.root; }
    std::size_t bytes(std::size_t count) const { return count * size_of(call_.type); }
    std::size_t own_offset() const { return bytes(static_cast<std::size_t>(offsets_[rank_])); }

    void expect_same(const std::byte* ours, const std::vector<std::byte>& theirs) const {
        if (theirs.empty() || std::memcmp(ours, theirs.data(), theirs.size()) == 0)
            return;
        std::size_t at = 0;
        while (ours[at] == theirs[at])
            ++at;
        at /= size_of(call_.type);
        expect(false,
               fmt::format("{} {} {}{}, root {}: element {} is {} as MPI says, not {}",
                           name_of(call_.kind), name_of(call_.type), name_of(ReduceOp(call_.op)),
                           call_.in_place ? " in place" : "", call_.root, at,
                           load(call_.type, theirs.data(), at), load(call_.type, ours, at)));
    }

    void reduce() {
        auto send = with_inputs(call_, call_.count, comm_.rank());
        const auto theirs = mpi_reduced(call_, send, comm_.size());
        std::vector<std::byte> apart(send.size());
        std::byte* recv = call_.in_place ? send.data() : apart.data();
        if (call_.kind == Kind::all_reduce) {
            comm_.all_reduce(send.data(), recv, call_.count, call_.type, ReduceOp(call_.op)).wait();
        } else {
            comm_.reduce(send.data(), recv, call_.count, call_.type, ReduceOp(call_.op), call_.root)
                .wait();
        }
        if (call_.kind == Kind::all_reduce || is_root())
            expect_same(recv, theirs);
    }

    void broadcast() {
        auto ours = with_inputs(call_, call_.count, comm_.rank());
        auto theirs = ours;
        comm_.broadcast(ours.data(), call_.count, call_.type, call_.root).wait();
        mpi::check(MPI_Bcast(theirs.data(), static_cast<int>(call_.count), type_, call_.root,
                             MPI_COMM_WORLD),
                   "broadcast");
        expect_same(ours.data(), theirs);
    }

    void gather() {
        const bool gets = call_.kind == Kind::all_gather || is_root();
        const auto send = with_inputs(call_, blocks_[rank_], comm_.rank());
        std::vector<std::byte> ours(gets ? bytes(total_) : 0), theirs(ours.size());
        const void* input = send.data();
        if (gets && call_.in_place && !send.empty()) {
            std::memcpy(ours.data() + own_offset(), send.data(), send.size());
            input = ours.data() + own_offset();
        }
        const int own = int_blocks_[rank_];
        if (call_.kind == Kind::all_gather) {
            comm_.all_gather_v(input, ours.data(), blocks_, call_.type).wait();
            mpi::check(MPI_Allgatherv(send.data(), own, type_, theirs.data(), int_blocks_.data(),
                                      offsets_.data(), type_, MPI_COMM_WORLD),
                       "gather");
        } else {
            comm_.gather_v(input, ours.data(), blocks_, call_.type, call_.root).wait();
            mpi::check(MPI_Gatherv(send.data(), own, type_, theirs.data(), int_blocks_.data(),
                                   offsets_.data(), type_, call_.root, MPI_COMM_WORLD),
                       "gather");
        }
        expect_same(ours.data(), theirs);
    }

    void reduce_scatter() {
        auto send = with_inputs(call_, total_, comm_.rank());
        const auto all = mpi_reduced(call_, send, comm_.size());
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(own_offset());
        const std::vector<std::byte> theirs(
            begin, begin + static_cast<std::ptrdiff_t>(bytes(blocks_[rank_])));
        std::vector<std::byte> apart(theirs.size());
        std::byte* recv = call_.in_place ? send.data() + own_offset() : apart.data();
        comm_.reduce_scatter_v(send.data(), recv, blocks_, call_.type, ReduceOp(call_.op)).wait();
        expect_same(recv, theirs);
    }

    void scatter() {
        auto send = is_root() ? with_inputs(call_, total_, comm_.rank()) : std::vector<std::byte>();
        std::vector<std::byte> apart(bytes(blocks_[rank_])), theirs(apart.size());
        mpi::check(
            MPI_Scatterv(send.data(), int_blocks_.data(), offsets_.data(), type_, theirs.data(),
                         int_blocks_[rank_], type_, call_.root, MPI_COMM_WORLD),
            "scatter");
        std::byte* recv = call_.in_place && is_root() ? send.data() + own_offset() : apart.data();
        comm_.scatter_v(send.data(), recv, blocks_, call_.type, call_.root).wait();
        expect_same(recv, theirs);
    }

    void all_to_all() {
        std::vector<std::size_t> out = call_.counts[rank_], in;
        for (const auto& row : call_.counts)
            in.push_back(row[rank_]);
        const std::vector<int> int_out(out.begin(), out.end()), int_in(in.begin(), in.end());
        const auto out_offsets = offsets_of(int_out), in_offsets = offsets_of(int_in);
        const auto send = with_inputs(
            call_, static_cast<std::size_t>(out_offsets.back() + int_out.back()), comm_.rank());
        std::vector<std::byte> ours(
            bytes(static_cast<std::size_t>(in_offsets.back() + int_in.back())));
        std::vector<std::byte> theirs(ours.size());
        comm_.all_to_all_v(send.data(), out, ours.data(), in, call_.type).wait();
        mpi::check(
            MPI_Alltoallv(send.data(), int_out.data(), out_offsets.data(), type_, theirs.data(),
                          int_in.data(), in_offsets.data(), type_, MPI_COMM_WORLD),
            "all to all");
        expect_same(ours.data(), theirs);
    }

    Communicator& comm_;
    const RandomCall& call_;
    std::size_t rank_;
    MPI_Datatype type_;
    std::vector<std::size_t> blocks_;
    std::vector<int> int_blocks_, offsets_;
    std::size_t total_ = 0;
};

}  // namespace

void compare_with_mpi(Communicator& comm, std::uint64_t seed) {
    if (seed == 0)
        seed =
            static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
    comm.broadcast(&seed, 1, u64, 0).wait();
    if (comm.rank() == 0)
        std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    Random random(seed);
    for (int i = 0; i < kCalls; ++i) {
        const RandomCall call = draw(random, comm.size());
        Comparison(comm, call).run();
    }
}

}  // namespace autolaunch::conformance
