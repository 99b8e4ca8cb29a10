#include <autolaunch/comm/types.hpp>

#include <bit>

namespace autolaunch {

std::string_view name_of(DataType type) noexcept {
    switch (type) {
        case DataType::f32:
            return "f32";
        case DataType::f64:
            return "f64";
        case DataType::bf16:
            return "bf16";
        case DataType::f16:
            return "f16";
        case DataType::i8:
            return "i8";
        case DataType::i32:
            return "i32";
        case DataType::i64:
            return "i64";
        case DataType::u8:
            return "u8";
        case DataType::u32:
            return "u32";
        case DataType::u64:
            return "u64";
    }
    return "unknown type";
}

std::string_view name_of(ReduceOp op) noexcept {
    switch (op.kind()) {
        case ReduceOp::Kind::sum:
            return "sum";
        case ReduceOp::Kind::avg:
            return "avg";
        case ReduceOp::Kind::min:
            return "min";
        case ReduceOp::Kind::max:
            return "max";
        case ReduceOp::Kind::prod:
            return "prod";
        case ReduceOp::Kind::pre_multiplied_sum:
            return "pre_multiplied_sum";
    }
    return "unknown op";
}

// The exponent's bias is 127 in f32 and 15 in f16; a significand has 23 and 10 bits.
float16::float16(float value) noexcept {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (word >> 16) & 0x8000u;
    const std::uint32_t magnitude = word & 0x7fffffffu;
    std::uint32_t result = 0;
    if (magnitude > 0x7f800000u) {
        result = 0x7e00u | ((magnitude >> 13) & 0x3ffu);  // NaN, made quiet
    } else if (magnitude >= 0x47800000u) {                // 65536 and above
        result = 0x7c00u;
    } else if (magnitude >=
               0x38800000u) {  // normal: rounding may carry into the exponent, up to infinity
        const std::uint32_t rebiased = magnitude - (112u << 23);
        result = (rebiased + 0xfffu + ((rebiased >> 13) & 1u)) >> 13;
    } else if (magnitude > 0x33000000u) {  // subnormal: above half of the smallest, 2^-25
        const std::uint32_t shift = 126u - (magnitude >> 23);
        const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
        const std::uint32_t half = (1u << (shift - 1)) - 1u;
        result = (significand + half + ((significand >> shift) & 1u)) >> shift;
    }
    bits = static_cast<std::uint16_t>(sign | result);
}

float16::operator float() const noexcept {
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1fu;
    const std::uint32_t significand = bits & 0x3ffu;
    if (exponent == 0) {  // zero or subnormal: units of 2^-24
        const float magnitude = static_cast<float>(significand) * 0x1p-24f;
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
    }
    const std::uint32_t rebiased = exponent == 31 ? 255u : exponent + 112u;
    return std::bit_cast<float>(sign | (rebiased << 23) | (significand << 13));
}

}  // namespace autolaunch
