// examples/gpt's whole path on GPUs, without one: its kernels run in an emulated grid, on the
// streams of the fake GPUs where the sharded model lives and whose work begins late. Losses,
// gradients and logits are those of one process on the CPU.
#include "fsdp_gpu_ranks.hpp"
#include "gpt_ranks.hpp"
// CUDA's words for kernels, after the headers of CUDA's that the others include.
#include "unit/emulated_gpu.hpp"

#include <doctest/doctest.h>

namespace gpt_gpu_ranks_test {

using namespace gpt::testing;
using autolaunch::bfloat16;
using autolaunch::fsdp::testing::on_gpus;
using autolaunch::fsdp::testing::Trainee;

namespace {

// Emulated threads are slow.
const gpt::ModelConfig kSmall = {.layers = 2, .heads = 2, .width = 16, .context = 10};

template <class T>
void check_on_gpus(const gpt::ModelConfig& config, ShardingStrategy strategy, DataType type,
                   double tolerance, int recompute = 0, bool offload = false) {
    CAPTURE(name_of(strategy));
    const Expected expected = expected_of(config);
    on_gpus(2, [&](Communicator& world, Trainee& trainee) {
        trainee.control().jitter_us = 200;
        gpt::EmulatedGpu gpu(emulated::Turns::backward,
                             {[&](std::function<void()> work) { trainee.run(std::move(work)); },
                              [&] { trainee.synchronize(); }, trainee.stream()});
        gpt::DeviceMath<T, gpt::EmulatedGpu> math(gpu);
        auto options = options_of(strategy, type);
        options.offload_optimizer = offload;
        check_training<T>(world, config, options, math, expected, tolerance, recompute);
    });
}

}  // namespace

TEST_CASE("f32, every strategy") {
    for (const auto strategy : kStrategies)
        check_on_gpus<float>(kSmall, strategy, autolaunch::f32, 1e-5);
}

TEST_CASE("activations that are computed again, and an optimizer in the CPU's memory") {
    check_on_gpus<float>(kSmall, ShardingStrategy::full_shard, autolaunch::f32, 1e-5, 1, true);
}

TEST_CASE("bf16 parameters and gradients, multiplied in bf16; and a tied head") {
    check_on_gpus<bfloat16>(kTiedHead, ShardingStrategy::full_shard, autolaunch::bf16, 1e-2);
    check_on_gpus<bfloat16>(kSmall, ShardingStrategy::no_shard, autolaunch::bf16, 1e-2);
}

TEST_CASE("parameters and gradients in f16 are converted on the GPU") {
    check_on_gpus<float>(kSmall, ShardingStrategy::full_shard, autolaunch::f16, 1e-2);
}

}  // namespace gpt_gpu_ranks_test
