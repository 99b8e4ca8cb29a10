#pragma once
// Our types and operations as MPI's, for MPI as the judge.
#include "comm/mpi/mpi_runtime.hpp"

#include <autolaunch/comm/types.hpp>

namespace autolaunch::conformance {

/// Halves as numbers of 16 bits: MPI can move them, but not reduce them.
inline MPI_Datatype type_of(DataType type) {
    switch (type) {
        case DataType::f32:
            return MPI_FLOAT;
        case DataType::f64:
            return MPI_DOUBLE;
        case DataType::bf16:
        case DataType::f16:
            return MPI_UINT16_T;
        case DataType::i8:
            return MPI_INT8_T;
        case DataType::i32:
            return MPI_INT32_T;
        case DataType::i64:
            return MPI_INT64_T;
        case DataType::u8:
            return MPI_UINT8_T;
        case DataType::u32:
            return MPI_UINT32_T;
        case DataType::u64:
            return MPI_UINT64_T;
    }
    return MPI_DATATYPE_NULL;
}

/// MPI_OP_NULL for avg and pre_multiplied_sum.
inline MPI_Op op_of(ReduceOp op) {
    switch (op.kind()) {
        case ReduceOp::Kind::sum:
            return MPI_SUM;
        case ReduceOp::Kind::prod:
            return MPI_PROD;
        case ReduceOp::Kind::min:
            return MPI_MIN;
        case ReduceOp::Kind::max:
            return MPI_MAX;
        case ReduceOp::Kind::avg:
        case ReduceOp::Kind::pre_multiplied_sum:
            break;
    }
    return MPI_OP_NULL;
}

}  // namespace autolaunch::conformance
