#include "elements.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace autolaunch::conformance {
namespace {

/// Calls work.operator()<T>() with the C++ type of `type`.
template <class Work>
auto with_type(DataType type, const Work& work) {
    switch (type) {
        case DataType::f32:
            return work.template operator()<float>();
        case DataType::f64:
            return work.template operator()<double>();
        case DataType::bf16:
            return work.template operator()<bfloat16>();
        case DataType::f16:
            return work.template operator()<float16>();
        case DataType::i8:
            return work.template operator()<std::int8_t>();
        case DataType::u8:
            return work.template operator()<std::uint8_t>();
        case DataType::i32:
            return work.template operator()<std::int32_t>();
        case DataType::u32:
            return work.template operator()<std::uint32_t>();
        case DataType::i64:
            return work.template operator()<std::int64_t>();
        case DataType::u64:
            break;
    }
    return work.template operator()<std::uint64_t>();
}

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>;

template <class T>
T from_double(double value) {
    if constexpr (kIsHalf<T>)
        return T(static_cast<float>(value));
    if constexpr (!kIsHalf<T>)
        return static_cast<T>(value);
}

template <class T>
double to_double(T value) {
    if constexpr (kIsHalf<T>)
        return static_cast<float>(value);
    if constexpr (!kIsHalf<T>)
        return static_cast<double>(value);
}

double combined(ReduceOp::Kind op, double left, double right) {
    switch (op) {
        case ReduceOp::Kind::min:
            return std::min(left, right);
        case ReduceOp::Kind::max:
            return std::max(left, right);
        case ReduceOp::Kind::prod:
            return left * right;
        default:
            return left + right;
    }
}

}  // namespace

double load(DataType type, const void* buffer, std::size_t index) {
    return with_type(type, [&]<class T>() {
        T value;
        std::memcpy(&value, static_cast<const std::byte*>(buffer) + index * sizeof(T),
                    sizeof value);
        return to_double(value);
    });
}

void store(DataType type, void* buffer, std::size_t index, double value) {
    with_type(type, [&]<class T>() {
        const T element = from_double<T>(value);
        std::memcpy(static_cast<std::byte*>(buffer) + index * sizeof(T), &element, sizeof element);
    });
}

double rounded(DataType type, double value) {
    return with_type(type, [&]<class T>() { return to_double(from_double<T>(value)); });
}

bool is_integer(DataType type) {
    return with_type(type, []<class T>() { return std::is_integral_v<T>; });
}

double moved_input(int rank, std::size_t index) {
    return static_cast<double>(1 + (static_cast<std::size_t>(rank) * 7 + index * 3) % 101);
}

double reduced_input(ReduceOp::Kind op, int rank, std::size_t index) {
    const auto at = static_cast<std::size_t>(rank);
    if (op == ReduceOp::Kind::prod)
        return (at + index) % 8 == 0 ? 2 : 1;
    return static_cast<double>(1 + (at * 5 + index) % 3);
}

double factor_of(DataType type, int rank) {
    return is_integer(type) ? 1 + rank % 2 : 0.5 * (1 + rank % 3);
}

ReduceOp op_of(ReduceOp::Kind op, DataType type, int rank) {
    if (op == ReduceOp::Kind::pre_multiplied_sum)
        return ReduceOp::pre_multiplied_sum(factor_of(type, rank));
    return ReduceOp(op);
}

double reduced(ReduceOp::Kind op, DataType type, int size, std::size_t index) {
    const auto brought = [&](int rank) {
        const double factor = op == ReduceOp::Kind::pre_multiplied_sum ? factor_of(type, rank) : 1;
        return factor * reduced_input(op, rank, index);
    };
    double result = brought(0);
    for (int rank = 1; rank < size; ++rank)
        result = combined(op, result, brought(rank));
    if (op != ReduceOp::Kind::avg)
        return result;
    if (type == DataType::f64 || is_integer(type))
        return rounded(type, result / size);
    return rounded(
        type, static_cast<float>(result) / static_cast<float>(size));  // halves are divided in f32
}

}  // namespace autolaunch::conformance
