// The same sweep on bare MPI_Allreduce or MPI_Reduce_scatter_block, to compare with:
//   mpirun -np 2 mpi_peer_perf all_reduce -b 8 -e 64M -f 4
#include "collective_perf.hpp"

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <stdexcept>
#include <string>

using namespace autolaunch;

namespace {

MPI_Datatype mpi_type(DataType type) {
    switch (type) {
        case DataType::f32:
            return MPI_FLOAT;
        case DataType::f64:
            return MPI_DOUBLE;
        case DataType::i32:
            return MPI_INT32_T;
        case DataType::i64:
            return MPI_INT64_T;
        case DataType::u8:
            return MPI_UINT8_T;
        default:
            break;
    }
    throw std::invalid_argument("MPI has no bfloat16");
}

MPI_Op mpi_op(ReduceOp op) {
    switch (op.kind()) {
        case ReduceOp::Kind::prod:
            return MPI_PROD;
        case ReduceOp::Kind::min:
            return MPI_MIN;
        case ReduceOp::Kind::max:
            return MPI_MAX;
        default:
            break;
    }
    return MPI_SUM;
}

void all_reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op) {
    MPI_Allreduce(send == recv ? MPI_IN_PLACE : send, recv, static_cast<int>(count), mpi_type(type), mpi_op(op),
                  MPI_COMM_WORLD);
}

// MPI's in-place form leaves the result at the buffer's start; it is then moved to where it is in place for the others.
void reduce_scatter(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const std::size_t bytes = count * size_of(type);
    const bool in_place = static_cast<const std::byte*>(send) + static_cast<std::size_t>(rank) * bytes == recv;
    void* const target = in_place ? const_cast<void*>(send) : recv;
    MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : send, target, static_cast<int>(count), mpi_type(type),
                             mpi_op(op), MPI_COMM_WORLD);
    if (target != recv) std::memcpy(recv, target, bytes);
}

double sum(double value) {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return value;
}

int run(int argc, char** argv) {
    const std::string name = argc > 1 ? argv[1] : "";
    if (name != "all_reduce" && name != "reduce_scatter") {
        throw std::invalid_argument("the first argument is all_reduce or reduce_scatter");
    }
    const auto options = bench::parse_options(argc - 1, argv + 1);
    if (options.max_bytes > std::numeric_limits<int>::max()) throw std::invalid_argument("-e is above MPI's counts");
    bench::Group group;
    group.name = "MPI itself";
    MPI_Comm_rank(MPI_COMM_WORLD, &group.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &group.size);
    group.run = name == "all_reduce" ? all_reduce : reduce_scatter;
    group.barrier = [] { MPI_Barrier(MPI_COMM_WORLD); };
    group.sum = sum;
    const auto collective = name == "all_reduce" ? bench::Collective::all_reduce : bench::Collective::reduce_scatter;
    return bench::run_sweep(collective, options, group);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int status = 2;
    try {
        status = run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    }
    if (status == 2) MPI_Abort(MPI_COMM_WORLD, status);
    MPI_Finalize();
    return status;
}
