// A global batch on any number of ranks.
#include <autolaunch/error.hpp>
#include <autolaunch/session/batch.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

namespace batch_test {

using namespace autolaunch;

TEST_CASE("a global batch is kept by more passes where there are fewer ranks") {
    CHECK(share_batch(64, 4, 0, 8).passes == 2);
    CHECK(share_batch(64, 4, 0, 4).passes == 4);
    CHECK(share_batch(64, 4, 3, 4).first == 48);
    CHECK(share_batch(64, 4, 3, 4).is_even());
    CHECK(share_batch(64, 0, 0, 4).passes == 1);
    CHECK(share_batch(64, 0, 0, 4).at_once == 16);
}

TEST_CASE("what does not divide is said") {
    CHECK(share_batch(64, 4, 0, 3).notice ==
          "a global batch of 64 on 3 ranks: ranks from 1 up have one sample less");
    CHECK(share_batch(60, 4, 0, 3).is_even());
    CHECK(share_batch(60, 8, 0, 3).notice ==
          "a global batch of 60 on 3 ranks: the last of 3 passes has 4 samples, not 8");
    CHECK_THROWS_AS(share_batch(3, 1, 0, 4), Error);
    CHECK_THROWS_AS(share_batch(8, -1, 0, 4), Error);
    CHECK_THROWS_AS(share_batch(8, 1, 4, 4), Error);
}

TEST_CASE("every sample is some rank's, once, and counts alike") {
    for (int world = 1; world <= 13; ++world)
        for (std::int64_t global = world; global < 40; ++global)
            for (std::int64_t micro = 0; micro < 5; ++micro) {
                std::int64_t next = 0, taken = 0;
                for (int rank = 0; rank < world; ++rank) {
                    const BatchShare share = share_batch(global, micro, rank, world);
                    REQUIRE(share.first == next);
                    next += share.count;
                    for (std::int64_t pass = 0; pass < share.passes; ++pass)
                        taken += std::clamp<std::int64_t>(share.count - pass * share.at_once, 0,
                                                          share.at_once);
                    // The mean over ranks of weighted sums is the mean over samples.
                    REQUIRE(share.weight * static_cast<double>(global) ==
                            doctest::Approx(static_cast<double>(world)));
                }
                REQUIRE(next == global);
                REQUIRE(taken == global);
            }
}

}  // namespace batch_test
