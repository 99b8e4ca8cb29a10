// Models of random numbers on (fake) GPUs, whose streams get to their work when they like.
#include "fsdp_gpu_ranks.hpp"
#include "random_models.hpp"

namespace fsdp_gpu_random_test {

using namespace autolaunch;
using namespace autolaunch::fsdp;
using namespace autolaunch::fsdp::testing;

namespace {

std::vector<float> train_on_gpus(const RandomModel& plan, const Way& way, int jitter_us,
                                 const std::filesystem::path& directory, bool resume) {
    Shared<float> result(plan.element_count());
    on_gpus(way.ranks, [&](Communicator& world, Trainee& trainee) {
        trainee.control().jitter_us = jitter_us;
        train_on_rank(world, plan, way, directory, resume, trainee.computation(), result.data());
    });
    return result.copy();
}

}  // namespace

TEST_CASE(
    "a random model on GPUs ends with the bits of one CPU, and from a checkpoint of GPUs or CPUs") {
    for_random_models(12, [](std::uint64_t number, const RandomModel& plan,
                             const std::vector<float>& expected) {
        Dice dice(number + 500'000);
        const Way way = Way::random(dice), other = Way::random(dice), on_cpus = Way::random(dice);
        const int jitter_us = dice.one_of({0, 50, 300, 2000});
        CAPTURE(number);
        CAPTURE(way.text());
        CAPTURE(other.text());
        CAPTURE(on_cpus.text());
        CAPTURE(jitter_us);
        const TemporaryDirectory directory;
        REQUIRE(same_bits(train_on_gpus(plan, way, jitter_us, directory.path(), false), expected));
        REQUIRE(same_bits(train_on_gpus(plan, other, jitter_us, directory.path(), true), expected));
        REQUIRE(same_bits(train_on_cpus(plan, on_cpus, directory.path(), true), expected));
    });
}

}  // namespace fsdp_gpu_random_test
