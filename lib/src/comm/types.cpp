#include <autolaunch/comm/types.hpp>

namespace autolaunch {

std::string_view name_of(DataType type) noexcept {
    switch (type) {
        case DataType::f32:
            return "f32";
        case DataType::f64:
            return "f64";
        case DataType::bf16:
            return "bf16";
        case DataType::i32:
            return "i32";
        case DataType::i64:
            return "i64";
        case DataType::u8:
            return "u8";
    }
    return "unknown type";
}

std::string_view name_of(ReduceOp op) noexcept {
    switch (op) {
        case ReduceOp::sum:
            return "sum";
        case ReduceOp::prod:
            return "prod";
        case ReduceOp::min:
            return "min";
        case ReduceOp::max:
            return "max";
    }
    return "unknown op";
}

}  // namespace autolaunch
