// The simulator finds what it is there to find: each of these mistakes, one at a time.

#include "simulation/world.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

namespace planted_faults_test {

using namespace simulation;

namespace {

// A schedule that shows each, found by `simulate --plant NAME`. Where the schedules change, others
// do.
const std::map<Planted, std::string> kShownBy = {
    {Planted::vote_counted_twice,
     "seed 641 nodes 5 ranks 1 fewest 2 most 4 witness 0 loss 119 doubled 86 slowest 834 steps"
     " 10 restarts 3"},
    {Planted::minority_commit,
     "seed 1 nodes 5 ranks 2 fewest 3 most 4 witness 1 loss 0 doubled 13 slowest 236 steps 27 "
     "restarts 1"},
    {Planted::no_read_back,
     "seed 12780 nodes 4 ranks 2 fewest 2 most 3 witness 0 loss 24 doubled 13 slowest 891 "
     "steps 14 restarts 0"},
    {Planted::newest_electorate_only,
     "seed 5051 nodes 3 ranks 1 fewest 1 most 2 witness 1 loss 123 doubled 24 slowest 40 steps"
     " 10 restarts 2, 345 pause_machine 1 6720, 1814 cut 0 2749"},
    {Planted::old_incarnation_votes,
     "seed 1069 nodes 2 ranks 2 fewest 1 most 2 witness 1 loss 15 doubled 99 slowest 44 steps "
     "40 restarts 0, 6720 kill_agent 1 2728, 7817 restart 1 2186"},
    {Planted::stale_term_obeyed,
     "seed 65367 nodes 5 ranks 1 fewest 3 most 4 witness 1 loss 149 doubled 37 slowest 70 "
     "steps 8 restarts 0, 155 fail_gpu 1 3983, 255 pause_machine 2 1333, 409 pause_agent 0 "
     "1243"},
    {Planted::lease_ignored,
     "seed 76 nodes 4 ranks 1 fewest 3 most 4 witness 1 loss 79 doubled 25 slowest 39 steps 8 "
     "restarts 3, 250 cut 2 4391, 572 fail_rank 3 5504"},
    {Planted::head_without_majority,
     "seed 818 nodes 3 ranks 2 fewest 2 most 2 witness 0 loss 92 doubled 38 slowest 59 steps "
     "35 restarts 3, 365 pause_machine -1 5803, 815 cut -1 681"},
    {Planted::begins_before_the_fence,
     "seed 6305 nodes 4 ranks 2 fewest 2 most 3 witness 1 loss 120 doubled 77 slowest 43 steps"
     " 40 restarts 2"},
    {Planted::unfenced_write,
     "seed 54533 nodes 5 ranks 1 fewest 1 most 4 witness 0 loss 32 doubled 18 slowest 47 steps"
     " 39 restarts 2, 3802 pause_machine -1 4590, 8843 fail_rank 3 0"},
    {Planted::budget_reset,
     "seed 63 nodes 5 ranks 2 fewest 2 most 4 witness 0 loss 0 doubled 0 slowest 20 steps 26 "
     "restarts 2, 1347 fail_rank 2 1617, 1866 pause_agent 0 7346"},
    {Planted::exclusion_forgotten,
     "seed 142 nodes 3 ranks 2 fewest 2 most 3 witness 0 loss 111 doubled 14 slowest 656 steps"
     " 39 restarts 3, 3485 fail_rank 0 6973"},
    {Planted::certificate_dropped,
     "seed 8 nodes 5 ranks 2 fewest 2 most 4 witness 0 loss 104 doubled 75 slowest 659 steps "
     "13 restarts 2"},
    {Planted::ending_forgotten,
     "seed 16 nodes 3 ranks 2 fewest 1 most 2 witness 0 loss 9 doubled 7 slowest 41 steps 38 "
     "restarts 2"},
    {Planted::witness_for_both,
     "seed 230 nodes 2 ranks 2 fewest 1 most 2 witness 1 loss 0 doubled 0 slowest 20 steps 37 "
     "restarts 3, 564 cut 1 2166"},
    {Planted::begins_in_two_at_once,
     "seed 48 nodes 3 ranks 2 fewest 3 most 3 witness 1 loss 137 doubled 64 slowest 56 steps 8"
     " restarts 1, 335 fail_rank -1 401"},
    {Planted::requeue_unproved,
     "seed 80 nodes 4 ranks 2 fewest 1 most 3 witness 1 loss 0 doubled 0 slowest 20 steps 10 "
     "restarts 2, 102 kill_agent 3 5580, 869 cut -1 1109"},
    {Planted::requeue_blind,
     "seed 35 nodes 3 ranks 2 fewest 1 most 3 witness 1 loss 123 doubled 51 slowest 17 steps "
     "35 restarts 2, 4234 cut 1 4937"},
};
constexpr std::uint64_t kTries = 60'000;

}  // namespace

TEST_CASE("every planted fault is found, and nothing where none is planted") {
    for (const Planted planted : kPlanted) {
        INFO(name_of(planted));
        const auto shown = kShownBy.find(planted);
        REQUIRE(shown != kShownBy.end());
        Schedule schedule = schedule_from(shown->second);
        auto found = run_schedule(schedule, planted);
        for (std::uint64_t seed = 1; !found && seed <= kTries; ++seed) {
            schedule = make_schedule(seed);
            found = run_schedule(schedule, planted);
            if (found) {
                const auto blows = shrink(schedule, planted);
                MESSAGE("shown by: " << to_text(with_blows(schedule, blows)));
            }
        }
        CHECK_MESSAGE(found, "not found in " << kTries << " schedules");
        CHECK(run_schedule(schedule).value_or("") == "");
    }
}

TEST_CASE("what is found is shrunk to the blows that it takes") {
    for (std::uint64_t seed = 1;; ++seed) {
        const Schedule schedule = make_schedule(seed);
        if (schedule.blows.size() < 5 || !run_schedule(schedule, Planted::witness_for_both))
            continue;
        const auto kept = shrink(schedule, Planted::witness_for_both);
        REQUIRE(kept.size() < schedule.blows.size());
        CHECK(run_schedule(with_blows(schedule, kept), Planted::witness_for_both));
        for (std::size_t i = 0; i < kept.size(); ++i) {
            auto fewer = kept;
            fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
            CHECK_FALSE(run_schedule(with_blows(schedule, fewer), Planted::witness_for_both));
        }
        const Schedule least = with_blows(schedule, kept);
        CHECK(to_text(schedule_from(to_text(least))) == to_text(least));
        return;
    }
}

}  // namespace planted_faults_test
