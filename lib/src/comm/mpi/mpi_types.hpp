#pragma once
// Our types and operations as MPI's, and how long buffers are cut.
#include "comm/mpi/mpi_runtime.hpp"

#include <autolaunch/comm/types.hpp>

#include <algorithm>
#include <cstddef>

namespace autolaunch::mpi {

/// bf16 and f16 are only ever moved, as numbers of 16 bits.
MPI_Datatype type_of(DataType type);
/// MPI_OP_NULL for what MPI cannot do by itself, or cannot do in `type`: halves, sums of bytes, avg,
/// pre_multiplied_sum.
MPI_Op op_of(ReduceOp op, DataType type);

/// One piece of every rank's block: `count` items of `type`, and the next rank's `stride` elements further.
class BlockPiece {
public:
    BlockPiece(std::size_t elements, std::size_t stride, DataType type);
    ~BlockPiece() {
        if (owned_) MPI_Type_free(&type_);
    }
    BlockPiece(const BlockPiece&) = delete;
    BlockPiece& operator=(const BlockPiece&) = delete;

    MPI_Datatype type() const noexcept { return type_; }
    int count() const noexcept { return count_; }

private:
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
    int count_ = 1;
    bool owned_ = false;
};

/// Calls step(begin, count) for every piece of `count` elements.
template <class Step>
void for_each_piece(std::size_t count, std::size_t piece_elements, const Step& step) {
    for (std::size_t begin = 0; begin < count; begin += piece_elements) {
        step(begin, std::min(piece_elements, count - begin));
    }
}

}  // namespace autolaunch::mpi
