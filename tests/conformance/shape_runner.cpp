#include "shape_runner.hpp"

#include "elements.hpp"
#include "expect.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

namespace autolaunch::conformance {
namespace {

using Kind = CollectiveKind;

constexpr std::size_t kGuardBytes = 64;
constexpr auto kGuard = std::byte{0xa5};
constexpr auto kPoison = std::byte{0xc7};

bool has_blocks(Kind kind) {
    return kind == Kind::all_gather || kind == Kind::reduce_scatter || kind == Kind::gather ||
           kind == Kind::scatter;
}

int root_of(const Shape& shape, int size) {
    if (shape.root == RootChoice::first)
        return 0;
    return shape.root == RootChoice::last ? size - 1 : size / 2;
}

/// Whether send and recv are one buffer in this shape; not every kind has both, or an in-place
/// form.
bool in_place(const Shape& shape) {
    const bool ever = reduces(shape.kind) || shape.kind == Kind::all_gather ||
                      shape.kind == Kind::gather || shape.kind == Kind::scatter ||
                      (shape.kind == Kind::all_to_all && !shape.ragged);
    return ever && shape.in_place;
}

}  // namespace

Region::Region(void* memory, std::size_t count, DataType type, bool shifted)
    : begin_(static_cast<std::byte*>(memory)),
      data_(begin_ + kGuardBytes + (shifted ? size_of(type) : 0)),
      end_(data_ + count * size_of(type) + kGuardBytes),
      count_(count),
      type_(type) {
    std::fill(begin_, data_, kGuard);
    std::fill(data_, end_ - kGuardBytes, kPoison);
    std::fill(end_ - kGuardBytes, end_, kGuard);
}

std::size_t Region::bytes_for(std::size_t count, DataType type) {
    return 2 * kGuardBytes + (count + 1) * size_of(type);
}

void Region::check_guards() const {
    const auto intact = [](std::byte byte) { return byte == kGuard; };
    expect(std::all_of(begin_, data_, intact), "nothing is written before a buffer");
    expect(std::all_of(end_ - kGuardBytes, end_, intact), "nothing is written behind a buffer");
}

/// How long the blocks of one rank's call are; `out` and `in` differ for all_to_all only.
struct ShapeRunner::Blocks {
    std::vector<std::size_t> out, in;

    Blocks(const Shape& shape, int rank, int size) {
        for (int peer = 0; peer < size; ++peer) {
            out.push_back(length(shape, rank, peer));
            in.push_back(length(shape, peer, rank));
        }
    }
    // Ragged: 0, a half, one and one and a half counts long.
    static std::size_t length(const Shape& shape, int from, int to) {
        if (!shape.ragged)
            return shape.count;
        const int halves = shape.kind == Kind::all_to_all ? from + 2 * to + 1 : 3 * to + 2;
        return shape.count * static_cast<std::size_t>(halves % 4) / 2;
    }
    static std::size_t sum(const std::vector<std::size_t>& counts, std::size_t before) {
        return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(before),
                               std::size_t{0});
    }
    std::size_t offset(int rank) const { return sum(out, static_cast<std::size_t>(rank)); }
    std::size_t total() const { return sum(out, out.size()); }
    std::size_t total_in() const { return sum(in, in.size()); }
    std::size_t count(int rank) const { return out[static_cast<std::size_t>(rank)]; }
};

struct ShapeRunner::Buffers {
    std::vector<Region> regions;  // one or two
    std::byte* send = nullptr;
    std::byte* recv = nullptr;
    std::size_t send_count = 0;
    std::size_t recv_count = 0;
};

ShapeRunner::ShapeRunner(Communicator& comm, const std::vector<Shape>& shapes) : comm_(comm) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    for (const Shape& shape : shapes) {
        const std::size_t most =
            shape.count *
            (has_blocks(shape.kind) || shape.kind == Kind::all_to_all ? 2 * ranks : 1);
        longest_bytes_ = std::max(longest_bytes_, Region::bytes_for(most, shape.type));
    }
    if (comm.backend() == "nccl")
        copier_ = comm.split(comm.rank(), 0);
    own_send_.resize(longest_bytes_);
    own_recv_.resize(longest_bytes_);
    shared_send_ = comm.allocate(longest_bytes_);
    shared_recv_ = comm.allocate(longest_bytes_);
    expect(shared_send_.bytes() == longest_bytes_, "allocate() gives what it was asked for");
}

