#include "fsdp/gradient_tree.hpp"

#include <bit>

namespace autolaunch::fsdp {

namespace {

/// Sums on one device's stream.
struct Sums {
    ModelDevice& device;
    std::size_t count;
    Stream stream;

    void add(float* to, const void* from) const {
        device.accumulate(to, DataType::f32, from, DataType::f32, count, stream);
    }
    void copy(void* to, const void* from) const {
        device.copy(to, from, count * sizeof(float), stream);
    }
};

}  // namespace

void GradientTree::add(ModelDevice& device, float* result, const float* values, std::size_t count,
                       Stream stream) {
    const Sums sums{device, count, stream};
    const auto carries = static_cast<std::size_t>(std::countr_one(added_++));
    if (carries == 0)
        return sums.copy(result, values);
    sums.add(result, values);
    while (digits_.size() < carries) {
        digits_.push_back(device.allocate({}, count * sizeof(float)));
        bytes_ += digits_.back().bytes();
    }
    for (std::size_t digit = 0; digit + 1 < carries; ++digit)
        sums.add(result, digits_[digit].data());
    sums.copy(digits_[carries - 1].data(), result);
}

void GradientTree::finish(ModelDevice& device, float* result, std::size_t count, Stream stream) {
    const Sums sums{device, count, stream};
    bool holds = (added_ & 1) != 0;
    for (std::size_t digit = 0; digit < digits_.size(); ++digit) {
        if ((added_ >> (digit + 1) & 1) == 0)
            continue;
        holds ? sums.add(result, digits_[digit].data()) : sums.copy(result, digits_[digit].data());
        holds = true;
    }
    added_ = 0;
}

}  // namespace autolaunch::fsdp
