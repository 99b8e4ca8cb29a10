#include "comm/mpi/mpi_types.hpp"

namespace autolaunch::mpi {

MPI_Datatype type_of(DataType type) {
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

MPI_Op op_of(ReduceOp op, DataType type) {
    if (type == DataType::bf16 || type == DataType::f16) return MPI_OP_NULL;
    switch (op.kind()) {
        case ReduceOp::Kind::sum:
            // Open MPI's vectorised sums of bytes saturate; ours wrap.
            return type == DataType::i8 || type == DataType::u8 ? MPI_OP_NULL : MPI_SUM;
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

BlockPiece::BlockPiece(std::size_t elements, std::size_t stride, DataType type) {
    if (elements == stride) {
        type_ = type_of(type);
        count_ = static_cast<int>(elements);
        return;
    }
    MPI_Datatype piece = MPI_DATATYPE_NULL;
    check(MPI_Type_contiguous(static_cast<int>(elements), type_of(type), &piece), "make an MPI type");
    const auto extent = static_cast<MPI_Aint>(stride * size_of(type));
    const int code = MPI_Type_create_resized(piece, 0, extent, &type_);
    MPI_Type_free(&piece);
    check(code, "make an MPI type");
    owned_ = true;
    check(MPI_Type_commit(&type_), "make an MPI type");
}

}  // namespace autolaunch::mpi
