#include "char_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace char_model {

namespace {

constexpr std::string_view kText =
    "A launcher starts ranks and a library joins them. Each rank keeps a part of every layer, "
    "gathers the layer when "
    "its "
    "turn comes, and lets it go again. Gradients are added up over all ranks, each rank keeps the "
    "sum of its part, and "
    "an optimizer moves that part alone. What one rank could not hold, many ranks hold together, "
    "and the losses that "
    "they print are those that a single rank would have printed, give or take the last digits of a "
    "sum.";

int code_of(char c) { return std::clamp(static_cast<int>(c) - ' ', 0, kCharacters - 1); }

}  // namespace

Tensors point_into(float* memory) {
    std::array<float*, kTensors.size()> at{};
    for (std::size_t i = 0; i < kTensors.size(); ++i) {
        at[i] = memory;
        memory += kTensors[i].count();
    }
    return {at[0], at[1], at[2], at[3], at[4]};
}

float initial_value(std::size_t tensor, std::size_t index) {
    const TensorInfo& info = kTensors[tensor];
    if (info.columns == 0)
        return 0;
    std::uint64_t bits =
        (tensor + 1) * 0x9e3779b97f4a7c15u + index * 0xbf58476d1ce4e5b9u;  // splitmix64's steps
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    const auto unit =
        static_cast<float>((bits ^ (bits >> 31)) >> 40) / static_cast<float>(1 << 24);  // [0, 1)
    return (2 * unit - 1) / std::sqrt(static_cast<float>(info.columns));
}

Batch load_batch(int step, int begin, int end) {
    Batch batch{};
    constexpr std::size_t kPlaces = kText.size() - kContext;
    for (int sample = begin; sample < end; ++sample) {
        const std::size_t place =
            static_cast<std::size_t>(step * Batch::kSamples + sample) * 7 % kPlaces;
        auto& inputs = batch.inputs[static_cast<std::size_t>(batch.count)];
        for (std::size_t i = 0; i < kContext; ++i)
            inputs[i] = code_of(kText[place + i]);
        batch.targets[static_cast<std::size_t>(batch.count++)] = code_of(kText[place + kContext]);
    }
    return batch;
}

void embedding_forward(const float* wte, const Batch& batch, Activations& acts) {
    for (int s = 0; s < batch.count; ++s)
        for (int k = 0; k < kContext; ++k)
            std::copy_n(wte + batch.inputs[s][k] * kEmbedding, kEmbedding,
                        acts.x[s].begin() + k * kEmbedding);
}

void hidden_forward(const float* w1, const float* b1, const Batch& batch, Activations& acts) {
    for (int s = 0; s < batch.count; ++s)
        for (int i = 0; i < kHidden; ++i) {
            float sum = b1[i];
            for (int j = 0; j < kInput; ++j)
                sum += w1[i * kInput + j] * acts.x[s][j];
            acts.h[s][i] = std::tanh(sum);
        }
}

float output_forward(const float* w2, const float* b2, const Batch& batch, Activations& acts) {
    float loss = 0;
    for (int s = 0; s < batch.count; ++s) {
        auto& logits = acts.logits[s];
        for (int i = 0; i < kCharacters; ++i) {
            logits[i] = b2[i];
            for (int j = 0; j < kHidden; ++j)
                logits[i] += w2[i * kHidden + j] * acts.h[s][j];
        }
        const float largest = *std::max_element(logits.begin(), logits.end());
        float sum = 0;
        for (const float logit : logits)
            sum += std::exp(logit - largest);
        loss += std::log(sum) + largest - logits[batch.targets[s]];
        for (int i = 0; i < kCharacters; ++i) {
            const float probability = std::exp(logits[i] - largest) / sum;
            logits[i] = (probability - (i == batch.targets[s] ? 1.0f : 0.0f)) /
                        static_cast<float>(batch.count);
        }
    }
    return loss / static_cast<float>(batch.count);
}

void output_backward(const float* w2, float* dw2, float* db2, const Batch& batch,
                     Activations& acts) {
    for (int s = 0; s < batch.count; ++s) {
        acts.dh[s].fill(0);
        for (int i = 0; i < kCharacters; ++i) {
            const float d = acts.logits[s][i];
            db2[i] += d;
            for (int j = 0; j < kHidden; ++j) {
                dw2[i * kHidden + j] += d * acts.h[s][j];
                acts.dh[s][j] += d * w2[i * kHidden + j];
            }
        }
    }
}

void hidden_backward(const float* w1, float* dw1, float* db1, const Batch& batch,
                     Activations& acts) {
    for (int s = 0; s < batch.count; ++s) {
        acts.dx[s].fill(0);
        for (int i = 0; i < kHidden; ++i) {
            const float d = acts.dh[s][i] * (1 - acts.h[s][i] * acts.h[s][i]);
            db1[i] += d;
            for (int j = 0; j < kInput; ++j) {
                dw1[i * kInput + j] += d * acts.x[s][j];
                acts.dx[s][j] += d * w1[i * kInput + j];
            }
        }
    }
}

void embedding_backward(float* dwte, const Batch& batch, const Activations& acts) {
    for (int s = 0; s < batch.count; ++s)
        for (int k = 0; k < kContext; ++k)
            for (int i = 0; i < kEmbedding; ++i)
                dwte[batch.inputs[s][k] * kEmbedding + i] += acts.dx[s][k * kEmbedding + i];
}

void adamw(float* params, const float* grads, float* m, float* v, int step) {
    constexpr float kBeta1 = 0.9f, kBeta2 = 0.999f, kEps = 1e-8f;
    const float correction1 = 1 - std::pow(kBeta1, static_cast<float>(step));
    const float correction2 = 1 - std::pow(kBeta2, static_cast<float>(step));
    std::size_t i = 0;
    for (const TensorInfo& tensor : kTensors) {
        const float decay = tensor.columns == 0 ? 1 : 1 - kLearningRate * kWeightDecay;
        for (const std::size_t end = i + tensor.count(); i < end; ++i) {
            m[i] = kBeta1 * m[i] + (1 - kBeta1) * grads[i];
            v[i] = kBeta2 * v[i] + (1 - kBeta2) * grads[i] * grads[i];
            params[i] = params[i] * decay - kLearningRate * (m[i] / correction1) /
                                                (std::sqrt(v[i] / correction2) + kEps);
        }
    }
}

}  // namespace char_model
