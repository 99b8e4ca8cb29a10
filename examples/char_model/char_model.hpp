#pragma once
// A character model of the plainest kind, written as C trainers are: all parameters in one array,
// raw pointers into it, forward and backward by hand. It predicts a character from the eight before
// it:
//     x = the eight embeddings in a row;  h = tanh(w1 x + b1);  logits = w2 h + b2
#include <array>
#include <cstddef>

namespace char_model {

inline constexpr int kContext = 8;
inline constexpr int kCharacters = 96;  // printable ASCII
inline constexpr int kEmbedding = 16;
inline constexpr int kHidden = 64;
inline constexpr int kInput = kContext * kEmbedding;

struct TensorInfo {
    const char* layer;
    const char* name;
    int rows, columns;  // columns 0: a vector

    constexpr std::size_t count() const {
        return static_cast<std::size_t>(rows) *
               static_cast<std::size_t>(columns == 0 ? 1 : columns);
    }
};

inline constexpr std::array<TensorInfo, 5> kTensors = {
    {{"embedding", "wte", kCharacters, kEmbedding},
     {"hidden", "w1", kHidden, kInput},
     {"hidden", "b1", kHidden, 0},
     {"output", "w2", kCharacters, kHidden},
     {"output", "b2", kCharacters, 0}}};

constexpr std::size_t parameter_count() {
    std::size_t count = 0;
    for (const TensorInfo& tensor : kTensors)
        count += tensor.count();
    return count;
}

/// Pointers to the five tensors, or to their gradients.
struct Tensors {
    float *wte, *w1, *b1, *w2, *b2;
};

/// Into one flat array that holds the tensors in kTensors' order.
Tensors point_into(float* memory);

/// A deterministic start: of element `index` of tensor number `tensor`.
float initial_value(std::size_t tensor, std::size_t index);

struct Batch {
    static constexpr int kSamples = 32;  // of a step, over all ranks
    std::array<std::array<int, kContext>, kSamples> inputs;
    std::array<int, kSamples> targets;
    int count = 0;
};

/// The samples [begin, end) of a step's batch; the same text and the same order on any number of
/// ranks.
Batch load_batch(int step, int begin, int end);

struct Activations {
    std::array<std::array<float, kInput>, Batch::kSamples> x, dx;
    std::array<std::array<float, kHidden>, Batch::kSamples> h, dh;
    std::array<std::array<float, kCharacters>, Batch::kSamples> logits;  // then their gradients
};

// Gradients are added to, and are of the mean over the batch's samples.
void embedding_forward(const float* wte, const Batch& batch, Activations& acts);
void hidden_forward(const float* w1, const float* b1, const Batch& batch, Activations& acts);
/// The mean loss in nats; leaves the logits' gradients in acts.logits.
float output_forward(const float* w2, const float* b2, const Batch& batch, Activations& acts);
void output_backward(const float* w2, float* dw2, float* db2, const Batch& batch,
                     Activations& acts);
void hidden_backward(const float* w1, float* dw1, float* db1, const Batch& batch,
                     Activations& acts);
void embedding_backward(float* dwte, const Batch& batch, const Activations& acts);

inline constexpr float kLearningRate = 0.01f;
inline constexpr float kWeightDecay = 0.1f;  // of matrices
inline constexpr int kSteps = 60;

/// AdamW over the whole flat array, as torch does it. step counts from 1.
void adamw(float* params, const float* grads, float* m, float* v, int step);

}  // namespace char_model
