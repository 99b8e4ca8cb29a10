// The way from the environment to a measured group: Session, Communicator, sweep.
#include "collective_perf.hpp"

#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/error.hpp>
#include <autolaunch/session.hpp>

#include <cstdio>
#include <exception>

namespace autolaunch::bench {
namespace {

Group group_of(Communicator& comm, Collective collective) {
    Group group;
    group.name = comm.backend();
    group.rank = comm.rank();
    group.size = comm.size();
    group.barrier = [&comm] { comm.barrier(); };
    group.sum = [&comm](double value) { return comm.all_reduce_value(value); };
    if (collective == Collective::all_reduce) {
        group.run = [&comm](const void* send, void* recv, std::size_t count, DataType type, ReduceOp op) {
            comm.all_reduce(send, recv, count, type, op).wait();
        };
    } else {
        group.run = [&comm](const void* send, void* recv, std::size_t count, DataType type, ReduceOp op) {
            comm.reduce_scatter(send, recv, count, type, op).wait();
        };
    }
    return group;
}

}  // namespace

int run_with_session(Collective collective, int argc, char** argv) {
    try {
        const PerfOptions options = parse_options(argc, argv);
        if (options.help) {
            std::fputs(usage(argv[0]).c_str(), stdout);
            return 0;
        }
        Session session = Session::from_environment();
        CommunicatorOptions communicator_options;
        communicator_options.backend = options.backend;
        Communicator world = Communicator::world(session, communicator_options);
        return run_sweep(collective, options, group_of(world, collective));
    } catch (const Error& error) {
        std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
        if (!error.hint().empty()) std::fprintf(stderr, "  %s\n", error.hint().c_str());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n%s", argv[0], error.what(), usage(argv[0]).c_str());
    }
    return 2;
}

}  // namespace autolaunch::bench
