#pragma once
// MPI's own collectives as a second opinion on ours.
#include <autolaunch/comm/communicator.hpp>

#include <cstdint>

namespace autolaunch::conformance {

/// Makes random calls (kind, sizes, type, operation, root, placement) both on `comm` and with MPI's
/// blocking functions over MPI_COMM_WORLD, whose ranks must be comm's, and compares all bytes. MPI
/// knows no halves: there it reduces their values as f32. Prints the seed; 0 takes one of the
/// clock's. Throws on the first difference.
void compare_with_mpi(Communicator& comm, std::uint64_t seed);

}  // namespace autolaunch::conformance
