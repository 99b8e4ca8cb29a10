#include "collective_perf.hpp"

int main(int argc, char** argv) {
    return autolaunch::bench::run_with_session(autolaunch::bench::Collective::all_reduce, argc, argv);
}
