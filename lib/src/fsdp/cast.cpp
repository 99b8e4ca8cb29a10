// Compiled with -O3 -ffp-contract=off (CMakeLists.txt).
#include "fsdp/cast.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

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
            throw Error(ErrorCode::unsupported, "values of " + std::string(name_of(type)) + " are not trained with",
                        "f32, bf16 and f16 are");
    }
}

template <class To, class From>
void cast_loop(To* __restrict to, const From* __restrict from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) to[i] = To(static_cast<float>(from[i]));
}

template <class To, class From>
void accumulate_loop(To* __restrict to, const From* __restrict from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) to[i] = To(static_cast<float>(to[i]) + static_cast<float>(from[i]));
}

// A NaN or an infinity has all of the exponent's bits set: adding the lowest of them carries into the sign's place.
// Plain additions, so that every vector unit does it at the speed of memory.
template <class Word, Word kExponent>
std::optional<std::size_t> first_full_exponent(const Word* words, std::size_t count) {
    constexpr std::size_t kBlock = 4096;  // elements: looked at together, without a branch for each
    constexpr Word kLowest = kExponent & (~kExponent + 1u);
    constexpr Word kSign = kExponent + kLowest;
    for (std::size_t begin = 0; begin < count; begin += kBlock) {
        const std::size_t end = std::min(begin + kBlock, count);
        Word any = 0;
        for (std::size_t i = begin; i < end; ++i) any |= static_cast<Word>((words[i] & kExponent) + kLowest);
        if ((any & kSign) == 0) continue;
        for (std::size_t i = begin; i < end; ++i)
            if ((words[i] & kExponent) == kExponent) return i;
    }
    return std::nullopt;
}

}  // namespace

void cast(void* to, DataType to_type, const void* from, DataType from_type, std::size_t count) {
    if (to_type == from_type) {
        if (count > 0) std::memcpy(to, from, count * size_of(to_type));
        return;
    }
    with_type(to_type, [&]<class To>(Tag<To>) {
        with_type(from_type, [&]<class From>(Tag<From>) {
            cast_loop(static_cast<To*>(to), static_cast<const From*>(from), count);
        });
    });
}

void accumulate(void* to, DataType to_type, const void* from, DataType from_type, std::size_t count) {
    with_type(to_type, [&]<class To>(Tag<To>) {
        with_type(from_type, [&]<class From>(Tag<From>) {
            accumulate_loop(static_cast<To*>(to), static_cast<const From*>(from), count);
        });
    });
}

std::optional<std::size_t> first_nonfinite(const void* values, DataType type, std::size_t count) {
    if (type == DataType::f32)
        return first_full_exponent<std::uint32_t, 0x7f800000u>(static_cast<const std::uint32_t*>(values), count);
    const auto* halves = static_cast<const std::uint16_t*>(values);
    return type == DataType::bf16 ? first_full_exponent<std::uint16_t, 0x7f80u>(halves, count)
                                  : first_full_exponent<std::uint16_t, 0x7c00u>(halves, count);
}

}  // namespace autolaunch::fsdp
