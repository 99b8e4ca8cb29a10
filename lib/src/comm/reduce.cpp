#include "comm/reduce.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

namespace autolaunch {
namespace {

using Kind = ReduceOp::Kind;

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>;

/// What a type is accumulated in: halves in f32; integers as unsigned ones where they may wrap.
template <class T, Kind kind>
struct Accumulator {
    static constexpr bool wraps = std::is_integral_v<T> && kind != Kind::min && kind != Kind::max;
    using type = typename std::conditional_t<wraps, std::make_unsigned<T>, std::type_identity<T>>::type;
};
template <Kind kind>
struct Accumulator<bfloat16, kind> {
    using type = float;
};
template <Kind kind>
struct Accumulator<float16, kind> {
    using type = float;
};

template <Kind kind, class A>
A combine(A a, A b) {
    if constexpr (kind == Kind::min) return b < a ? b : a;
    if constexpr (kind == Kind::max) return a < b ? b : a;
    if constexpr (kind == Kind::prod) return static_cast<A>(a * b);
    return static_cast<A>(a + b);
}

// The accumulators of one block stay in the first-level cache between the inputs, and stand between inputs and outputs,
// so that the two may be the same memory and the loops still vectorise.
constexpr std::size_t kBlockElements = 1024;

template <class T, Kind kind>
class BlockReducer {
public:
    using A = typename Accumulator<T, kind>::type;
    using Block = std::array<A, kBlockElements>;

    explicit BlockReducer(const ReduceBuffers& buffers)
        : buffers_(buffers), ranks_(buffers.ranks == 0 ? buffers.inputs.size() : buffers.ranks) {}

    void run(std::size_t begin, std::size_t count) {
        Block sum;
        reduce(0, buffers_.inputs.size(), begin, count, sum);
        for (void* output : buffers_.outputs) store(sum, static_cast<T*>(output) + begin, count);
    }

private:
    // Inputs first to last - 1, into `sum`.
    void reduce(std::size_t first, std::size_t last, std::size_t begin, std::size_t count, Block& sum) {
        if (last - first == 1) return load(first, begin, count, sum);
        const std::size_t middle = first + std::bit_floor(last - first - 1);
        reduce(first, middle, begin, count, sum);
        Block right;
        reduce(middle, last, begin, count, right);
        for (std::size_t i = 0; i < count; ++i) sum[i] = combine<kind>(sum[i], right[i]);
    }

    void load(std::size_t index, std::size_t begin, std::size_t count, Block& block) {
        const T* input = static_cast<const T*>(buffers_.inputs[index]) + begin;
        if constexpr (kind == Kind::pre_multiplied_sum) {
            const double factor = buffers_.factors[index];
            if constexpr (std::is_integral_v<T>) {
                for (std::size_t i = 0; i < count; ++i)
                    block[i] = static_cast<A>(static_cast<A>(input[i]) * static_cast<A>(static_cast<T>(factor)));
            } else {
                for (std::size_t i = 0; i < count; ++i) block[i] = static_cast<A>(input[i]) * static_cast<A>(factor);
            }
        } else {
            for (std::size_t i = 0; i < count; ++i) block[i] = static_cast<A>(input[i]);
        }
    }

    void store(const Block& block, T* output, std::size_t count) {
        if constexpr (kind == Kind::avg) {
            if constexpr (std::is_integral_v<T>) {
                for (std::size_t i = 0; i < count; ++i)
                    output[i] = static_cast<T>(static_cast<T>(block[i]) / static_cast<T>(ranks_));
            } else {
                for (std::size_t i = 0; i < count; ++i) output[i] = T(block[i] / static_cast<A>(ranks_));
            }
        } else {
            for (std::size_t i = 0; i < count; ++i) output[i] = T(block[i]);
        }
    }

    const ReduceBuffers& buffers_;
    std::size_t ranks_;
};

template <class T, Kind kind>
void reduce_all(const ReduceBuffers& buffers, std::size_t count) {
    BlockReducer<T, kind> reducer(buffers);
    for (std::size_t begin = 0; begin < count; begin += kBlockElements) {
        reducer.run(begin, std::min(kBlockElements, count - begin));
    }
}

template <class T>
void reduce_typed(const ReduceBuffers& buffers, std::size_t count, ReduceOp op) {
    switch (op.kind()) {
        case Kind::sum:
            return reduce_all<T, Kind::sum>(buffers, count);
        case Kind::avg:
            return reduce_all<T, Kind::avg>(buffers, count);
        case Kind::min:
            return reduce_all<T, Kind::min>(buffers, count);
        case Kind::max:
            return reduce_all<T, Kind::max>(buffers, count);
        case Kind::prod:
            return reduce_all<T, Kind::prod>(buffers, count);
        case Kind::pre_multiplied_sum:
            return reduce_all<T, Kind::pre_multiplied_sum>(buffers, count);
    }
}

}  // namespace

void reduce_elements(const ReduceBuffers& buffers, std::size_t count, DataType type, ReduceOp op) {
    switch (type) {
        case DataType::f32:
            return reduce_typed<float>(buffers, count, op);
        case DataType::f64:
            return reduce_typed<double>(buffers, count, op);
        case DataType::bf16:
            return reduce_typed<bfloat16>(buffers, count, op);
        case DataType::f16:
            return reduce_typed<float16>(buffers, count, op);
        case DataType::i8:
            return reduce_typed<std::int8_t>(buffers, count, op);
        case DataType::i32:
            return reduce_typed<std::int32_t>(buffers, count, op);
        case DataType::i64:
            return reduce_typed<std::int64_t>(buffers, count, op);
        case DataType::u8:
            return reduce_typed<std::uint8_t>(buffers, count, op);
        case DataType::u32:
            return reduce_typed<std::uint32_t>(buffers, count, op);
        case DataType::u64:
            return reduce_typed<std::uint64_t>(buffers, count, op);
    }
}

}  // namespace autolaunch
