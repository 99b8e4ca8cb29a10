// Ranks that are killed at the worst moments, a hundred generations each: while they connect to
// their server, and in the middle of their work. Nothing may hang, and nothing may be left: no
// file, no process, no shared memory.

#include "base/hash.hpp"
#include "mpi_nodes.hpp"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mount.h>

#include <csignal>
#include <filesystem>
#include <random>
#include <set>

namespace pmi_kill_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace autolaunch::testing;

namespace {

constexpr int kGenerations = 100;

std::set<std::string> shared_memory() {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
        const std::string name = entry.path().filename();
        if (name.find("vader") != std::string::npos || name.find("mpich") != std::string::npos ||
            name.find("pmi-test") != std::string::npos || name.find("pmix") != std::string::npos)
            names.insert(name);
    }
    return names;
}

/// A place for it that only this process and its children see, where the kernel lets us have one:
/// other tests run meanwhile.
void have_shared_memory_of_our_own() {
    static const bool has =
        ::unshare(CLONE_NEWNS) == 0 &&
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        ::mount("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0;
    if (!has)
        MESSAGE("not root: what other tests have in /dev/shm is seen, and waited for");
}

MpiRunOptions options_for(const std::string& mark, const std::string& what) {
    MpiRunOptions options;
    options.mode = std::string(MPI_FLAVOUR) == "openmpi" ? MpiMode::pmix : MpiMode::pmi1;
    options.ranks_per_node = {2, 1};
    options.argv = {MPI_RANK_PROGRAM, what};
    options.environment = {mark};
    return options;
}

/// Kills the last rank so long after its start, `kGenerations` times.
void kill_in_each_generation(const std::string& what, int from_us, int to_us) {
    have_shared_memory_of_our_own();
    const std::string mark = "PMI_KILL_TEST=" + random_hex(8);
    const auto before = shared_memory();
    std::mt19937 random(20);
    std::uniform_int_distribution<int> after_us(from_us, to_us);
    MpiRunOptions options = options_for(mark, what);
    for (options.generation = 0; options.generation < kGenerations; ++options.generation) {
        if (to_us > 0)
            options.kill_after = std::chrono::microseconds(after_us(random));
        const auto result = run_mpi(options);
        INFO("generation ", options.generation, ", killed after ",
             options.kill_after.value_or(std::chrono::microseconds(0)).count(),
             " us: ", result.helper_output);
        REQUIRE_FALSE(result.hung);
        REQUIRE(result.left_behind.empty());
        REQUIRE(result.broken.empty());
        REQUIRE_FALSE(result.all_exited_zero());
        CHECK(result.ranks.back().signal == SIGKILL);
    }
    // What other tests have meanwhile goes with them.
    std::set<std::string> left = shared_memory();
    for (const std::string& name : before)
        left.erase(name);
    CHECK(eventually([&] {
        std::erase_if(left, [](const std::string& name) {
            return !std::filesystem::exists("/dev/shm/" + name);
        });
        return left.empty();
    }));
    CHECK(eventually([&] { return processes_with(mark).empty(); }));
}

}  // namespace

TEST_CASE("ranks killed while they start") { kill_in_each_generation("sleep", 0, 30'000); }

TEST_CASE("ranks killed in the middle of their work") { kill_in_each_generation("kill", 0, 0); }

}  // namespace pmi_kill_test
