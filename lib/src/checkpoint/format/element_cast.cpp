#include "checkpoint/format/element_cast.hpp"

#include <cstring>

namespace autolaunch {

namespace {

template <class From, class To>
void cast_all(const std::byte* source, std::byte* target, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
        From from;
        std::memcpy(&from, source + i * sizeof(From), sizeof(From));
        const To to(static_cast<float>(from));
        std::memcpy(target + i * sizeof(To), &to, sizeof(To));
    }
}

template <class From>
void cast_from(const std::byte* source, DataType to, std::byte* target, std::uint64_t count) {
    if (to == DataType::f32)
        cast_all<From, float>(source, target, count);
    if (to == DataType::bf16)
        cast_all<From, bfloat16>(source, target, count);
    if (to == DataType::f16)
        cast_all<From, float16>(source, target, count);
}

bool is_float(DataType type) noexcept {
    return type == DataType::f32 || type == DataType::bf16 || type == DataType::f16;
}

}  // namespace

bool can_cast(DataType from, DataType to) noexcept {
    return from == to || (is_float(from) && is_float(to));
}

void cast_elements(DataType from, const std::byte* source, DataType to, std::byte* target,
                   std::uint64_t count) {
    if (from == to) {
        std::memcpy(target, source, count * size_of(from));
    } else if (from == DataType::f32) {
        cast_from<float>(source, to, target, count);
    } else if (from == DataType::bf16) {
        cast_from<bfloat16>(source, to, target, count);
    } else {
        cast_from<float16>(source, to, target, count);
    }
}

}  // namespace autolaunch
