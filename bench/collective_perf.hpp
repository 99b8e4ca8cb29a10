#pragma once
// The benches' common part: sizes, timing, checking and the table, in nccl-tests' columns
// (docs/benches-collectives.md).
#include "perf_options.hpp"

#include <autolaunch/comm/types.hpp>

#include <functional>
#include <string>

namespace autolaunch::bench {

enum class Collective { all_reduce, reduce_scatter };

/// What is measured: a group of ranks, however it is joined. A count is of the elements of all_reduce's buffers, or of
/// reduce_scatter's recv.
struct Group {
    std::string name;
    int rank = 0;
    int size = 1;
    std::function<void(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op)> run;
    std::function<void()> barrier;
    std::function<double(double)> sum;  ///< over ranks
};

/// Runs the sweep; rank 0 prints. Returns the exit status: 1 when a result was wrong.
int run_sweep(Collective collective, const PerfOptions& options, const Group& group);

/// main() of a bench whose ranks meet through Session::from_environment().
int run_with_session(Collective collective, int argc, char** argv);

/// Busbw's factor over algbw: 2(n-1)/n for all_reduce, (n-1)/n for reduce_scatter, as nccl-tests defines them.
double bus_factor(Collective collective, int size);

}  // namespace autolaunch::bench
