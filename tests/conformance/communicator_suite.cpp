// The collectives' results. failure_cases.cpp has what happens when ranks fail.
#include "communicator_suite.hpp"

#include "expect.hpp"
#include "failure_cases.hpp"

#include <autolaunch/error.hpp>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

namespace autolaunch::conformance {
namespace {

constexpr std::array<ReduceOp, 4> kOps = {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max};
// Nothing, one, odd, over a page, over every backend's piece and slot ring.
constexpr std::array<std::size_t, 5> kCounts = {0, 1, 7, 4099, 400'003};

/// 1, 2 or 3: five ranks' product is at most 243, exact in bf16 and u8.
int input(int rank, std::size_t index) { return 1 + static_cast<int>((static_cast<std::size_t>(rank) + index) % 3); }

template <class T>
T from_int(int value) {
    if constexpr (std::is_same_v<T, bfloat16>) {
        return bfloat16(static_cast<float>(value));
    } else {
        return static_cast<T>(value);
    }
}

template <class T>
double to_double(T value) {
    if constexpr (std::is_same_v<T, bfloat16>) {
        return static_cast<float>(value);
    } else {
        return static_cast<double>(value);
    }
}

template <class T>
T poison() {
    if constexpr (std::is_same_v<T, bfloat16>) {
        return bfloat16(std::numeric_limits<float>::quiet_NaN());
    } else if constexpr (std::is_floating_point_v<T>) {
        return std::numeric_limits<T>::quiet_NaN();
    } else {
        return static_cast<T>(0xa5);
    }
}

/// Over the ranks' inputs at `index`.
int reduced(ReduceOp op, int size, std::size_t index) {
    int result = input(0, index);
    for (int rank = 1; rank < size; ++rank) {
        const int next = input(rank, index);
        switch (op.kind()) {
            case ReduceOp::Kind::sum:
                result += next;
                break;
            case ReduceOp::Kind::prod:
                result *= next;
                break;
            case ReduceOp::Kind::min:
                result = std::min(result, next);
                break;
            case ReduceOp::Kind::max:
                result = std::max(result, next);
                break;
            default:
                break;
        }
    }
    return result;
}

/// A guarded buffer: `count` elements, one before and one behind that nobody may touch.
template <class T>
class Buffer {
public:
    explicit Buffer(std::size_t count) : elements_(count + 2, poison<T>()) {
        elements_.front() = elements_.back() = from_int<T>(kGuard);
    }

    T* data() { return elements_.data() + 1; }
    std::size_t count() const { return elements_.size() - 2; }
    template <class Value>
    void fill(const Value& value) {
        for (std::size_t i = 0; i < count(); ++i) data()[i] = from_int<T>(value(i));
    }
    template <class Value>
    void check(const std::string& what, const Value& value) {
        for (std::size_t i = 0; i < count(); ++i) {
            const double is = to_double(data()[i]);
            const double wanted = static_cast<double>(value(i));
            if (!(is == wanted)) expect(false, fmt::format("{}[{}] of {} is {}, not {}", what, i, count(), wanted, is));
        }
        const bool intact = to_double(elements_.front()) == kGuard && to_double(elements_.back()) == kGuard;
        expect(intact, what + " writes nothing beside its buffer");
    }

private:
    static constexpr int kGuard = 77;
    std::vector<T> elements_;
};

/// Calls test.template operator()<T>() for every data type.
template <class Test>
void for_each_type(const Test& test) {
    test.template operator()<float>();
    test.template operator()<double>();
    test.template operator()<bfloat16>();
    test.template operator()<std::int32_t>();
    test.template operator()<std::int64_t>();
    test.template operator()<std::uint8_t>();
}

template <class T>
std::string label(const char* name, ReduceOp op, bool in_place) {
    return fmt::format("{} {} {}{}", name, name_of(data_type_of<T>), name_of(op), in_place ? " in place" : "");
}

void all_reduce_results(Communicator& comm) {
    for_each_type([&]<class T>() {
        for (const ReduceOp op : kOps) {
            for (const std::size_t count : kCounts) {
                Buffer<T> send(count), recv(count);
                const auto wanted = [&](std::size_t i) { return reduced(op, comm.size(), i); };
                const auto given = [&](std::size_t i) { return input(comm.rank(), i); };
                send.fill(given);
                comm.all_reduce(send.data(), recv.data(), count, data_type_of<T>, op).wait();
                recv.check(label<T>("all_reduce", op, false), wanted);
                send.check("all_reduce's send", given);
                comm.all_reduce(send.data(), send.data(), count, data_type_of<T>, op).wait();
                send.check(label<T>("all_reduce", op, true), wanted);
            }
        }
    });
}

void reduce_scatter_results(Communicator& comm) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    const auto rank = static_cast<std::size_t>(comm.rank());
    for_each_type([&]<class T>() {
        for (const ReduceOp op : kOps) {
            for (const std::size_t count : kCounts) {
                Buffer<T> send(count * ranks), recv(count);
                const auto wanted = [&](std::size_t i) { return reduced(op, comm.size(), rank * count + i); };
                send.fill([&](std::size_t i) { return input(comm.rank(), i); });
                comm.reduce_scatter(send.data(), recv.data(), count, data_type_of<T>, op).wait();
                recv.check(label<T>("reduce_scatter", op, false), wanted);
                T* own = send.data() + rank * count;
                comm.reduce_scatter(send.data(), own, count, data_type_of<T>, op).wait();
                for (std::size_t i = 0; i < count; ++i) recv.data()[i] = own[i];
                recv.check(label<T>("reduce_scatter", op, true), wanted);
            }
        }
    });
}

void all_gather_results(Communicator& comm) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    for_each_type([&]<class T>() {
        for (const std::size_t count : kCounts) {
            Buffer<T> send(count), recv(count * ranks), both(count * ranks);
            const auto wanted = [&](std::size_t i) { return input(static_cast<int>(i / count), i % count); };
            send.fill([&](std::size_t i) { return input(comm.rank(), i); });
            comm.all_gather(send.data(), recv.data(), count, data_type_of<T>).wait();
            recv.check("all_gather", wanted);
            T* own = both.data() + static_cast<std::size_t>(comm.rank()) * count;
            for (std::size_t i = 0; i < count; ++i) own[i] = send.data()[i];
            comm.all_gather(own, both.data(), count, data_type_of<T>).wait();
            both.check("all_gather in place", wanted);
        }
    });
}

void broadcast_results(Communicator& comm) {
    for_each_type([&]<class T>() {
        for (const std::size_t count : kCounts) {
            for (int root = 0; root < comm.size(); ++root) {
                Buffer<T> buffer(count);
                const auto wanted = [&](std::size_t i) { return input(root, i); };
                if (comm.rank() == root) buffer.fill(wanted);
                comm.broadcast(buffer.data(), count, data_type_of<T>, root).wait();
                buffer.check("broadcast", wanted);
            }
        }
    });
}

void all_to_all_results(Communicator& comm) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    // What `from` sends to `to`; from * 16 + to tells them apart for as many ranks as the suite runs.
    const auto item = [](int from, int to, std::size_t index) { return from * 16 + to + static_cast<int>(index % 5); };
    for_each_type([&]<class T>() {
        for (const std::size_t count : kCounts) {
            Buffer<T> send(count * ranks), recv(count * ranks);
            const auto wanted = [&](std::size_t i) {
                return item(static_cast<int>(i / count), comm.rank(), i % count);
            };
            send.fill([&](std::size_t i) { return item(comm.rank(), static_cast<int>(i / count), i % count); });
            comm.all_to_all(send.data(), recv.data(), count, data_type_of<T>).wait();
            recv.check("all_to_all", wanted);
            comm.all_to_all(send.data(), send.data(), count, data_type_of<T>).wait();
            send.check("all_to_all in place", wanted);
        }
    });
}

