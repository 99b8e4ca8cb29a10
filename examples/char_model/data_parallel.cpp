// Data parallel by hand: every rank keeps the flat arrays of single.cpp, and the communicator alone
// joins them.
#include "char_model.hpp"

#include <autolaunch/autolaunch.hpp>

#include <algorithm>
#include <cstdio>
#include <span>
#include <vector>

using namespace char_model;
namespace al = autolaunch;

int main() {
    auto session = al::Session::from_environment();
    auto world = al::Communicator::world(session);
    const std::size_t count = parameter_count();
    std::vector<float> params_memory(count), grads_memory(count), m_memory(count), v_memory(count);
    if (world.rank() == 0) {
        std::size_t at = 0;
        for (std::size_t t = 0; t < kTensors.size(); ++t)
            for (std::size_t i = 0; i < kTensors[t].count(); ++i)
                params_memory[at++] = initial_value(t, i);
    }
    world.broadcast(params_memory.data(), count, al::f32, 0).wait();
    const Tensors params = point_into(params_memory.data());
    const Tensors grads = point_into(grads_memory.data());

    static Activations acts;
    const int each = Batch::kSamples / world.size();
    for (int step = 1; step <= kSteps; ++step) {
        const Batch batch = load_batch(step, world.rank() * each, (world.rank() + 1) * each);
        std::fill(grads_memory.begin(), grads_memory.end(), 0.0f);
        embedding_forward(params.wte, batch, acts);
        hidden_forward(params.w1, params.b1, batch, acts);
        float loss = output_forward(params.w2, params.b2, batch, acts);
        output_backward(params.w2, grads.w2, grads.b2, batch, acts);
        hidden_backward(params.w1, grads.w1, grads.b1, batch, acts);
        embedding_backward(grads.wte, batch, acts);

        world.all_reduce(std::span<float>(grads_memory), al::ReduceOp::sum).wait();
        for (float& gradient : grads_memory)
            gradient /= static_cast<float>(world.size());
        adamw(params_memory.data(), grads_memory.data(), m_memory.data(), v_memory.data(), step);
        loss = world.all_reduce_value(loss) / static_cast<float>(world.size());
        if (world.rank() == 0)
            std::printf("step %d loss %.6f\n", step, loss);
    }
}