void ShapeRunner::run(const Shape& shape) {
    try {
        const Blocks blocks(shape, comm_.rank(), comm_.size());
        const Buffers buffers = lay_out(shape, blocks);
        fill(shape, blocks, buffers);
        if (is_on_gpu(shape)) {
            call(shape, blocks, upload(buffers));
            download(buffers);
        } else {
            call(shape, blocks, buffers);
        }
        check(shape, blocks, buffers);
    } catch (const std::exception& error) {
        throw std::runtime_error(fmt::format("{} (rank {} of {}): {}", describe(shape),
                                             comm_.rank(), comm_.size(), error.what()));
    }
}

std::byte* ShapeRunner::memory(std::vector<std::byte>& own, const CommunicatorBuffer& shared,
                               const Shape& shape) const {
    return shape.allocated && !copier_ ? static_cast<std::byte*>(shared.data()) : own.data();
}

/// Whether the call is made with copies of its buffers in a GPU's memory, which the CPU cannot fill
/// and look at.
bool ShapeRunner::is_on_gpu(const Shape& shape) const {
    const bool copies_itself = shape.kind == Kind::send && comm_.size() == 1;  // see start_ring()
    return shape.allocated && copier_ && !copies_itself;
}

/// What `buffers` are, with their contents, in the memory that allocate() gave.
ShapeRunner::Buffers ShapeRunner::upload(Buffers buffers) {
    const std::byte* const send = buffers.send;
    const std::byte* const recv = buffers.recv;
    for (std::size_t i = 0; i < buffers.regions.size(); ++i) {
        const auto from = buffers.regions[i].with_guards();
        auto* to = static_cast<std::byte*>((i == 0 ? shared_send_ : shared_recv_).data());
        copier_->all_gather(from.data(), to, from.size(), u8).wait();
        const auto holds = [&](const std::byte* data) {
            return data >= from.data() && data < from.data() + from.size();
        };
        if (holds(send))
            buffers.send = to + (send - from.data());
        if (holds(recv))
            buffers.recv = to + (recv - from.data());
    }
    return buffers;
}

/// The reverse: `buffers` are the CPU's.
void ShapeRunner::download(const Buffers& buffers) {
    for (std::size_t i = 0; i < buffers.regions.size(); ++i) {
        const auto to = buffers.regions[i].with_guards();
        copier_->all_gather((i == 0 ? shared_send_ : shared_recv_).data(), to.data(), to.size(), u8)
            .wait();
    }
}

ShapeRunner::Buffers ShapeRunner::lay_out(const Shape& shape, const Blocks& blocks) {
    const int rank = comm_.rank();
    const bool is_root = rank == root_of(shape, comm_.size());
    Buffers buffers;
    std::size_t& send = buffers.send_count = shape.count;
    std::size_t& recv = buffers.recv_count = shape.count;
    switch (shape.kind) {
        case Kind::all_gather:
        case Kind::gather:
            send = blocks.count(rank);
            recv = shape.kind == Kind::all_gather || is_root ? blocks.total() : 0;
            break;
        case Kind::reduce_scatter:
        case Kind::scatter:
            send = shape.kind == Kind::reduce_scatter || is_root ? blocks.total() : 0;
            recv = blocks.count(rank);
            break;
        case Kind::all_to_all:
            send = blocks.total();
            recv = blocks.total_in();
            break;
        case Kind::broadcast:
            send = 0;
            break;
        case Kind::reduce:
            recv = is_root ? shape.count : 0;
            break;
        default:
            break;
    }
    const auto region = [&](std::vector<std::byte>& own, const CommunicatorBuffer& shared,
                            std::size_t count) {
        buffers.regions.emplace_back(memory(own, shared, shape), count, shape.type, shape.shifted);
        return buffers.regions.back().data();
    };
    const bool rooted =
        shape.kind == Kind::gather || shape.kind == Kind::scatter || shape.kind == Kind::reduce;
    if (in_place(shape) && (!rooted || is_root)) {
        std::byte* whole = region(own_send_, shared_send_, std::max(send, recv));
        const std::size_t own =
            has_blocks(shape.kind) ? blocks.offset(rank) * size_of(shape.type) : 0;
        buffers.send = whole + (send < recv ? own : 0);
        buffers.recv = whole + (recv < send ? own : 0);
    } else {
        buffers.send = region(own_send_, shared_send_, send);
        buffers.recv = region(own_recv_, shared_recv_, recv);
    }
    return buffers;
}

