#include "fsdp/gradient_tree.hpp"

#include "fsdp/cast.hpp"

#include <bit>
#include <cstring>
#include <utility>

namespace autolaunch::fsdp {

namespace {

void add_to(float* to, const float* from, std::size_t count) {
    accumulate(to, DataType::f32, from, DataType::f32, count);
}

}  // namespace

void GradientTree::add(float* result, const float* values, std::size_t count) {
    const auto carries = static_cast<std::size_t>(std::countr_one(added_++));
    if (carries == 0) {
        std::memcpy(result, values, count * sizeof(float));
        return;
    }
    add_to(result, values, count);
    while (digits_.size() < carries) digits_.emplace_back(count * sizeof(float));
    for (std::size_t digit = 0; digit + 1 < carries; ++digit) add_to(result, digits_[digit].floats(), count);
    std::memcpy(digits_[carries - 1].floats(), result, count * sizeof(float));
}

void GradientTree::finish(float* result, std::size_t count) {
    bool holds = (added_ & 1) != 0;
    for (std::size_t digit = 0; digit < digits_.size(); ++digit) {
        if ((added_ >> (digit + 1) & 1) == 0) continue;
        if (holds) {
            add_to(result, digits_[digit].floats(), count);
        } else {
            std::memcpy(result, digits_[digit].floats(), count * sizeof(float));
            holds = true;
        }
    }
    added_ = 0;
}

std::size_t GradientTree::bytes() const noexcept {
    std::size_t sum = 0;
    for (const AlignedBuffer& digit : digits_) sum += digit.bytes();
    return sum;
}

}  // namespace autolaunch::fsdp
