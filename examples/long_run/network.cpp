#include "network.hpp"

#include <algorithm>
#include <cmath>

namespace long_run {

void embed(const float* table, std::span<const Row> rows, Activations& acts) {
    for (std::size_t r = 0; r < rows.size(); ++r) {
        auto& x = acts.x[r][0];
        x.fill(0);
        for (const std::size_t character : rows[r].context)
            for (std::size_t i = 0; i < kWidth; ++i)
                x[i] += table[character * kWidth + i] / static_cast<float>(kContext);
    }
}

void forward(const float* w, const float* b, std::size_t layer, Activations& acts) {
    for (auto& x : acts.x)
        for (std::size_t i = 0; i < kWidth; ++i) {
            float sum = b[i];
            for (std::size_t j = 0; j < kWidth; ++j)
                sum += w[i * kWidth + j] * x[layer][j];
            x[layer + 1][i] = std::tanh(sum);
        }
}

float output(const float* table, float* dtable, float weight, std::span<const Row> rows,
             Activations& acts) {
    float loss = 0;
    std::array<float, kCharacters> logits{};
    for (std::size_t r = 0; r < rows.size(); ++r) {
        const auto& x = acts.x[r][kLayers];
        for (std::size_t c = 0; c < kCharacters; ++c) {
            logits[c] = 0;
            for (std::size_t i = 0; i < kWidth; ++i)
                logits[c] += table[c * kWidth + i] * x[i];
        }
        const float largest = *std::max_element(logits.begin(), logits.end());
        float sum = 0;
        for (const float logit : logits)
            sum += std::exp(logit - largest);
        loss += std::log(sum) + largest - logits[rows[r].target];
        acts.dx[r].fill(0);
        for (std::size_t c = 0; c < kCharacters; ++c) {
            const float probability = std::exp(logits[c] - largest) / sum;
            const float d = weight * (probability - (c == rows[r].target ? 1.0f : 0.0f));
            for (std::size_t i = 0; i < kWidth; ++i) {
                dtable[c * kWidth + i] += d * x[i];
                acts.dx[r][i] += d * table[c * kWidth + i];
            }
        }
    }
    return loss;
}

void backward(const float* w, float* dw, float* db, std::size_t layer, Activations& acts) {
    for (std::size_t r = 0; r < acts.x.size(); ++r) {
        const auto& x = acts.x[r];
        std::array<float, kWidth> below{};
        for (std::size_t i = 0; i < kWidth; ++i) {
            const float d = acts.dx[r][i] * (1 - x[layer + 1][i] * x[layer + 1][i]);
            db[i] += d;
            for (std::size_t j = 0; j < kWidth; ++j) {
                dw[i * kWidth + j] += d * x[layer][j];
                below[j] += d * w[i * kWidth + j];
            }
        }
        acts.dx[r] = below;
    }
}

void embed_backward(float* dtable, std::span<const Row> rows, const Activations& acts) {
    for (std::size_t r = 0; r < rows.size(); ++r)
        for (const std::size_t character : rows[r].context)
            for (std::size_t i = 0; i < kWidth; ++i)
                dtable[character * kWidth + i] += acts.dx[r][i] / static_cast<float>(kContext);
}

}  // namespace long_run
