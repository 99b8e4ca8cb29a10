#pragma once
#include <autolaunch/export.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace autolaunch::fsdp {

/// A sum without rounding of f64 numbers that are squares of f32 ones, or sums of a few: a wide
/// fixed-point number, as in Kulisch's accumulators ("Computer Arithmetic and Validity", chapter
/// 8). Whatever is added, in whatever order and on whatever rank, the sum is the same, so a norm
/// does not depend on how a model is cut.
class AUTOLAUNCH_API ExactSum {
public:
    /// 20 digits of 32 bits, the lowest worth 2^-352; then how many infinities and NaN were added.
    static constexpr std::size_t kDigits = 20;
    static constexpr std::size_t kWords = kDigits + 2;

    /// `value` is not negative: 0, 2^-298 to 2^270, infinite or NaN. At most 2^30 of them before
    /// carry().
    void add(double value) noexcept;
    void add(const ExactSum& other) noexcept;
    /// Leaves less than 2^32 in every digit, so that the words of 2^21 ranks can be summed as f64
    /// without rounding.
    void carry() noexcept;

    std::array<double, kWords> words() const noexcept;
    static ExactSum from_words(std::span<const double, kWords> words) noexcept;

    bool finite() const noexcept { return words_[kDigits] == 0 && words_[kDigits + 1] == 0; }
    /// The sum, at most the last bit off; infinity or NaN when such a value was added.
    double value() noexcept;

private:
    std::array<std::int64_t, kWords> words_{};
};

}  // namespace autolaunch::fsdp
