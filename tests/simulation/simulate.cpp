// Runs many schedules, and tells what goes wrong in which.
//
//   simulate [--schedules N] [--seed FIRST] [--threads N] [--plant NAME]
//   simulate --replay "seed 12 nodes 3 …": a line that this program has printed
//
// Exit code 1 where one goes wrong.
#include "simulation/world.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

using namespace simulation;

struct Options {
    std::uint64_t schedules = 100'000, first = 1;
    unsigned threads = std::max(1U, std::thread::hardware_concurrency());
    Planted planted = Planted::none;
    std::string replay;
};

Options parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string name = argv[i], value = argv[i + 1];
        if (name == "--schedules")
            options.schedules = std::stoull(value);
        else if (name == "--seed")
            options.first = std::stoull(value);
        else if (name == "--threads")
            options.threads = static_cast<unsigned>(std::stoul(value));
        else if (name == "--replay")
            options.replay = value;
        else if (name == "--plant")
            for (const Planted planted : kPlanted)
                options.planted = name_of(planted) == value ? planted : options.planted;
        else
            throw std::invalid_argument("unknown option " + name);
    }
    return options;
}

int replay(const Options& options) {
    const Schedule schedule = options.replay.find("nodes") == std::string::npos
                                  ? make_schedule(std::stoull(options.replay))
                                  : schedule_from(options.replay);
    std::fprintf(stderr, "%d nodes, %d to %d take part, %d ranks each, %s\n", schedule.nodes,
                 schedule.fewest, schedule.most, schedule.ranks,
                 schedule.has_witness ? "a witness" : "no witness");
    const auto wrong = run_schedule(schedule, options.planted, nullptr, true);
    std::printf("%s\n", wrong ? wrong->c_str() : "nothing is wrong");
    return wrong ? 1 : 0;
}

int run_many(const Options& options) {
    std::atomic<std::uint64_t> next{options.first}, events{0}, found{0};
    std::mutex printing;
    const auto began = std::chrono::steady_clock::now();
    const auto work = [&] {
        std::uint64_t own_events = 0;
        for (;;) {
            const std::uint64_t seed = next++;
            if (seed >= options.first + options.schedules)
                break;
            const Schedule schedule = make_schedule(seed);
            const auto wrong = run_schedule(schedule, options.planted, &own_events);
            if (!wrong || ++found > 5)
                continue;
            const auto kept = shrink(schedule, options.planted);
            const auto least = run_schedule(with_blows(schedule, kept), options.planted);
            const std::lock_guard lock(printing);
            std::printf("%s # %s\n", to_text(with_blows(schedule, kept)).c_str(),
                        (least ? *least : *wrong).c_str());
            std::fflush(stdout);
        }
        events += own_events;
    };
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < options.threads; ++i)
        threads.emplace_back(work);
    for (std::thread& thread : threads)
        thread.join();
    const double took =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    std::printf("%llu schedules, %.0f events each, %llu went wrong, %.1f s\n",
                static_cast<unsigned long long>(options.schedules),
                static_cast<double>(events) / static_cast<double>(options.schedules),
                static_cast<unsigned long long>(found), took);
    return found > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) try {
    const Options options = parse(argc, argv);
    return options.replay.empty() ? run_many(options) : replay(options);
} catch (const std::exception& error) {
    std::fprintf(stderr, "simulate: %s\n", error.what());
    return 64;
}
