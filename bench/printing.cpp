// A program that prints: numbered lines of 100 bytes by printf, at a speed, for some seconds. At
// its end it says on stderr how many lines, after how long and with how much of a CPU.
// bench/output.py runs it.
//
//   printing MB_PER_SECOND SECONDS

#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3)
        return 64;
    const double lines_per_second = std::atof(argv[1]) * 1e6 / 100;
    const double wanted = lines_per_second * std::atof(argv[2]);
    const auto begin = Clock::now();
    long long lines = 0;
    while (static_cast<double>(lines) < wanted) {
        const double elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
        const double due = lines_per_second * elapsed;
        if (static_cast<double>(lines) >= due) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            continue;
        }
        for (int i = 0; i < 100 && static_cast<double>(lines) < wanted; ++i)
            std::printf("line %94lld\n", lines++);
    }
    std::fflush(stdout);
    const double took = std::chrono::duration<double>(Clock::now() - begin).count();
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    std::fprintf(stderr, "%lld lines, %.3f s, %.3f s of a CPU\n", lines, took,
                 seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime));
    return 0;
}
