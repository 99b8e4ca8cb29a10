#pragma once
// Mathematics of a small network with a tied table, as C trainers write it: it knows of no ranks.
//     x = the mean of the context's rows of the table;  x = tanh(w x + b), kLayers times;
//     logits = table x
#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace long_run {

inline constexpr std::size_t kCharacters = 96;  // printable ASCII
inline constexpr std::size_t kContext = 8;
inline constexpr std::size_t kWidth = 32;
inline constexpr std::size_t kLayers = 12;

/// One sample: the characters before, and the one that is to be guessed.
struct Row {
    std::array<std::size_t, kContext> context{};
    std::size_t target = 0;
};

/// What forward leaves for backward: of each row its vector before each layer and after the last.
struct Activations {
    explicit Activations(std::size_t rows) : x(rows), dx(rows) {}
    std::vector<std::array<std::array<float, kWidth>, kLayers + 1>> x;
    std::vector<std::array<float, kWidth>> dx;  // the gradient, on its way down
};

void embed(const float* table, std::span<const Row> rows, Activations& acts);
void forward(const float* w, const float* b, std::size_t layer, Activations& acts);
/// Returns the sum of the rows' losses in nats. Each row's gradient is multiplied with `weight` and
/// added to dtable.
float output(const float* table, float* dtable, float weight, std::span<const Row> rows,
             Activations& acts);
void backward(const float* w, float* dw, float* db, std::size_t layer, Activations& acts);
void embed_backward(float* dtable, std::span<const Row> rows, const Activations& acts);

}  // namespace long_run