void ShapeRunner::fill(const Shape& shape, const Blocks&, const Buffers& buffers) {
    const int rank = comm_.rank();
    const bool broadcasts = shape.kind == Kind::broadcast && rank == root_of(shape, comm_.size());
    std::byte* data = broadcasts ? buffers.recv : buffers.send;
    const std::size_t count = broadcasts ? buffers.recv_count : buffers.send_count;
    for (std::size_t i = 0; i < count; ++i)
        store(shape.type, data, i,
              reduces(shape.kind) ? reduced_input(shape.op, rank, i) : moved_input(rank, i));
}

Work ShapeRunner::start(const Shape& shape, const Blocks& blocks, const Buffers& buffers,
                        Stream stream) {
    const void* send = buffers.send;
    void* recv = buffers.recv;
    const DataType type = shape.type;
    const ReduceOp op = op_of(shape.op, type, comm_.rank());
    const int root = root_of(shape, comm_.size());
    const std::size_t count = shape.count;
    switch (shape.kind) {
        case Kind::all_reduce:
            return comm_.all_reduce(send, recv, count, type, op, stream);
        case Kind::reduce:
            return comm_.reduce(send, comm_.rank() == root ? recv : nullptr, count, type, op, root,
                                stream);
        case Kind::broadcast:
            return comm_.broadcast(recv, count, type, root, stream);
        case Kind::all_gather:
            return shape.ragged ? comm_.all_gather_v(send, recv, blocks.out, type, stream)
                                : comm_.all_gather(send, recv, count, type, stream);
        case Kind::reduce_scatter:
            return shape.ragged ? comm_.reduce_scatter_v(send, recv, blocks.out, type, op, stream)
                                : comm_.reduce_scatter(send, recv, count, type, op, stream);
        case Kind::all_to_all:
            return shape.ragged
                       ? comm_.all_to_all_v(send, blocks.out, recv, blocks.in, type, stream)
                       : comm_.all_to_all(send, recv, count, type, stream);
        case Kind::gather:
            if (comm_.rank() != root)
                recv = nullptr;
            return shape.ragged ? comm_.gather_v(send, recv, blocks.out, type, root, stream)
                                : comm_.gather(send, recv, count, type, root, stream);
        case Kind::scatter:
            if (comm_.rank() != root)
                send = nullptr;
            return shape.ragged ? comm_.scatter_v(send, recv, blocks.out, type, root, stream)
                                : comm_.scatter(send, recv, count, type, root, stream);
        default:
            start_ring(shape, buffers, stream);
            return {};
    }
}

/// Every rank names its send first: only side by side do these proceed.
void ShapeRunner::start_ring(const Shape& shape, const Buffers& buffers, Stream stream) {
    const int size = comm_.size();
    if (size == 1) {
        std::memcpy(buffers.recv, buffers.send, shape.count * size_of(shape.type));
        return;
    }
    comm_.send(buffers.send, shape.count, shape.type, (comm_.rank() + 1) % size, stream);
    comm_.recv(buffers.recv, shape.count, shape.type, (comm_.rank() + size - 1) % size, stream);
}

