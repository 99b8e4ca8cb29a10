// Heads that are killed, cut off or stand still, in schedules without end: SIMULATION_SCHEDULES
// says how many, SIMULATION_SEED with which they begin. What was found once is in kept_seeds.txt.

#include "base/file_io.hpp"
#include "simulation/world.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace head_loss_test {

using namespace simulation;

namespace {

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
    const char* text = std::getenv(variable);
    return text != nullptr ? std::stoull(text) : otherwise;
}

std::vector<std::string> kept_lines() {
    std::vector<std::string> lines;
    std::istringstream file(autolaunch::read_file(std::string(AUTOLAUNCH_SOURCE_DIR) +
                                                  "/tests/simulation/kept_seeds.txt"));
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("seed "))
            lines.push_back(line.substr(0, line.find(" #")));
    return lines;
}

}  // namespace

TEST_CASE("100,000 schedules: one head, no rank in two generations, nothing lost, and an end") {
    const std::uint64_t count = number_of("SIMULATION_SCHEDULES", 100'000);
    const std::uint64_t first = number_of("SIMULATION_SEED", 1);
    std::atomic<std::uint64_t> next{first}, events{0};
    std::mutex telling;
    std::vector<std::string> wrong;
    const auto work = [&] {
        std::uint64_t own = 0;
        for (std::uint64_t seed = next++; seed < first + count; seed = next++) {
            const Schedule schedule = make_schedule(seed);
            if (!run_schedule(schedule, Planted::none, &own))
                continue;
            const auto kept = shrink(schedule, Planted::none);
            const auto found = run_schedule(with_blows(schedule, kept));
            const std::lock_guard lock(telling);
            if (wrong.size() < 10)
                wrong.push_back(to_text(with_blows(schedule, kept)) + " # " + found.value_or("?"));
        }
        events += own;
    };
    std::thread beside(work);
    work();
    beside.join();
    for (const std::string& line : wrong)
        FAIL_CHECK(line);
    CHECK(events > 100 * count);
}

TEST_CASE("what was found once stays mended") {
    const auto lines = kept_lines();
    CHECK(lines.size() >= 10);
    for (const std::string& line : lines) {
        INFO(line);
        CHECK(run_schedule(schedule_from(line)).value_or("") == "");
    }
}

TEST_CASE("a seed is the same each time") {
    for (const std::uint64_t seed : {3U, 77U, 2543U}) {
        std::uint64_t once = 0, again = 0;
        const auto first = run_schedule(make_schedule(seed), Planted::none, &once);
        const auto second = run_schedule(make_schedule(seed), Planted::none, &again);
        CHECK(once == again);
        CHECK(first == second);
    }
}

// Without anything that hinders it, the job must come to its good end, not just to any.
TEST_CASE(
    "a job of three and more survives its head, two heads in a row, and one that comes back") {
    for (const Blow blow :
         {Blow::kill_agent, Blow::power_off, Blow::pause_machine, Blow::pause_agent, Blow::cut}) {
        for (int nodes = 3; nodes <= 5; ++nodes)
            for (std::uint64_t seed = 1; seed <= 20; ++seed) {
                Schedule schedule;
                schedule.seed = seed;
                schedule.nodes = nodes;
                schedule.most = nodes;
                schedule.fewest = nodes - 2;
                schedule.steps = 30;
                schedule.blows = {{.at = 700 + static_cast<int>(seed) * 37,
                                   .what = blow,
                                   .node = 0,
                                   .lasts = 6000}};
                if (nodes > 3)
                    schedule.blows.push_back({.at = 9000, .what = blow, .node = -1, .lasts = 6000});
                World world(schedule, Planted::none);
                world.start();
                world.run();
                INFO(name_of(blow) << ", " << nodes << " nodes, seed " << seed);
                CHECK(world.invariants().exit_code().value_or(-1) == 0);
            }
    }
}

TEST_CASE("of two the other goes on where the witness is its own, and ends where there is none") {
    for (const bool has_witness : {false, true})
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
            Schedule schedule;
            schedule.seed = seed;
            schedule.nodes = schedule.most = 2;
            schedule.fewest = 1;
            schedule.has_witness = has_witness;
            schedule.blows = {{.at = 700, .what = Blow::power_off, .node = 0}};
            World world(schedule, Planted::none);
            world.start();
            world.run();
            CHECK(world.invariants().exit_code() ==
                  (has_witness ? std::optional<int>(0) : std::nullopt));
        }
}

}  // namespace head_loss_test
