#include "fsdp/optimizer/exact_sum.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace autolaunch::fsdp {

void ExactSum::add(double value) noexcept {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const int exponent = static_cast<int>((bits >> 52) & 0x7ff);
    if (exponent == 0) return;  // zero: squares of f32 numbers are never subnormal
    if (exponent == 0x7ff) {
        ++words_[std::isnan(value) ? kDigits + 1 : kDigits];
        return;
    }
    // value = significand · 2^(exponent - 1075)
    const std::uint64_t significand = (bits & 0xfffffffffffffULL) | 0x10000000000000ULL;
    const int position = exponent - 1075 - kLowestBit;
    const auto digit = static_cast<std::size_t>(position / 32);
    const int shift = position % 32;
    const std::uint64_t low = (significand & 0xffffffffu) << shift;
    const std::uint64_t high = ((significand >> 32) << shift) + (low >> 32);
    words_[digit] += static_cast<std::int64_t>(low & 0xffffffffu);
    words_[digit + 1] += static_cast<std::int64_t>(high & 0xffffffffu);
    words_[digit + 2] += static_cast<std::int64_t>(high >> 32);
}

void ExactSum::add(const ExactSum& other) noexcept {
    for (std::size_t i = 0; i < kWords; ++i) words_[i] += other.words_[i];
}

void ExactSum::carry() noexcept {
    for (std::size_t i = 0; i + 1 < kDigits; ++i) {
        words_[i + 1] += words_[i] >> 32;
        words_[i] &= 0xffffffff;
    }
}

std::array<double, ExactSum::kWords> ExactSum::words() const noexcept {
    std::array<double, kWords> words;
    for (std::size_t i = 0; i < kWords; ++i) words[i] = static_cast<double>(words_[i]);
    return words;
}

ExactSum ExactSum::from_words(std::span<const double, kWords> words) noexcept {
    ExactSum sum;
    for (std::size_t i = 0; i < kWords; ++i) sum.words_[i] = static_cast<std::int64_t>(words[i]);
    return sum;
}

double ExactSum::value() noexcept {
    if (words_[kDigits + 1] != 0) return std::numeric_limits<double>::quiet_NaN();
    if (words_[kDigits] != 0) return std::numeric_limits<double>::infinity();
    carry();
    double value = 0;
    for (std::size_t i = kDigits; i-- > 0;)
        value += std::ldexp(static_cast<double>(words_[i]), kLowestBit + 32 * static_cast<int>(i));
    return value;
}

}  // namespace autolaunch::fsdp
