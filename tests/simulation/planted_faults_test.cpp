// The simulator finds what it is there to find: each of these mistakes, one at a time.

#include "simulation/world.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

using namespace simulation;

namespace {

// A schedule that shows each, found by `simulate --plant NAME`. Where the schedules change, others
// do.
const std::map<Planted, std::string> kShownBy = {
    {Planted::vote_counted_twice,
     "seed 56 nodes 5 ranks 2 fewest 1 most 4 witness 0 loss 85 doubled 98 slowest 60 steps 21 "
     "restarts 3, 1164 pause_all -1 4415, 2924 kill_agent 2 3481, 4175 cut 3 6205"},
    {Planted::minority_commit,
     "seed 1 nodes 5 ranks 2 fewest 3 most 4 witness 1 loss 0 doubled 13 slowest 236 steps 27 "
     "restarts 1"},
    {Planted::no_read_back,
     "seed 11179 nodes 3 ranks 2 fewest 1 most 2 witness 1 loss 141 doubled 77 slowest 534 steps "
     "21 restarts 3, 184 cut -1 5354, 1378 pause_machine 2 7182, 1770 kill_agent -1 8341"},
    {Planted::newest_electorate_only,
     "seed 4513 nodes 4 ranks 1 fewest 3 most 4 witness 0 loss 47 doubled 49 slowest 39 steps 24 "
     "restarts 3, 433 pause_machine 3 2767, 2040 pause_machine 2 1527, 3508 cut -1 1216"},
    {Planted::old_incarnation_votes,
     "seed 968 nodes 3 ranks 1 fewest 1 most 2 witness 1 loss 25 doubled 96 slowest 352 steps 13 "
     "restarts 1, 591 kill_agent 2 3062, 1182 restart 2 109, 1287 pause_agent 1 3396, 2145 cut -1 "
     "4380, 4585 restart 1 6139"},
    {Planted::stale_term_obeyed,
     "seed 65367 nodes 5 ranks 1 fewest 3 most 4 witness 1 loss 149 doubled 37 slowest 70 steps 8 "
     "restarts 0, 155 fail_gpu 1 3983, 255 pause_machine 2 1333, 409 pause_agent 0 1243"},
    {Planted::lease_ignored,
     "seed 30 nodes 4 ranks 2 fewest 2 most 3 witness 0 loss 56 doubled 71 slowest 32 steps 15 "
     "restarts 2, 462 pause_machine 0 2120, 1137 cut 2 74, 2391 pause_machine 0 2414"},
    {Planted::head_without_majority,
     "seed 1085 nodes 2 ranks 2 fewest 1 most 1 witness 1 loss 143 doubled 97 slowest 78 steps 34 "
     "restarts 3, 2557 pause_machine -1 4329, 4223 cut 1 8994"},
    {Planted::begins_before_the_fence,
     "seed 6305 nodes 4 ranks 2 fewest 2 most 3 witness 1 loss 120 doubled 77 slowest 43 steps 40 "
     "restarts 2"},
    {Planted::unfenced_write,
     "seed 287908 nodes 2 ranks 2 fewest 1 most 1 witness 1 loss 0 doubled 0 slowest 20 steps 29 "
     "restarts 3, 1307 pause_machine -1 8582, 5408 fail_gpu -1 172"},
    {Planted::budget_reset,
     "seed 63 nodes 5 ranks 2 fewest 2 most 4 witness 0 loss 0 doubled 0 slowest 20 steps 26 "
     "restarts 2, 1347 fail_rank 2 1617, 1866 pause_agent 0 7346"},
    {Planted::exclusion_forgotten,
     "seed 8 nodes 5 ranks 2 fewest 2 most 4 witness 0 loss 104 doubled 75 slowest 659 steps 13 "
     "restarts 2, 1307 pause_agent 1 743, 1941 fail_gpu 0 1050"},
    {Planted::certificate_dropped,
     "seed 2777 nodes 4 ranks 1 fewest 2 most 3 witness 1 loss 119 doubled 100 slowest 751 steps "
     "21 restarts 1, 2483 hang_rank -1 6372"},
    {Planted::ending_forgotten,
     "seed 16 nodes 3 ranks 2 fewest 1 most 2 witness 0 loss 9 doubled 7 slowest 41 steps 38 "
     "restarts 2"},
    {Planted::witness_for_both,
     "seed 145 nodes 2 ranks 1 fewest 1 most 1 witness 1 loss 146 doubled 13 slowest 8 steps 11 "
     "restarts 3, 781 pause_all -1 3891, 1654 cut 1 3299"},
    {Planted::begins_in_two_at_once,
     "seed 35 nodes 3 ranks 2 fewest 1 most 3 witness 1 loss 123 doubled 51 slowest 17 steps 35 "
     "restarts 2, 3050 fail_rank -1 534"},
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
