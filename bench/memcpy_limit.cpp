// The limit that collectives on CPUs are held against: what THREADS threads copy together, each a
// buffer of BYTES.
//   memcpy_limit THREADS BYTES [ROUNDS]
// Prints the best of ROUNDS (7) in GB/s of bytes touched: a copied byte is read once and written
// once.
#include "perf_options.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

/// Seconds for one copy by each thread, while all copy.
double round_of_copies(std::size_t threads, std::size_t bytes, int copies) {
    std::barrier gate(static_cast<std::ptrdiff_t>(threads));
    std::atomic<std::int64_t> slowest_ns = 0;
    const auto work = [&] {
        std::vector<char> from(bytes, 1);
        std::vector<char> to(bytes,
                             2);  // written, so that no page is faulted in while time is taken
        gate.arrive_and_wait();
        const auto begin = Clock::now();
        for (int i = 0; i < copies; ++i) {
            std::memcpy(to.data(), from.data(), bytes);
            asm volatile("" : : "r"(to.data()) : "memory");
        }
        const std::int64_t ns = std::chrono::nanoseconds(Clock::now() - begin).count();
        for (std::int64_t seen = slowest_ns;
             ns > seen && !slowest_ns.compare_exchange_weak(seen, ns);) {
        }
    };
    std::vector<std::jthread> running;
    for (std::size_t i = 1; i < threads; ++i)
        running.emplace_back(work);
    work();
    running.clear();
    return static_cast<double>(slowest_ns) / 1e9 / copies;
}

int positive(const char* text) {
    long long value = 0;
    if (!autolaunch::parse_integer(text, value) || value < 1 || value > 1024)
        throw std::invalid_argument(std::string(text) + " is not a number from 1 to 1024");
    return static_cast<int>(value);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (argc < 3)
            throw std::invalid_argument("usage: memcpy_limit THREADS BYTES [ROUNDS]");
        const auto threads = static_cast<std::size_t>(positive(argv[1]));
        const std::size_t bytes = autolaunch::bench::parse_bytes(argv[2]);
        const int rounds = argc > 3 ? positive(argv[3]) : 7;
        const int copies = static_cast<int>(
            std::max<std::size_t>(4, (64u << 20) / std::max<std::size_t>(bytes, 64)));
        double best = 0;
        for (int round = 0; round < rounds; ++round) {
            const double seconds = round_of_copies(threads, bytes, copies);
            best = std::max(best, 2.0 * static_cast<double>(threads * bytes) / seconds / 1e9);
        }
        std::printf("%.2f GB/s touched by %zu threads that copy %zu bytes each\n", best, threads,
                    bytes);
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "memcpy_limit: %s\n", error.what());
        return 2;
    }
}
