// Models of random numbers: however they are cut, buffered and saved, they train as one rank does.
#include "random_models.hpp"

namespace fsdp_random_test {

using namespace autolaunch;
using namespace autolaunch::fsdp;
using namespace autolaunch::fsdp::testing;

TEST_CASE(
    "a random model ends with the bits of one rank, however it is cut, and from a checkpoint of "
    "any other cut") {
    for_random_models(
        40, [](std::uint64_t number, const RandomModel& plan, const std::vector<float>& expected) {
            Dice dice(number);
            const Way way = Way::random(dice), other = Way::random(dice);
            CAPTURE(number);
            CAPTURE(way.text());
            CAPTURE(other.text());
            const TemporaryDirectory directory;
            REQUIRE(same_bits(train_on_cpus(plan, way, directory.path(), false), expected));
            REQUIRE(same_bits(train_on_cpus(plan, other, directory.path(), true), expected));
        });
}

}  // namespace fsdp_random_test
