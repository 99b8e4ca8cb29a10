// examples/gpt on two real processes in every sharding strategy, with its own head and a tied one:
// gradients are those of one process, and evaluation and sampling between steps need no memory for
// gradients.
#include "base/affinity.hpp"
#include "gpt/sampling.hpp"
#include "gpt/throughput.hpp"
#include "gpt_ranks.hpp"

#include <doctest/doctest.h>
#include <sched.h>

namespace gpt_sharded_test {

using namespace gpt::testing;
using autolaunch::fsdp::ModelMemory;
using autolaunch::fsdp::testing::on_ranks;

TEST_CASE("loss, gradient and logits are those of one process, in every strategy") {
    for (const auto& config : {kOwnHead, kTiedHead}) {
        const Expected expected = expected_of(config);
        for (const auto strategy : kStrategies) {
            CAPTURE(name_of(strategy));
            on_ranks(2, [&](Communicator& world) {
                gpt::ThreadPool pool(1);
                gpt::CpuMath<float> math(pool);
                check_training<float>(world, config, options_of(strategy), math, expected, 1e-5);
            });
        }
    }
}

TEST_CASE("evaluation and sampling allocate no gradients and one block's activations") {
    for (const DataType type : {autolaunch::f32, autolaunch::bf16, autolaunch::f16}) {
        for (const auto strategy : kStrategies) {
            CAPTURE(name_of(strategy));
            CAPTURE(name_of(type));
            on_ranks(2, [&](Communicator& world) {
                gpt::ThreadPool pool(1);
                gpt::CpuMath<float> math(pool);
                Rank<float> rank(world, kOwnHead, options_of(strategy, type), math);
                std::size_t evaluating = 0;
                {
                    const auto evaluation = rank.sharded.evaluation();
                    rank.network->loss(batch_of(2));
                    const auto text = gpt::continue_text(
                        [&](std::span<const std::uint8_t> seen) {
                            return rank.network->next_logits(seen);
                        },
                        kOwnHead.context, prompt(), 3, 1, 1);
                    expect(text.size() == 3, "three bytes");
                    const ModelMemory memory = rank.sharded.memory();
                    expect(memory.whole_gradients == 0 && memory.gradients == 0,
                           "no memory for gradients");
                    evaluating = math.allocated();
                }
                rank.network->loss_and_gradients(batch_of(2), 1);
                const ModelMemory memory = rank.sharded.memory();
                expect(memory.whole_gradients + memory.gradients > 0,
                       "memory for gradients once it trains");
                expect(math.allocated() > 2 * evaluating,
                       "activations of three blocks once it trains");
            });
        }
    }
}

TEST_CASE("the peak of two ranks that share a CPU is that CPU's") {
    const auto cpus = *autolaunch::affinity_of(0);
    const auto may_use = [](const std::vector<int>& list) {
        cpu_set_t set;
        CPU_ZERO(&set);
        for (const int cpu : list)
            CPU_SET(cpu, &set);
        REQUIRE(sched_setaffinity(0, sizeof set, &set) == 0);
    };
    may_use({cpus.front()});
    gpt::ThreadPool pool(1);
    gpt::CpuMath<float> math(pool);
    const double of_cpu =
        gpt::peak_flops(math).per_second;  // at its best moment, also beside other programs
    on_ranks(2, [&](Communicator& world) {
        gpt::ThreadPool own_pool(1);
        gpt::CpuMath<float> own_math(own_pool);
        const double both = gpt::peak_flops(own_math, world).per_second;
        expect(both > 0 && both < 1.4 * of_cpu, "at most about " + std::to_string(of_cpu / 1e9) +
                                                    " GFLOP/s, got " + std::to_string(both / 1e9));
    });
    may_use(cpus);
}

}  // namespace gpt_sharded_test
