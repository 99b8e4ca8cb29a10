// Compiled with -O3 -ffp-contract=off (CMakeLists.txt).
#include "fsdp/cast.hpp"

#include "fsdp/optimizer/kernels.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

namespace autolaunch::fsdp {

namespace {

template <class T>
struct Tag {
    using Type = T;
};

// Calls `use` with the C++ type of a floating type.
template <class Use>
auto with_type(DataType type, Use use) {
    switch (type) {
        case DataType::f32:
            return use(Tag<float>{});
        case DataType::bf16:
            return use(Tag<bfloat16>{});
        case DataType::f16:
            return use(Tag<float16>{});
        default:
            throw Error(ErrorCode::unsupported,
                        "values of " + std::string(name_of(type)) + " are not trained with",
                        "f32, bf16 and f16 are");
    }
}

template <class To, class From>
void cast_loop(To* __restrict to, const From* __restrict from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        to[i] = To(static_cast<float>(from[i]));
}

template <class To, class From>
void accumulate_loop(To* __restrict to, const From* __restrict from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        to[i] = To(static_cast<float>(to[i]) + static_cast<float>(from[i]));
}

// f16 goes through f32 by the instructions that CPUs have for it, in blocks that stay in the
// first-level cache.

template <class To, class From>
constexpr bool is_either_f16 = std::is_same_v<To, float16> || std::is_same_v<From, float16>;
constexpr std::size_t kHalfBlock = 1024;

const float* as_floats(const OptimizerKernels& kernels, const void* from, DataType type,
                       std::size_t first, std::size_t count, float* scratch) {
    if (type == DataType::f32)
        return static_cast<const float*>(from) + first;
    if (type == DataType::bf16) {
        kernels.widen_bf16(static_cast<const bfloat16*>(from) + first, scratch, count);
    } else {
        kernels.widen_f16(static_cast<const float16*>(from) + first, scratch, count);
    }
    return scratch;
}

void store_floats(const OptimizerKernels& kernels, void* to, DataType type, std::size_t first,
                  const float* values, std::size_t count) {
    if (type == DataType::f32) {
        std::memcpy(static_cast<float*>(to) + first, values, count * sizeof(float));
    } else if (type == DataType::bf16) {
        kernels.narrow_bf16(values, static_cast<bfloat16*>(to) + first, count);
    } else {
        kernels.narrow_f16(values, static_cast<float16*>(to) + first, count);
    }
}

void cast_f16(void* to, DataType to_type, const void* from, DataType from_type, std::size_t count) {
    const OptimizerKernels& kernels = optimizer_kernels();
    if (to_type == DataType::f32)
        return kernels.widen_f16(static_cast<const float16*>(from), static_cast<float*>(to), count);
    if (from_type == DataType::f32)
        return kernels.narrow_f16(static_cast<const float*>(from), static_cast<float16*>(to),
                                  count);
    alignas(64) float scratch[kHalfBlock];
    for (std::size_t done = 0; done < count; done += kHalfBlock) {
        const std::size_t now = std::min(kHalfBlock, count - done);
        store_floats(kernels, to, to_type, done,
                     as_floats(kernels, from, from_type, done, now, scratch), now);
    }
}

void accumulate_f16(void* to, DataType to_type, const void* from, DataType from_type,
                    std::size_t count) {
    const OptimizerKernels& kernels = optimizer_kernels();
    alignas(64) float sums[kHalfBlock], scratch[kHalfBlock];
    for (std::size_t done = 0; done < count; done += kHalfBlock) {
        const std::size_t now = std::min(kHalfBlock, count - done);
        const float* before = as_floats(kernels, to, to_type, done, now, sums);
        const float* added = as_floats(kernels, from, from_type, done, now, scratch);
        for (std::size_t i = 0; i < now; ++i)
            sums[i] = before[i] + added[i];
        store_floats(kernels, to, to_type, done, sums, now);
    }
}

// A NaN or an infinity has all of the exponent's bits set: adding the lowest of them carries into
// the sign's place. Plain additions, so that every vector unit does it at the speed of memory.
template <class Word, Word kExponent>
std::optional<std::size_t> first_full_exponent(const Word* words, std::size_t count) {
    constexpr std::size_t kBlock = 4096;  // elements: looked at together, without a branch for each
    constexpr Word kLowest = kExponent & (~kExponent + 1u);
    constexpr Word kSign = kExponent + kLowest;
    for (std::size_t begin = 0; begin < count; begin += kBlock) {
        const std::size_t end = std::min(begin + kBlock, count);
        Word any = 0;
        for (std::size_t i = begin; i < end; ++i)
            any |= static_cast<Word>((words[i] & kExponent) + kLowest);
        if ((any & kSign) == 0)
            continue;
        for (std::size_t i = begin; i < end; ++i)
            if ((words[i] & kExponent) == kExponent)
                return i;
    }
    return std::nullopt;
}

}  // namespace

void cast(void* to, DataType to_type, const void* from, DataType from_type, std::size_t count) {
    if (to_type == from_type) {
        if (count > 0)
            std::memcpy(to, from, count * size_of(to_type));
        return;
    }
    with_type(to_type, [&]<class To>(Tag<To>) {
        with_type(from_type, [&]<class From>(Tag<From>) {
            if constexpr (is_either_f16<To, From>)
                return cast_f16(to, to_type, from, from_type, count);
            cast_loop(static_cast<To*>(to), static_cast<const From*>(from), count);
        });
    });
}

void accumulate(void* to, DataType to_type, const void* from, DataType from_type,
                std::size_t count) {
    with_type(to_type, [&]<class To>(Tag<To>) {
        with_type(from_type, [&]<class From>(Tag<From>) {
            if constexpr (is_either_f16<To, From>)
                return accumulate_f16(to, to_type, from, from_type, count);
            accumulate_loop(static_cast<To*>(to), static_cast<const From*>(from), count);
        });
    });
}

std::optional<std::size_t> first_nonfinite(const void* values, DataType type, std::size_t count) {
    if (type == DataType::f32)
        return first_full_exponent<std::uint32_t, 0x7f800000u>(
            static_cast<const std::uint32_t*>(values), count);
    const auto* halves = static_cast<const std::uint16_t*>(values);
    return type == DataType::bf16 ? first_full_exponent<std::uint16_t, 0x7f80u>(halves, count)
                                  : first_full_exponent<std::uint16_t, 0x7c00u>(halves, count);
}

}  // namespace autolaunch::fsdp
