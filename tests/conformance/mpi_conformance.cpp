// The suite on the backends that need MPI; comm_mpi.sh starts it under mpirun, which ends all ranks
// when one fails.
//
//   mpi_conformance [OPTIONS] all       every case that leaves the group usable, one after the
//   other mpi_conformance [OPTIONS] CASE      one case mpi_conformance [OPTIONS] oracle    random
//   calls, compared with MPI's own (mpi_oracle.hpp)
//
//   --backend mpi|shm|shm+mpi  --nodes N  --pieces BYTES  --fixed-order  --check-calls
//   --seed N           of the oracle
//   --thread-level N   initialises MPI for that level first
//
// Every rank prints "passed CASE" for each case. A run that aborted its group ends without
// MPI_Finalize, so mpirun fails in any case and kills the other ranks; the script counts the lines
// instead, and the ranks wait for each other by files in $MPI_CONFORMANCE_DIR before they end.
#include "../write_file.hpp"
#include "base/deadline.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "comm/mpi/mpi_runtime.hpp"
#include "communicator_suite.hpp"
#include "mpi_backends.hpp"
#include "mpi_oracle.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <thread>

using namespace autolaunch;

namespace {

struct Options {
    conformance::BackendOptions backend;
    std::string what;
    long long seed = 0;
    long long thread_level = -1;
};

bool parse(int argc, char** argv, Options& options) {
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        const std::string value = i + 1 < argc ? argv[i + 1] : "";
        long long number = 0;
        if (argument == "--fixed-order") {
            options.backend.fixed_order = true;
        } else if (argument == "--check-calls") {
            options.backend.check_calls = true;
        } else if (argument == "--backend") {
            options.backend.backend = value;
            ++i;
        } else if (argument.starts_with("--")) {
            if (!parse_integer(value, number))
                return false;
            ++i;
            if (argument == "--nodes")
                options.backend.nodes = static_cast<int>(number);
            if (argument == "--pieces")
                options.backend.piece_bytes = static_cast<std::size_t>(number);
            if (argument == "--seed")
                options.seed = number;
            if (argument == "--thread-level")
                options.thread_level = number;
        } else {
            options.what = argument;
        }
    }
    return !options.what.empty();
}

template <class Test>
void run(const std::string& name, Communicator& comm, const Test& test) {
    try {
        test(comm);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: rank %d: %s\n", name.c_str(), comm.rank(), error.what());
        std::_Exit(1);
    }
    std::printf("passed %s\n", name.c_str());
    std::fflush(stdout);
}

bool wanted(const conformance::Case& test, const Options& options, int size) {
    if (size < test.min_ranks)
        return false;
    if (options.what != "all")
        return test.name == options.what;
    if (test.needs == conformance::Needs::fixed_order)
        return false;  // by name, where it was asked for
    return !test.ends_group && (test.max_ranks == 0 || size <= test.max_ranks);
}

void wait_for_the_others(int rank, int size) {
    const char* directory = std::getenv("MPI_CONFORMANCE_DIR");
    if (directory == nullptr)
        return;
    const std::filesystem::path path = directory;
    write_file(path / std::to_string(rank), "done");
    const Deadline deadline = Deadline::after(std::chrono::seconds(60));
    const auto all_done = [&] {
        for (int other = 0; other < size; ++other) {
            if (!std::filesystem::exists(path / std::to_string(other)))
                return false;
        }
        return true;
    };
    while (!all_done() && !deadline.passed())
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    if (!parse(argc, argv, options)) {
        std::fprintf(stderr, "usage: mpi_conformance [OPTIONS] all|CASE|oracle\n");
        return 2;
    }
    if (options.thread_level >= 0) {
        int given = 0;
        MPI_Init_thread(nullptr, nullptr, static_cast<int>(options.thread_level), &given);
        if (given != options.thread_level)
            return 3;
    }
    bool aborted = false;
    int matching = 0;
    {
        const auto mpi =
            mpi::Runtime::acquire();  // the oracle needs it after the backend's part in it is over
        for (const conformance::Case& test : conformance::cases()) {
            if (test.name == options.what)
                options.backend.timeout = test.timeout;
        }
        Communicator comm(conformance::make_backend(options.backend));
        if (options.what == "oracle") {
            run("oracle", comm, [&](Communicator& group) {
                conformance::compare_with_mpi(group, static_cast<std::uint64_t>(options.seed));
            });
            ++matching;
        }
        for (const conformance::Case& test : conformance::cases()) {
            if (!wanted(test, options, comm.size()))
                continue;
            run(std::string(test.name), comm, test.run);
            ++matching;
        }
        aborted = comm.status() == CommunicatorStatus::aborted;
        if (aborted)
            wait_for_the_others(comm.rank(), comm.size());
    }
    if (aborted)
        std::_Exit(0);
    if (options.thread_level >= 0)
        MPI_Finalize();
    return matching == 0 ? 2 : 0;
}