/// Every rank passes its buffer to the next. A send may wait for its recv, so rank 0 receives last.
void send_recv_ring(Communicator& comm) {
    const int next = (comm.rank() + 1) % comm.size();
    const int previous = (comm.rank() + comm.size() - 1) % comm.size();
    for_each_type([&]<class T>() {
        for (const std::size_t count : kCounts) {
            Buffer<T> out(count), in(count);
            out.fill([&](std::size_t i) { return input(comm.rank(), i); });
            if (comm.rank() == 0) comm.send(out.data(), count, data_type_of<T>, next).wait();
            comm.recv(in.data(), count, data_type_of<T>, previous).wait();
            if (comm.rank() != 0) comm.send(out.data(), count, data_type_of<T>, next).wait();
            in.check("ring", [&](std::size_t i) { return input(previous, i); });
        }
    });
}

void messages_keep_their_order(Communicator& comm) {
    constexpr int kMessages = 200;
    if (comm.rank() > 1) return;
    for (int i = 0; i < kMessages; ++i) {
        std::int32_t value = comm.rank() == 0 ? i : -1;
        if (comm.rank() == 0) comm.send(&value, 1, i32, 1).wait();
        if (comm.rank() == 1) comm.recv(&value, 1, i32, 0).wait();
        expect(value == i, fmt::format("message {} arrives {}th, not {}", i, i, value));
    }
}

