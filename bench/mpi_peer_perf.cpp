// The same sweeps on MPI's own calls, to compare with:
//   mpirun -np 2 mpi_peer_perf all_reduce -b 8 -e 64M -f 4
#include "mpi_peer_group.hpp"
#include "perf_options.hpp"
#include "perf_report.hpp"
#include "perf_sweep.hpp"

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdio>
#include <exception>
#include <limits>
#include <stdexcept>

using namespace autolaunch;

namespace {

int run(int argc, char** argv) {
    if (argc < 2)
        throw std::invalid_argument("the first argument is a collective, such as all_reduce");
    const auto& spec = bench::collective_named(argv[1]);
    const auto options = bench::parse_options(argc - 1, argv + 1);
    if (options.help) {
        std::fputs(bench::usage("mpi_peer_perf COLLECTIVE").c_str(), stdout);
        return 0;
    }
    if (options.max_bytes > std::numeric_limits<int>::max())
        throw std::invalid_argument("-e is above MPI's counts");
    if (options.aggregated > 1)
        throw std::invalid_argument("-m: MPI's blocking calls do not make one operation");
    if (options.timeout_s > 0)
        throw std::invalid_argument("-T: MPI's blocking calls have no deadline");
    if (options.was_given('z'))
        throw std::invalid_argument("-z: MPI's calls always block");
    bench::MpiPeerGroup group;
    bench::PerfReport report(options, group.rank() == 0);
    report.open_json({argv, argv + argc});
    return bench::PerfSweep(spec, options, group, report).run();
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
    if (status == 2)
        MPI_Abort(MPI_COMM_WORLD, status);
    MPI_Finalize();
    return status;
}
