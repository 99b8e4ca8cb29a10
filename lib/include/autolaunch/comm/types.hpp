#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/export.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace autolaunch {

enum class DataType : std::uint8_t { f32, f64, bf16, i32, i64, u8, f16, i8, u32, u64 };
inline constexpr int kDataTypes = 10;

// Short names, for option structs: {.param = al::bf16}.
inline constexpr DataType f32 = DataType::f32;
inline constexpr DataType f64 = DataType::f64;
inline constexpr DataType bf16 = DataType::bf16;
inline constexpr DataType f16 = DataType::f16;
inline constexpr DataType i8 = DataType::i8;
inline constexpr DataType i32 = DataType::i32;
inline constexpr DataType i64 = DataType::i64;
inline constexpr DataType u8 = DataType::u8;
inline constexpr DataType u32 = DataType::u32;
inline constexpr DataType u64 = DataType::u64;

/// How the ranks' elements become one. bf16 and f16 are accumulated in f32 and rounded once at the
/// end, integers wrap; min and max of a NaN give one of the operands. A value type: `ReduceOp::sum`
/// and so on.
class ReduceOp {
public:
    enum class Kind : std::uint8_t { sum, avg, min, max, prod, pre_multiplied_sum };

    static const ReduceOp sum;
    /// The sum, divided by the number of ranks where the result is made; integers round towards
    /// zero. On NCCL a sum and a scaling pass, because NCCL's own average rounds 1/N to the data
    /// type and turns off its fast paths: where the result is used anyway, sum and divide there.
    static const ReduceOp avg;
    static const ReduceOp min;
    static const ReduceOp max;
    static const ReduceOp prod;
    /// The sum of factor * element; each rank brings a factor of its own. Rounded to the data type
    /// for integers.
    static constexpr ReduceOp pre_multiplied_sum(double factor) {
        return ReduceOp(Kind::pre_multiplied_sum, factor);
    }

    constexpr explicit ReduceOp(Kind kind, double factor = 1) noexcept
        : kind_(kind), factor_(factor) {}
    constexpr Kind kind() const noexcept { return kind_; }
    /// What this rank's elements are multiplied with; 1 for all but pre_multiplied_sum.
    constexpr double factor() const noexcept { return factor_; }
    constexpr bool operator==(const ReduceOp&) const = default;

private:
    Kind kind_;
    double factor_;
};
inline constexpr ReduceOp ReduceOp::sum{ReduceOp::Kind::sum};
inline constexpr ReduceOp ReduceOp::avg{ReduceOp::Kind::avg};
inline constexpr ReduceOp ReduceOp::min{ReduceOp::Kind::min};
inline constexpr ReduceOp ReduceOp::max{ReduceOp::Kind::max};
inline constexpr ReduceOp ReduceOp::prod{ReduceOp::Kind::prod};

constexpr std::size_t size_of(DataType type) noexcept {
    switch (type) {
        case DataType::f64:
        case DataType::i64:
        case DataType::u64:
            return 8;
        case DataType::f32:
        case DataType::i32:
        case DataType::u32:
            return 4;
        case DataType::bf16:
        case DataType::f16:
            return 2;
        case DataType::i8:
        case DataType::u8:
            return 1;
    }
    return 0;
}

/// "f32", "bf16", …
AUTOLAUNCH_API std::string_view name_of(DataType type) noexcept;
/// "sum", "avg", …
AUTOLAUNCH_API std::string_view name_of(ReduceOp op) noexcept;

/// The upper half of an IEEE float. Conversion from float rounds to nearest, ties to even; NaN
/// stays NaN.
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

/// IEEE 754 binary16. Conversion from float rounds to nearest, ties to even, overflows to infinity
/// and keeps subnormal numbers; NaN stays NaN.
struct float16 {
    std::uint16_t bits = 0;

    float16() = default;
    AUTOLAUNCH_API explicit float16(float value) noexcept;
    AUTOLAUNCH_API explicit operator float() const noexcept;
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
inline constexpr DataType data_type_of<float16> = DataType::f16;
template <>
inline constexpr DataType data_type_of<std::int8_t> = DataType::i8;
template <>
inline constexpr DataType data_type_of<std::uint32_t> = DataType::u32;
template <>
inline constexpr DataType data_type_of<std::uint64_t> = DataType::u64;
template <>
inline constexpr DataType data_type_of<std::int32_t> = DataType::i32;
template <>
inline constexpr DataType data_type_of<std::int64_t> = DataType::i64;
template <>
inline constexpr DataType data_type_of<std::uint8_t> = DataType::u8;

}  // namespace autolaunch