/// Sums that are not exact: every rank must still see the same bits, in every type and at every size.
void all_reduce_is_bit_identical(Communicator& comm) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    for (const std::size_t count : {std::size_t{37}, std::size_t{4099}, std::size_t{100'003}}) {
        std::vector<float> values(count);
        for (std::size_t i = 0; i < count; ++i) {
            values[i] = std::sin(static_cast<float>(i + 1) * static_cast<float>(comm.rank() + 1)) * 1e3f;
        }
        comm.all_reduce(std::span(values)).wait();
        std::vector<float> all(count * ranks);
        comm.all_gather(values.data(), all.data(), count, f32).wait();
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            const bool same = std::memcmp(&all[rank * count], values.data(), count * sizeof(float)) == 0;
            expect(same, fmt::format("ranks {} and {} have the same bits", comm.rank(), rank));
        }
    }
}

/// 1 + 2^-8 + 2^-8 + …: rounding to bf16 after every step would lose every term behind the first.
void bf16_is_accumulated_in_f32(Communicator& comm) {
    for (const std::size_t count : {std::size_t{5}, std::size_t{50'001}}) {
        std::vector<bfloat16> values(count, bfloat16(comm.rank() == 0 ? 1.0f : 1.0f / 256.0f));
        comm.all_reduce(std::span(values)).wait();
        const bfloat16 wanted(1.0f + static_cast<float>(comm.size() - 1) / 256.0f);
        for (const bfloat16 value : values) expect(value.bits == wanted.bits, "bf16 sums are rounded once");
    }
}

void integers_wrap(Communicator& comm) {
    std::int32_t sum = std::numeric_limits<std::int32_t>::max();
    comm.all_reduce(&sum, &sum, 1, i32, ReduceOp::sum).wait();
    const auto wanted = static_cast<std::int32_t>(0x7fffffffu * static_cast<unsigned>(comm.size()));
    expect(sum == wanted, "i32 sums wrap around");
}

/// Different collectives at once in flight: what a slot held must be gone before it is used again.
void mixed_collectives(Communicator& comm) {
    for (int round = 0; round < 150; ++round) {
        const int root = round % comm.size();
        std::vector<std::int32_t> block(static_cast<std::size_t>(1 + round * 97 % 20'000), comm.rank() + round);
        comm.broadcast(block.data(), block.size(), i32, root).wait();
        expect(block.front() == root + round && block.back() == root + round, "broadcast in a mix");
        comm.all_reduce(std::span(block)).wait();
        expect(block.back() == comm.size() * (root + round), "all_reduce in a mix");
        if (round % 7 == 0) comm.barrier();
        expect(comm.all_reduce_value(comm.rank() + round, ReduceOp::max) == comm.size() - 1 + round, "max in a mix");
        expect(comm.any_rank(comm.rank() == root), "any_rank is true when one rank is");
        expect(!comm.any_rank(false), "any_rank is false when none is");
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
        expect(ranks[static_cast<std::size_t>(i)] == comm.rank() % 2 + 2 * (members - 1 - i), "who is where in a part");
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
    if (part) expect(part->size() == comm.size() - 1 && part->rank() == comm.rank() - 1, "equal keys keep the order");
    comm.barrier();
}

template <class Call>
void expect_invalid(const std::string& what, const Call& call) {
    expect_throws<Error>(what, call, [](const Error& error) { return error.code() == ErrorCode::invalid_argument; });
}

void arguments_are_checked(Communicator& comm) {
    std::vector<float> data(64);
    const auto negative = static_cast<std::size_t>(-1);
    expect_invalid("negative count", [&] { comm.all_reduce(data.data(), data.data(), negative, f32, ReduceOp::sum); });
    expect_invalid("null", [&] { comm.all_gather(nullptr, data.data(), 1, f32); });
    expect_invalid("overlap", [&] { comm.all_reduce(data.data(), data.data() + 1, 4, f32, ReduceOp::sum); });
    expect_invalid("root too large", [&] { comm.broadcast(data.data(), 1, f32, comm.size()); });
    expect_invalid("negative root", [&] { comm.broadcast(data.data(), 1, f32, -1); });
    expect_invalid("no such type", [&] { comm.broadcast(data.data(), 1, static_cast<DataType>(99), 0); });
    expect_invalid("no such op", [&] {
        comm.all_reduce(data.data(), data.data(), 1, f32, ReduceOp(static_cast<ReduceOp::Kind>(9)));
    });
    expect_invalid("send to oneself", [&] { comm.send(data.data(), 1, f32, comm.rank()); });
    expect_invalid("recv from oneself", [&] { comm.recv(data.data(), 1, f32, comm.rank()); });
    CpuQueue queue;
    const Stream foreign = comm.backend() == "nccl" ? queue.stream() : Stream::cuda(0, nullptr);
    expect_invalid("a stream of another device", [&] { comm.broadcast(data.data(), 1, f32, 0, foreign); });
    expect(comm.status() == CommunicatorStatus::ok, "a rejected call leaves the group as it was");
    comm.barrier();
}

using std::chrono::milliseconds;
constexpr milliseconds kPlenty{100'000};

constexpr Case kCases[] = {
    {"all_reduce_results", 1, false, Needs::nothing, kPlenty, all_reduce_results},
    {"reduce_scatter_results", 1, false, Needs::nothing, kPlenty, reduce_scatter_results},
    {"all_gather_results", 1, false, Needs::nothing, kPlenty, all_gather_results},
    {"broadcast_results", 1, false, Needs::nothing, kPlenty, broadcast_results},
    {"all_to_all_results", 1, false, Needs::nothing, kPlenty, all_to_all_results},
    {"send_recv_ring", 2, false, Needs::nothing, kPlenty, send_recv_ring},
    {"messages_keep_their_order", 2, false, Needs::nothing, kPlenty, messages_keep_their_order},
    {"all_reduce_is_bit_identical", 1, false, Needs::nothing, kPlenty, all_reduce_is_bit_identical},
    {"bf16_is_accumulated_in_f32", 1, false, Needs::nothing, kPlenty, bf16_is_accumulated_in_f32},
    {"integers_wrap", 1, false, Needs::nothing, kPlenty, integers_wrap},
    {"mixed_collectives", 1, false, Needs::nothing, kPlenty, mixed_collectives},
    {"split_by_parity", 1, false, Needs::nothing, kPlenty, split_by_parity},
    {"split_without_color", 2, false, Needs::nothing, kPlenty, split_without_color},
    {"arguments_are_checked", 1, false, Needs::nothing, kPlenty, arguments_are_checked},
    {"abort_ends_everything", 1, true, Needs::nothing, kPlenty, abort_ends_everything},
    {"abort_wakes_others", 2, true, Needs::nothing, kPlenty, abort_wakes_others},
    {"abort_from_another_thread", 2, true, Needs::nothing, kPlenty, abort_from_another_thread},
    {"absent_rank_times_out", 2, true, Needs::nothing, milliseconds(500), absent_rank_times_out},
    {"different_counts_are_named", 2, true, Needs::mismatch_detection, kPlenty, different_counts_are_named},
    {"different_calls_are_named", 2, true, Needs::mismatch_detection, kPlenty, different_calls_are_named},
    {"different_roots_are_noticed_later", 2, true, Needs::mismatch_detection, kPlenty,
     different_roots_are_noticed_later},
    {"wrong_message_is_named", 2, true, Needs::mismatch_detection, kPlenty, wrong_message_is_named},
    {"killed_rank_is_named", 2, true, Needs::loss_detection, kPlenty, killed_rank_is_named},
    {"killed_rank_ends_large_all_reduce", 2, true, Needs::loss_detection, kPlenty, killed_rank_ends_large_all_reduce},
};

}  // namespace

std::span<const Case> cases() { return kCases; }

}  // namespace autolaunch::conformance
