// Before: one process that holds everything, in four flat arrays.
#include "char_model.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace char_model;

int main() {
    const std::size_t count = parameter_count();
    auto* params_memory = static_cast<float*>(std::malloc(count * sizeof(float)));
    auto* grads_memory = static_cast<float*>(std::malloc(count * sizeof(float)));
    auto* m_memory = static_cast<float*>(std::calloc(count, sizeof(float)));
    auto* v_memory = static_cast<float*>(std::calloc(count, sizeof(float)));
    if (!params_memory || !grads_memory || !m_memory || !v_memory)
        return 1;
    std::size_t at = 0;
    for (std::size_t t = 0; t < kTensors.size(); ++t)
        for (std::size_t i = 0; i < kTensors[t].count(); ++i)
            params_memory[at++] = initial_value(t, i);
    const Tensors params = point_into(params_memory);
    const Tensors grads = point_into(grads_memory);

    static Activations acts;
    for (int step = 1; step <= kSteps; ++step) {
        const Batch batch = load_batch(step, 0, Batch::kSamples);
        std::memset(grads_memory, 0, count * sizeof(float));
        embedding_forward(params.wte, batch, acts);
        hidden_forward(params.w1, params.b1, batch, acts);
        const float loss = output_forward(params.w2, params.b2, batch, acts);
        output_backward(params.w2, grads.w2, grads.b2, batch, acts);
        hidden_backward(params.w1, grads.w1, grads.b1, batch, acts);
        embedding_backward(grads.wte, batch, acts);
        adamw(params_memory, grads_memory, m_memory, v_memory, step);
        std::printf("step %d loss %.6f\n", step, loss);
    }
    std::free(params_memory);
    std::free(grads_memory);
    std::free(m_memory);
    std::free(v_memory);
}
