#pragma once
// What reducing one element means; private to the kernels.
#include <autolaunch/comm/types.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace autolaunch {

/// What a type is accumulated in: halves in f32; integers as unsigned ones where they may wrap.
template <class T, ReduceOp::Kind kind>
struct ReduceAccumulator {
    static constexpr bool wraps =
        std::is_integral_v<T> && kind != ReduceOp::Kind::min && kind != ReduceOp::Kind::max;
    using type =
        typename std::conditional_t<wraps, std::make_unsigned<T>, std::type_identity<T>>::type;
};
template <ReduceOp::Kind kind>
struct ReduceAccumulator<bfloat16, kind> {
    using type = float;
};
template <ReduceOp::Kind kind>
struct ReduceAccumulator<float16, kind> {
    using type = float;
};

namespace {

/// An input as it enters the sum.
template <class T, ReduceOp::Kind kind>
inline auto accumulated(T input, double factor) {
    using A = typename ReduceAccumulator<T, kind>::type;
    if constexpr (kind != ReduceOp::Kind::pre_multiplied_sum)
        return static_cast<A>(input);
    if constexpr (std::is_integral_v<T>) {
        return static_cast<A>(static_cast<A>(input) * static_cast<A>(static_cast<T>(factor)));
    } else {
        return static_cast<A>(input) * static_cast<A>(factor);
    }
}

template <ReduceOp::Kind kind, class A>
inline A combine(A a, A b) {
    if constexpr (kind == ReduceOp::Kind::min)
        return b < a ? b : a;
    if constexpr (kind == ReduceOp::Kind::max)
        return a < b ? b : a;
    if constexpr (kind == ReduceOp::Kind::prod)
        return static_cast<A>(a * b);
    return static_cast<A>(a + b);
}

/// The result of a sum: an average divides, in 64 bits for integers, since the ranks may be more
/// than the type holds.
template <class T, ReduceOp::Kind kind, class A>
inline T finished(A sum, std::size_t ranks) {
    if constexpr (kind != ReduceOp::Kind::avg) {
        return T(sum);
    } else if constexpr (std::is_integral_v<T>) {
        using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
        return static_cast<T>(static_cast<Wide>(static_cast<T>(sum)) / static_cast<Wide>(ranks));
    } else {
        return T(sum / static_cast<A>(ranks));
    }
}

}  // namespace

// A set of template <class T, ReduceOp::Kind> std::size_t reduce(const ReduceTask&), in the
// enumerations' order.
#define AUTOLAUNCH_REDUCE_KERNELS_OF(reduce, type)                                               \
    {                                                                                            \
        reduce<type, ReduceOp::Kind::sum>, reduce<type, ReduceOp::Kind::avg>,                    \
            reduce<type, ReduceOp::Kind::min>, reduce<type, ReduceOp::Kind::max>,                \
            reduce<type, ReduceOp::Kind::prod>, reduce<type, ReduceOp::Kind::pre_multiplied_sum> \
    }
#define AUTOLAUNCH_REDUCE_KERNEL_SET(name, reduce)                   \
    {                                                                \
        name, {                                                      \
            AUTOLAUNCH_REDUCE_KERNELS_OF(reduce, float),             \
                AUTOLAUNCH_REDUCE_KERNELS_OF(reduce, double),        \
                AUTOLAUNCH_REDUCE_KERNELS_OF(reduce, bfloat16),      \
                AUTOLAUNCH_REDUCE_KERNELS_OF(reduce, std::int32_t),  \
                AUTOLAUNCH_REDUCE_KERNELS_OF(reduce, std::int64_t),  \
                AUTOLAUNCH_REDUCE_KERNELS_OF(reduce, std::uint8_t),  \
                AUTOLAUNCH_REDUCE_KERNELS_OF(reduce, float16),       \
                AUTOLAUNCH_REDUCE_KERNELS_OF(reduce, std::int8_t),   \
                AUTOLAUNCH_REDUCE_KERNELS_OF(reduce, std::uint32_t), \
                AUTOLAUNCH_REDUCE_KERNELS_OF(reduce, std::uint64_t)  \
        }                                                            \
    }

}  // namespace autolaunch
