#include "comm/reduce.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

namespace autolaunch {
namespace {

struct Sum {
    template <class T>
    T operator()(T a, T b) const {
        return static_cast<T>(a + b);
    }
};
struct Prod {
    template <class T>
    T operator()(T a, T b) const {
        return static_cast<T>(a * b);
    }
};
struct Min {
    template <class T>
    T operator()(T a, T b) const {
        return b < a ? b : a;
    }
};
struct Max {
    template <class T>
    T operator()(T a, T b) const {
        return a < b ? b : a;
    }
};

/// What a type is accumulated in: bf16 in f32; signed integers, for sum and prod, as unsigned ones, which wrap.
template <class T, class Op>
struct Accumulator {
    static constexpr bool wraps = std::is_integral_v<T> && (std::is_same_v<Op, Sum> || std::is_same_v<Op, Prod>);
    using type = typename std::conditional_t<wraps, std::make_unsigned<T>, std::type_identity<T>>::type;
};
template <class Op>
struct Accumulator<bfloat16, Op> {
    using type = float;
};

// The accumulators of one block stay in the first-level cache between the inputs, and stand between inputs and outputs,
// so that the two may be the same memory and the loops still vectorise.
constexpr std::size_t kBlockElements = 1024;

template <class T, class Op>
void reduce_block(std::span<const void* const> inputs, std::span<void* const> outputs, std::size_t begin,
                  std::size_t count) {
    using A = typename Accumulator<T, Op>::type;
    std::array<A, kBlockElements> sum;
    const T* first = static_cast<const T*>(inputs[0]) + begin;
    if (inputs.size() == 1) {
        for (std::size_t i = 0; i < count; ++i) sum[i] = static_cast<A>(first[i]);
    } else {
        const T* second = static_cast<const T*>(inputs[1]) + begin;
        for (std::size_t i = 0; i < count; ++i) sum[i] = Op()(static_cast<A>(first[i]), static_cast<A>(second[i]));
    }
    for (std::size_t k = 2; k < inputs.size(); ++k) {
        const T* next = static_cast<const T*>(inputs[k]) + begin;
        for (std::size_t i = 0; i < count; ++i) sum[i] = Op()(sum[i], static_cast<A>(next[i]));
    }
    if constexpr (std::is_same_v<T, bfloat16>) {
        std::array<T, kBlockElements> rounded;
        for (std::size_t i = 0; i < count; ++i) rounded[i] = T(sum[i]);
        for (void* output : outputs) std::memcpy(static_cast<T*>(output) + begin, rounded.data(), count * sizeof(T));
    } else {
        for (void* output : outputs) std::memcpy(static_cast<T*>(output) + begin, sum.data(), count * sizeof(T));
    }
}

template <class T, class Op>
void reduce_all(std::span<const void* const> inputs, std::span<void* const> outputs, std::size_t count) {
    for (std::size_t begin = 0; begin < count; begin += kBlockElements) {
        reduce_block<T, Op>(inputs, outputs, begin, std::min(kBlockElements, count - begin));
    }
}

template <class T>
void reduce_typed(std::span<const void* const> inputs, std::span<void* const> outputs, std::size_t count, ReduceOp op) {
    switch (op) {
        case ReduceOp::sum:
            return reduce_all<T, Sum>(inputs, outputs, count);
        case ReduceOp::prod:
            return reduce_all<T, Prod>(inputs, outputs, count);
        case ReduceOp::min:
            return reduce_all<T, Min>(inputs, outputs, count);
        case ReduceOp::max:
            return reduce_all<T, Max>(inputs, outputs, count);
    }
}

}  // namespace

void reduce_elements(std::span<const void* const> inputs, std::span<void* const> outputs, std::size_t count,
                     DataType type, ReduceOp op) {
    switch (type) {
        case DataType::f32:
            return reduce_typed<float>(inputs, outputs, count, op);
        case DataType::f64:
            return reduce_typed<double>(inputs, outputs, count, op);
        case DataType::bf16:
            return reduce_typed<bfloat16>(inputs, outputs, count, op);
        case DataType::i32:
            return reduce_typed<std::int32_t>(inputs, outputs, count, op);
        case DataType::i64:
            return reduce_typed<std::int64_t>(inputs, outputs, count, op);
        case DataType::u8:
            return reduce_typed<std::uint8_t>(inputs, outputs, count, op);
    }
}

}  // namespace autolaunch
