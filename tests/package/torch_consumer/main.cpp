// A trainer outside the project that shards a libtorch module through the installed headers and
// libraries.
#include <torch/nn/modules/linear.h>
#include <autolaunch/autolaunch.hpp>
#include <autolaunch/torch.hpp>

#include <cstdio>

namespace al = autolaunch;

int main() {
    auto session = al::Session::from_environment();
    auto world = al::Communicator::world(session);
    torch::nn::Linear layer(4, 1);
    al::fsdp::TorchModel model(world, layer.ptr());
    al::fsdp::AdamW optimizer(model.sharded());
    layer(torch::tensor({{1.0f, 0.0f, 0.0f, 0.0f}})).sum().backward();
    const auto result = optimizer.step({.max_grad_norm = 10.0f});  // of one weight and the bias
    std::printf("rank %d of %d, gradient norm %.3f, sum %.1f\n", world.rank(), world.size(),
                result.grad_norm / 1.41421356, static_cast<double>(world.all_reduce_value(1.0f)));
    return 0;
}
