// A trainer outside the project: everything through the installed headers and libraries.
#include <autolaunch/autolaunch.hpp>

#include <cstdio>

namespace al = autolaunch;

int main() {
    auto session = al::Session::from_environment();
    auto world = al::Communicator::world(session);
    al::fsdp::ShardedModel model(world);
    model.add_unit("layer", {{"weight", {4, 4}}});
    model.finalize();
    al::fsdp::AdamW optimizer(model);
    {
        auto parameters = model.unit("layer").unshard();
        auto gradient = model.unit("layer").grad("weight").as<float>();
        gradient[0] = 1.0f;
    }
    model.unit("layer").reduce_grads();
    const auto result = optimizer.step({.max_grad_norm = 10.0f});
    std::printf("rank %d of %d, gradient norm %.3f, sum %.1f\n", world.rank(), world.size(),
                result.grad_norm, static_cast<double>(world.all_reduce_value(1.0f)));
    return 0;
}
