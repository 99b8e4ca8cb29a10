#include "fsdp/optimizer/exact_sum.hpp"

#include <cmath>
#include <cstring>
#include <limits>

namespace autolaunch::fsdp {

namespace {

#define AUTOLAUNCH_INLINE inline
#include "fsdp/optimizer/exact_digits.hpp"
#undef AUTOLAUNCH_INLINE

static_assert(kExactWords == static_cast<int>(ExactSum::kWords));

}  // namespace

void ExactSum::add(double value) noexcept {
    add_exactly(value, [this](int word, std::int64_t amount) {
        words_[static_cast<std::size_t>(word)] += amount;
    });
}

void ExactSum::add(const ExactSum& other) noexcept {
    for (std::size_t i = 0; i < kWords; ++i)
        words_[i] += other.words_[i];
}

void ExactSum::carry() noexcept { carry_exactly(words_.data()); }

std::array<double, ExactSum::kWords> ExactSum::words() const noexcept {
    std::array<double, kWords> words;
    for (std::size_t i = 0; i < kWords; ++i)
        words[i] = static_cast<double>(words_[i]);
    return words;
}

ExactSum ExactSum::from_words(std::span<const double, kWords> words) noexcept {
    ExactSum sum;
    for (std::size_t i = 0; i < kWords; ++i)
        sum.words_[i] = static_cast<std::int64_t>(words[i]);
    return sum;
}

double ExactSum::value() noexcept {
    if (words_[kDigits + 1] != 0)
        return std::numeric_limits<double>::quiet_NaN();
    if (words_[kDigits] != 0)
        return std::numeric_limits<double>::infinity();
    carry();
    return value_of_digits(words_.data());
}

}  // namespace autolaunch::fsdp
