#include "collective_perf.hpp"

#include <autolaunch/comm/communicator.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

namespace autolaunch::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Free {
    void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte, Free>;

Memory allocate(std::size_t bytes) {
    constexpr std::size_t kPage = 4096;
    void* memory = std::aligned_alloc(kPage, (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage);
    if (memory == nullptr) throw std::bad_alloc();
    std::memset(memory, 0, bytes);  // fault the pages in now, not while time is taken
    return Memory(static_cast<std::byte*>(memory));
}

// Inputs repeat every kPeriod elements, so the exact result is a table of as many entries. Small integers: sums of up
// to 128 ranks are exact in bf16; factors are 1 and 2, whose products are exact as long as they are finite.
constexpr std::size_t kPeriod = 3;

std::uint64_t input(int rank, std::size_t index, ReduceOp op) {
    const std::size_t value = (static_cast<std::size_t>(rank) + index) % kPeriod;
    return op == ReduceOp::prod ? 1 + (value == 0) : value;
}

template <class T>
T element(std::uint64_t value) {
    if constexpr (std::is_same_v<T, bfloat16>) {
        return bfloat16(static_cast<float>(value));
    } else {
        return static_cast<T>(value);
    }
}

/// Exact as long as it fits 64 bits; wraps as integers do.
std::uint64_t expected(int size, std::size_t index, ReduceOp op) {
    std::uint64_t result = input(0, index, op);
    for (int rank = 1; rank < size; ++rank) {
        const std::uint64_t next = input(rank, index, op);
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

template <class T>
void fill_typed(std::byte* data, std::size_t count, int rank, ReduceOp op) {
    T* elements = reinterpret_cast<T*>(data);
    for (std::size_t i = 0; i < count; ++i) elements[i] = element<T>(input(rank, i, op));
}

template <class T>
std::size_t wrong_typed(const std::byte* data, std::size_t first_index, std::size_t count, int size, ReduceOp op) {
    const T* elements = reinterpret_cast<const T*>(data);
    std::array<T, kPeriod> table;
    for (std::size_t i = 0; i < kPeriod; ++i) table[i] = element<T>(expected(size, i, op));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
        wrong += std::memcmp(&elements[i], &table[(first_index + i) % kPeriod], sizeof(T)) != 0;
    }
    return wrong;
}

/// Calls call.template operator()<T>() for the C++ type of `type`.
template <class Call>
auto with_type(DataType type, const Call& call) {
    switch (type) {
        case DataType::f64:
            return call.template operator()<double>();
        case DataType::bf16:
            return call.template operator()<bfloat16>();
        case DataType::i32:
            return call.template operator()<std::int32_t>();
        case DataType::i64:
            return call.template operator()<std::int64_t>();
        case DataType::u8:
            return call.template operator()<std::uint8_t>();
        case DataType::f32:
        default:
            break;
    }
    return call.template operator()<float>();
}

struct Result {
    double microseconds = 0;
    double algbw = 0;
    double busbw = 0;
    std::size_t wrong = 0;
};

/// One size, type and operation: the buffers' shapes under the collective.
struct Shape {
    Collective collective;
    DataType type;
    ReduceOp op;
    std::size_t send_count;
    std::size_t recv_count;

    std::size_t bytes() const { return send_count * size_of(type); }
};

Shape shape_of(Collective collective, std::size_t bytes, int size, DataType type, ReduceOp op) {
    const std::size_t count = bytes / size_of(type);
    if (collective == Collective::all_reduce) return {collective, type, op, count, count};
    const std::size_t each = count / static_cast<std::size_t>(size);
    return {collective, type, op, each * static_cast<std::size_t>(size), each};
}

class Sweep {
public:
    Sweep(Collective collective, const PerfOptions& options, const Group& group)
        : collective_(collective),
          options_(options),
          group_(group),
          send_(allocate(options.max_bytes)),
          recv_(allocate(options.max_bytes)) {}

    int run() {
        print_header();
        for (const DataType type : options_.types) {
            for (const ReduceOp op : options_.ops) run_sizes(type, op);
        }
        print_footer(measure_memcpy());
        return wrong_ == 0 ? 0 : 1;
    }

private:
    void run_sizes(DataType type, ReduceOp op) {
        for (std::size_t bytes = options_.min_bytes; bytes <= options_.max_bytes;) {
            const Shape shape = shape_of(collective_, bytes, group_.size, type, op);
            const Result apart = measure(shape, false);
            const Result in_place = measure(shape, true);
            print_row(shape, apart, in_place);
            note(apart);
            note(in_place);
            const std::size_t next =
                options_.step_factor != 0 ? bytes * options_.step_factor : bytes + options_.step_bytes;
            if (next <= bytes) break;  // 0 bytes times a factor
            bytes = next;
        }
    }

    void note(const Result& result) {
        wrong_ += result.wrong;
        busbw_sum_ += result.busbw;
        best_busbw_ = std::max(best_busbw_, result.busbw);
        ++results_;
    }

    /// In place the whole send buffer is the memory, as nccl-tests has it: recv is this rank's block of it.
    std::byte* recv_of(const Shape& shape, bool in_place) const {
        if (!in_place) return recv_.get();
        if (collective_ == Collective::all_reduce) return send_.get();
        return send_.get() + static_cast<std::size_t>(group_.rank) * shape.recv_count * size_of(shape.type);
    }

    void call(const Shape& shape, bool in_place) {
        group_.run(send_.get(), recv_of(shape, in_place), shape.recv_count, shape.type, shape.op);
    }

    Result measure(const Shape& shape, bool in_place) {
        fill(shape);
        for (int i = 0; i < options_.warmup_iterations; ++i) call(shape, in_place);
        group_.barrier();
        const auto start = Clock::now();
        for (int i = 0; i < options_.iterations; ++i) call(shape, in_place);
        const double seconds = std::chrono::duration<double>(Clock::now() - start).count() / options_.iterations;
        Result result;
        const double mean_seconds = group_.sum(seconds) / group_.size;
        result.microseconds = mean_seconds * 1e6;
        result.algbw = static_cast<double>(shape.bytes()) / mean_seconds / 1e9;
        result.busbw = result.algbw * bus_factor(collective_, group_.size);
        if (options_.check) result.wrong = check(shape, in_place);
        return result;
    }

    void fill(const Shape& shape) {
        with_type(shape.type, [&]<class T>() { fill_typed<T>(send_.get(), shape.send_count, group_.rank, shape.op); });
    }

    /// One more call, on fresh inputs and into poisoned memory; wrong elements of all ranks.
    std::size_t check(const Shape& shape, bool in_place) {
        fill(shape);
        if (!in_place) std::memset(recv_.get(), 0xff, shape.recv_count * size_of(shape.type));
        call(shape, in_place);
        const std::size_t first =
            collective_ == Collective::all_reduce ? 0 : static_cast<std::size_t>(group_.rank) * shape.recv_count;
        const std::size_t wrong = with_type(shape.type, [&]<class T>() {
            return wrong_typed<T>(recv_of(shape, in_place), first, shape.recv_count, group_.size, shape.op);
        });
        return static_cast<std::size_t>(group_.sum(static_cast<double>(wrong)));
    }

    /// Bytes copied a second by each rank while all copy: what a collective that only moved each byte once could reach.
    double measure_memcpy() {
        double best = 0;
        for (int round = 0; round < 5; ++round) {
            group_.barrier();
            const auto start = Clock::now();
            for (int i = 0; i < 4; ++i) {
                std::memcpy(recv_.get(), send_.get(), options_.max_bytes);
                asm volatile("" : : "r"(recv_.get()) : "memory");
            }
            const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
            const double rate = 4.0 * static_cast<double>(options_.max_bytes) / seconds / 1e9;
            best = std::max(best, group_.sum(rate) / group_.size);
        }
        return best;
    }

    void print_header() const {
        if (group_.rank != 0) return;
        std::printf(
            "# ranks %d backend %s minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %d iters: %d "
            "validation: %d\n#\n",
            group_.size, group_.name.c_str(), options_.min_bytes, options_.max_bytes,
            options_.step_factor != 0 ? options_.step_factor : options_.step_bytes,
            options_.step_factor != 0 ? "factor" : "bytes", options_.warmup_iterations, options_.iterations,
            options_.check ? 1 : 0);
        std::printf(
            "#                                                              out-of-place                       "
            "in-place          \n");
        std::printf(
            "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   "
            "algbw   busbw #wrong\n");
        std::printf(
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  "
            "(GB/s)  (GB/s)       \n");
    }

    std::string columns(const Result& result) const {
        const int digits = result.microseconds >= 10'000 ? 0 : result.microseconds >= 100 ? 1 : 2;
        const std::string wrong = options_.check ? std::to_string(result.wrong) : "N/A";
        return fmt::format("  {:7.{}f}  {:6.2f}  {:6.2f}  {:>5}", result.microseconds, digits, result.algbw,
                           result.busbw, wrong);
    }

    void print_row(const Shape& shape, const Result& apart, const Result& in_place) const {
        if (group_.rank != 0) return;
        const std::string row =
            fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n", shape.bytes(), shape.recv_count,
                        long_name_of(shape.type), name_of(shape.op), -1, columns(apart), columns(in_place));
        std::fputs(row.c_str(), stdout);
        std::fflush(stdout);
    }

    void print_footer(double memcpy_rate) const {
        if (group_.rank != 0) return;
        std::printf("# Out of bounds values : %zu %s\n", wrong_, wrong_ == 0 ? "OK" : "FAILED");
        std::printf("# Avg bus bandwidth    : %g\n", results_ == 0 ? 0.0 : busbw_sum_ / results_);
        std::printf(
            "# measured memcpy      : %.2f GB/s a rank, all %d ranks copying %zu bytes at once; the best busbw "
            "is %.0f%% of it\n#\n",
            memcpy_rate, group_.size, options_.max_bytes, memcpy_rate > 0 ? 100 * best_busbw_ / memcpy_rate : 0.0);
    }

    Collective collective_;
    const PerfOptions& options_;
    const Group& group_;
    Memory send_;
    Memory recv_;
    std::size_t wrong_ = 0;
    double busbw_sum_ = 0;
    double best_busbw_ = 0;
    int results_ = 0;
};

}  // namespace

double bus_factor(Collective collective, int size) {
    const double n = size;
    return (collective == Collective::all_reduce ? 2 : 1) * (n - 1) / n;
}

int run_sweep(Collective collective, const PerfOptions& options, const Group& group) {
    return Sweep(collective, options, group).run();
}

}  // namespace autolaunch::bench