void ShapeRunner::call(const Shape& shape, const Blocks& blocks, const Buffers& buffers) {
    constexpr auto kPatience = std::chrono::seconds(100);
    const bool queued =
        shape.way == Way::queue && comm_.backend() != "nccl";  // which has streams instead
    const Stream stream = queued ? queue_.stream() : Stream();
    if (shape.way != Way::group && shape.kind != Kind::send) {
        Work work = start(shape, blocks, buffers, stream);
        expect(work.wait_for(kPatience), "the call is over in time");
        expect(work.is_completed(), "what was waited for is completed");
        return;
    }
    const int size = comm_.size();
    std::int32_t token = comm_.rank(), received = -1;
    comm_.group_start();
    start(shape, blocks, buffers, stream);
    if (size > 1) {
        comm_.send(&token, 1, i32, (comm_.rank() + 1) % size, stream);
        comm_.recv(&received, 1, i32, (comm_.rank() + size - 1) % size, stream);
    }
    Work work = comm_.group_end();
    expect(work.wait_for(kPatience), "the group is over in time");
    if (size > 1)
        expect(received == (comm_.rank() + size - 1) % size, "a ring in a group");
}

std::vector<double> ShapeRunner::wanted(const Shape& shape, const Blocks& blocks,
                                        std::size_t count) const {
    const int rank = comm_.rank();
    const int size = comm_.size();
    std::vector<double> values;
    values.reserve(count);
    const auto append = [&](std::size_t elements, const auto& value) {
        for (std::size_t i = 0; i < elements; ++i)
            values.push_back(value(i));
    };
    switch (shape.kind) {
        case Kind::all_reduce:
        case Kind::reduce:
            append(count, [&](std::size_t i) { return reduced(shape.op, shape.type, size, i); });
            break;
        case Kind::reduce_scatter:
            append(count, [&, at = blocks.offset(rank)](std::size_t i) {
                return reduced(shape.op, shape.type, size, at + i);
            });
            break;
        case Kind::broadcast:
            append(count, [&](std::size_t i) { return moved_input(root_of(shape, size), i); });
            break;
        case Kind::scatter:
            append(count, [&, at = blocks.offset(rank)](std::size_t i) {
                return moved_input(root_of(shape, size), at + i);
            });
            break;
        case Kind::all_gather:
        case Kind::gather:
        case Kind::all_to_all:
            for (int peer = 0; peer < size; ++peer) {
                const bool all_to_all = shape.kind == Kind::all_to_all;
                const std::size_t at = all_to_all ? Blocks(shape, peer, size).offset(rank) : 0;
                append(all_to_all ? blocks.in[static_cast<std::size_t>(peer)] : blocks.count(peer),
                       [&](std::size_t i) { return moved_input(peer, at + i); });
            }
            break;
        default:
            append(count, [&](std::size_t i) { return moved_input((rank + size - 1) % size, i); });
    }
    return values;
}

void ShapeRunner::check(const Shape& shape, const Blocks& blocks, const Buffers& buffers) {
    const bool is_root = comm_.rank() == root_of(shape, comm_.size());
    const bool gets = (shape.kind != Kind::reduce && shape.kind != Kind::gather) || is_root;
    const auto should = gets ? wanted(shape, blocks, buffers.recv_count) : std::vector<double>();
    expect(!gets || should.size() == buffers.recv_count, "the test knows every element");
    for (std::size_t i = 0; i < should.size(); ++i) {
        const double is = load(shape.type, buffers.recv, i);
        if (!(is == should[i]))
            expect(false,
                   fmt::format("recv[{}] of {} is {}, not {}", i, should.size(), should[i], is));
    }
    if (buffers.regions.size() == 2 && shape.kind != Kind::broadcast) {
        for (std::size_t i = 0; i < buffers.send_count; ++i) {
            const double given = reduces(shape.kind) ? reduced_input(shape.op, comm_.rank(), i)
                                                     : moved_input(comm_.rank(), i);
            if (load(shape.type, buffers.send, i) != given)
                expect(false, fmt::format("send[{}] is untouched", i));
        }
    }
    for (const Region& region : buffers.regions)
        region.check_guards();
}

}  // namespace autolaunch::conformance
