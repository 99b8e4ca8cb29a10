// The suite on the mpi backend; comm_mpi.sh starts it under mpirun, which ends all ranks when one fails.
//
//   mpi_conformance all [piece_elements]    every case that leaves the group usable, one after the other
//   mpi_conformance CASE                    one case that aborts the group
//
// Every rank prints "passed CASE" for each case. A run that aborted its group ends without MPI_Finalize, so mpirun
// fails in any case and kills the other ranks; the script counts the lines instead, and the ranks wait for each other
// by files in $MPI_CONFORMANCE_DIR before they end.
#include "base/deadline.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "comm/mpi/mpi_backend.hpp"
#include "communicator_suite.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <thread>

using namespace autolaunch;

namespace {

void run(const conformance::Case& test, Communicator& comm) {
    if (comm.size() < test.min_ranks) return;
    try {
        test.run(comm);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: rank %d: %s\n", std::string(test.name).c_str(), comm.rank(), error.what());
        std::_Exit(1);
    }
    std::printf("passed %s\n", std::string(test.name).c_str());
    std::fflush(stdout);
}

bool wanted(const conformance::Case& test, const std::string& what) {
    if (what != "all") return test.name == what;
    return !test.ends_group;
}

void wait_for_the_others(int rank, int size) {
    const char* directory = std::getenv("MPI_CONFORMANCE_DIR");
    if (directory == nullptr) return;
    const std::filesystem::path path = directory;
    write_file_durably(path / std::to_string(rank), "done");
    const Deadline deadline = Deadline::after(std::chrono::seconds(60));
    const auto all_done = [&] {
        for (int other = 0; other < size; ++other) {
            if (!std::filesystem::exists(path / std::to_string(other))) return false;
        }
        return true;
    };
    while (!all_done() && !deadline.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: mpi_conformance all|CASE [piece_elements]\n");
        return 2;
    }
    MpiOptions options;
    long long piece_elements = 0;
    if (argc > 2 && parse_integer(argv[2], piece_elements)) {
        options.piece_elements = static_cast<std::size_t>(piece_elements);
    }
    bool aborted = false;
    int matching = 0;
    {
        options.timeout = std::chrono::seconds(100);
        for (const conformance::Case& test : conformance::cases()) {
            if (wanted(test, argv[1])) options.timeout = std::min(options.timeout, test.timeout);
        }
        Communicator comm(MpiBackend::world(options));
        for (const conformance::Case& test : conformance::cases()) {
            if (!wanted(test, argv[1])) continue;
            run(test, comm);
            ++matching;
        }
        aborted = comm.status() == CommunicatorStatus::aborted;
        if (aborted) wait_for_the_others(comm.rank(), comm.size());
    }
    if (aborted) std::_Exit(0);
    return matching == 0 ? 2 : 0;
}
