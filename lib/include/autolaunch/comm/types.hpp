#pragma once
#include <autolaunch/export.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace autolaunch {

enum class DataType : std::uint8_t { f32, f64, bf16, i32, i64, u8 };

// Short names, for option structs: {.param = al::bf16}.
inline constexpr DataType f32 = DataType::f32;
inline constexpr DataType f64 = DataType::f64;
inline constexpr DataType bf16 = DataType::bf16;
inline constexpr DataType i32 = DataType::i32;
inline constexpr DataType i64 = DataType::i64;
inline constexpr DataType u8 = DataType::u8;

/// There is no average: NCCL's rounds 1/N to the data type and turns off its fast paths. Sum, and divide where the
/// result is used.
enum class ReduceOp : std::uint8_t { sum, prod, min, max };

constexpr std::size_t size_of(DataType type) noexcept {
    switch (type) {
        case DataType::f64:
        case DataType::i64:
            return 8;
        case DataType::f32:
        case DataType::i32:
            return 4;
        case DataType::bf16:
            return 2;
        case DataType::u8:
            return 1;
    }
    return 0;
}

/// "f32", "bf16", …
AUTOLAUNCH_API std::string_view name_of(DataType type) noexcept;
AUTOLAUNCH_API std::string_view name_of(ReduceOp op) noexcept;

/// The upper half of an IEEE float. Conversion from float rounds to nearest, ties to even; NaN stays NaN.
struct bfloat16 {
    std::uint16_t bits = 0;

    bfloat16() = default;
    constexpr explicit bfloat16(float value) noexcept {
        const auto word = std::bit_cast<std::uint32_t>(value);
        const bool nan = (word & 0x7fffffffu) > 0x7f800000u;
        bits = nan ? static_cast<std::uint16_t>((word >> 16) | 0x40u)
                   : static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
    }
    constexpr explicit operator float() const noexcept {
        return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    }
};

/// The DataType of a C++ type: data_type_of<float> == DataType::f32.
template <class T>
inline constexpr DataType data_type_of = T::no_data_type_for_this_c_type;
template <>
inline constexpr DataType data_type_of<float> = DataType::f32;
template <>
inline constexpr DataType data_type_of<double> = DataType::f64;
template <>
inline constexpr DataType data_type_of<bfloat16> = DataType::bf16;
template <>
inline constexpr DataType data_type_of<std::int32_t> = DataType::i32;
template <>
inline constexpr DataType data_type_of<std::int64_t> = DataType::i64;
template <>
inline constexpr DataType data_type_of<std::uint8_t> = DataType::u8;

}  // namespace autolaunch
