// MPI behind what is linked with none: a wrapper, a shell, a script. PMIx and PMI-1 are offered,
// and start when a rank asks.

#include "mpi_nodes.hpp"

#include "base/text.hpp"
#include "pmi/unserved_mpi.hpp"
#include "spawn/process_tree.hpp"

#include <doctest/doctest.h>

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>

namespace pmi_offer_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace autolaunch::testing;

namespace {

MpiRunOptions behind(std::vector<std::string> argv, std::vector<int> ranks_per_node) {
    MpiRunOptions options;
    options.mode = MpiMode::offered;
    options.ranks_per_node = std::move(ranks_per_node);
    options.argv = std::move(argv);
    return options;
}

std::string story(const MpiRunResult& result) {
    std::string text = result.hung ? "HUNG\n" : "";
    for (const RankOutcome& rank : result.ranks)
        text += "exit " + std::to_string(rank.exit_code.value_or(-1)) + ' ' + rank.departure.why +
                ": " + rank.output + '\n';
    return text + join(result.failures, "; ") + join(result.warnings, "; ") +
           join(result.broken, "; ") + result.helper_output;
}

}  // namespace

TEST_CASE("ranks behind wrappers find each other, on one node and on several") {
    const std::string program = MPI_RANK_PROGRAM;
    const std::vector<std::pair<std::vector<std::string>, std::vector<int>>> cases = {
        {{"/usr/bin/env", "A=1", program, "ok"}, {2}},
        {{"/bin/sh", "-c", program + " ok; exit $?"}, {4}},
        {{"/usr/bin/nice", "/usr/bin/timeout", "60", program, "ok"}, {1}},
        {{"/bin/sh", "-c", program + " ok"}, {2, 2}},
        {{"/bin/sh", "-c", program + " ok"}, {3, 1, 2}}};
    for (const auto& [argv, nodes] : cases) {
        const auto result = run_mpi(behind(argv, nodes));
        INFO(join(argv, " "), ": ", story(result));
        CHECK(result.all_exited_zero());
        for (const auto& rank : result.ranks)
            CHECK(rank.departure.why.empty());
        CHECK(result.failures.empty());
        CHECK(result.warnings.empty());
        CHECK(result.broken.empty());
        CHECK(result.left_behind.empty());
    }
}

TEST_CASE("ranks without MPI start nothing") {
    const std::size_t before = list_children().size();  // of earlier runs, not reaped yet
    std::vector<pid_t> helpers;
    MpiRunOptions options = behind({"/bin/true"}, {2});
    options.edit_environment = [&](std::vector<std::string>&) { helpers = list_children(); };
    const auto result = run_mpi(options);
    INFO(story(result));
    CHECK(result.all_exited_zero());
    CHECK(helpers.size() == before + 1);  // the first rank, when the second is prepared
    for (const auto& rank : result.ranks)
        CHECK(rank.departure.why.empty());
    CHECK(result.helper_output.empty());
    CHECK(result.left_behind.empty());
}

TEST_CASE("of offered MPI, too, a rank's end is known") {
    const std::string program = MPI_RANK_PROGRAM;
    const auto aborted = run_mpi(behind({"/bin/sh", "-c", program + " abort"}, {3}));
    INFO(story(aborted));
    CHECK(aborted.exit_code == 42);

    const auto left = run_mpi(behind({"/bin/sh", "-c", program + " exit"}, {2}));
    INFO(story(left));
    CHECK(left.ranks.back().departure.fatal);

    const auto skipped = run_mpi(behind({"/bin/sh", "-c", program + " last-skips-init"}, {3}));
    INFO(story(skipped));
    CHECK_FALSE(skipped.hung);
    CHECK_FALSE(skipped.all_exited_zero());
}

TEST_CASE("a rank killed at any moment of the server's start hangs nobody") {
    for (const int microseconds : {0, 2'000, 5'000, 10'000, 20'000, 30'000, 50'000, 80'000}) {
        MpiRunOptions options = behind({"/usr/bin/env", "A=1", MPI_RANK_PROGRAM, "sleep"}, {2});
        options.kill_after = std::chrono::microseconds(microseconds);
        options.patience = std::chrono::seconds(20);
        const auto result = run_mpi(options);
        INFO(microseconds, ": ", story(result));
        CHECK_FALSE(result.hung);
        CHECK(result.broken.empty());
        CHECK(result.left_behind.empty());
    }
}

TEST_CASE("a rank that uses MPI with a cleaned environment gives itself away") {
    std::optional<UnservedMpi> found;
    // Not at once: where its folder in /tmp is missing, two of Open MPI's would both make it, and
    // one of them gives up.
    MpiRunOptions options = behind(
        {"/bin/sh", "-c",
         "[ \"$RANK\" = 0 ] || sleep 1; env -i PATH=\"$PATH\" " MPI_RANK_PROGRAM " sleep; true"},
        {2});
    std::atomic<bool> over{false};
    MpiStateReader states;
    std::thread watcher([&, own = ::getpid()] {
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (!over && std::chrono::steady_clock::now() < until &&
               !(found && found->mpi.initialised)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            found = find_unserved_mpi(own, {"job", "port", ""}, states);
        }
        for (const pid_t child : list_children(own))
            ::kill(-child, SIGKILL);
    });
    const auto result = run_mpi(options);
    over = true;
    watcher.join();
    INFO(story(result));
    REQUIRE(found);
    CHECK(found->mpi.initialised);
    CHECK(found->identity == MpiIdentity::none);
    CHECK(found->program == MPI_RANK_PROGRAM);
}

// In a network namespace of its own the loopback is down.
TEST_CASE("where there is no network, ranks without MPI run all the same") {
    if (::geteuid() != 0) {
        MESSAGE("skipped: only root can leave the network");
        return;
    }
    std::thread([] {  // a namespace is a thread's
        if (::unshare(CLONE_NEWNET) != 0)
            return;
        const auto result = run_mpi(behind({"/bin/true"}, {2}));
        INFO(story(result));
        CHECK(result.all_exited_zero());
        CHECK(result.failures.empty());
        CHECK(result.broken.empty());
    })
        .join();
}

}  // namespace pmi_offer_test
