#include "cpu_math.hpp"

#include "matmul.hpp"
#include "vector_kernels.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

namespace gpt {
namespace {

constexpr std::align_val_t kAlignment{64};  // a cache line, and the widest vector

/// Calls `use` with a null pointer of the type that `type` stands for.
template <class Use>
void with_type(autolaunch::DataType type, const Use& use) {
    switch (type) {
        case autolaunch::f32:
            return use(static_cast<float*>(nullptr));
        case autolaunch::bf16:
            return use(static_cast<autolaunch::bfloat16*>(nullptr));
        case autolaunch::f16:
            return use(static_cast<autolaunch::float16*>(nullptr));
        default:
            throw std::invalid_argument("parameters and gradients are f32, bf16 or f16, not " +
                                        std::string(autolaunch::name_of(type)));
    }
}

}  // namespace

template <class T>
void* CpuMath<T>::allocate(std::size_t bytes) {
    void* memory = ::operator new(bytes, kAlignment);
    allocated_ += bytes;
    return memory;
}

template <class T>
void CpuMath<T>::release(void* memory, std::size_t bytes) noexcept {
    allocated_ -= bytes;
    ::operator delete(memory, kAlignment);
}

template <class T>
void CpuMath<T>::upload(const void* from, void* to, std::size_t bytes) {
    std::memcpy(to, from, bytes);
}

template <class T>
void CpuMath<T>::download(const void* from, void* to, std::size_t bytes) {
    std::memcpy(to, from, bytes);
}

template <class T>
std::string CpuMath<T>::name() const {
    return std::string(vector_kernels<T>().instruction_set) + " kernels, " +
           std::to_string(pool_->size()) + " threads";
}

template <class T>
void CpuMath<T>::clear(std::span<T> x) {
    std::fill(x.begin(), x.end(), T(0));
}

template <class T>
void CpuMath<T>::linear(std::int64_t rows, std::span<const T> x, std::span<const T> weight,
                        std::span<const T> bias, std::span<T> y) {
    gpt::linear<T>(*pool_, rows, x, weight, bias, y);
}

template <class T>
void CpuMath<T>::linear_backward(std::int64_t rows, std::span<const T> x, std::span<const T> weight,
                                 std::span<const T> dy, std::span<T> dx, std::span<T> dweight,
                                 std::span<T> dbias) {
    gpt::linear_backward<T>(*pool_, rows, x, weight, dy, dx, dweight, dbias);
}

template <class T>
void CpuMath<T>::tied_linear(std::int64_t rows, std::span<const T> x, std::span<const T> table,
                             std::span<T> y) {
    const std::int64_t inputs = extent(x.size(), rows);
    const std::int64_t outputs = extent(y.size(), rows);
    clear(y);
    multiply_add<T>(*pool_, {x.data(), rows, inputs},
                    Matrix<const T>(table.data(), outputs, inputs).transposed(),
                    {y.data(), rows, outputs});
}

template <class T>
void CpuMath<T>::tied_linear_backward(std::int64_t rows, std::span<const T> x,
                                      std::span<const T> table, std::span<const T> dy,
                                      std::span<T> dx, std::span<T> dtable) {
    const std::int64_t inputs = extent(x.size(), rows);
    const std::int64_t outputs = extent(dy.size(), rows);
    const Matrix<const T> dy_matrix(dy.data(), rows, outputs);
    clear(dx);
    multiply_add<T>(*pool_, dy_matrix, {table.data(), outputs, inputs}, {dx.data(), rows, inputs});
    multiply_add<T>(*pool_, dy_matrix.transposed(), {x.data(), rows, inputs},
                    {dtable.data(), outputs, inputs});
}

template <class T>
void CpuMath<T>::add_layer_norm(std::int64_t rows, std::span<const T> x, std::span<const T> branch,
                                std::span<const T> weight, std::span<const T> bias,
                                std::span<T> sum, std::span<T> y, std::span<T> mean,
                                std::span<T> inverse_deviation) {
    if (branch.empty()) {
        gpt::layer_norm<T>(*pool_, rows, x, weight, bias, y, mean, inverse_deviation);
        return;
    }
    pool_->parallel_for(static_cast<std::int64_t>(x.size()), 64,
                        [&](std::int64_t begin, std::int64_t end) {
                            for (std::int64_t i = begin; i < end; ++i)
                                sum.data()[i] = x.data()[i] + branch.data()[i];
                        });
    gpt::layer_norm<T>(*pool_, rows, sum, weight, bias, y, mean, inverse_deviation);
}

template <class T>
void CpuMath<T>::layer_norm_backward(std::int64_t rows, std::span<const T> x,
                                     std::span<const T> weight, std::span<const T> mean,
                                     std::span<const T> inverse_deviation, std::span<const T> dy,
                                     std::span<T> dx, std::span<T> dweight, std::span<T> dbias) {
    gpt::layer_norm_backward<T>(*pool_, rows, x, weight, mean, inverse_deviation, dy, dx, dweight,
                                dbias);
}

template <class T>
void CpuMath<T>::gelu(std::span<const T> x, std::span<T> y) {
    gpt::gelu<T>(*pool_, x, y);
}

template <class T>
void CpuMath<T>::gelu_backward(std::span<const T> x, std::span<const T> dy, std::span<T> dx) {
    gpt::gelu_backward<T>(*pool_, x, dy, dx);
}

template <class T>
std::size_t CpuMath<T>::attention_state_count(const BatchShape& shape, std::int64_t heads) const {
    return static_cast<std::size_t>(shape.rows() * heads * shape.length);
}

template <class T>
void CpuMath<T>::attention(const BatchShape& shape, std::int64_t heads, std::span<const T> qkv,
                           std::span<T> state, std::span<T> y) {
    gpt::attention<T>(*pool_, shape, heads, qkv, state, y);
}

template <class T>
void CpuMath<T>::attention_backward(const BatchShape& shape, std::int64_t heads,
                                    std::span<const T> qkv, std::span<const T>,
                                    std::span<const T> state, std::span<const T> dy,
                                    std::span<T> dqkv) {
    gpt::attention_backward<T>(*pool_, shape, heads, qkv, state, dy, dqkv);
}

template <class T>
void CpuMath<T>::embedding(const BatchShape& shape, std::span<const std::uint8_t> tokens,
                           std::span<const T> token_table, std::span<const T> position_table,
                           std::span<T> x) {
    gpt::embedding<T>(*pool_, shape, tokens, token_table, position_table, x);
}

template <class T>
void CpuMath<T>::embedding_backward(const BatchShape& shape, std::span<const std::uint8_t> tokens,
                                    std::span<const T> dx, std::span<T> dtoken_table,
                                    std::span<T> dposition_table) {
    gpt::embedding_backward<T>(*pool_, shape, tokens, dx, dtoken_table, dposition_table);
}

template <class T>
void CpuMath<T>::cross_entropy(std::int64_t rows, std::span<const std::uint8_t> targets, T scale,
                               std::span<T> logits) {
    loss_ = gpt::cross_entropy<T>(*pool_, rows, targets, scale, logits);
}

template <class T>
void CpuMath<T>::convert(const void* from, autolaunch::DataType type, std::span<T> to) {
    with_type(type, [&](auto* type_of) {
        const auto* in = static_cast<std::remove_pointer_t<decltype(type_of)> const*>(from);
        std::transform(in, in + to.size(), to.begin(),
                       [](auto value) { return static_cast<T>(float(value)); });
    });
}

template <class T>
void CpuMath<T>::add_converted(std::span<const T> from, void* to, autolaunch::DataType type) {
    with_type(type, [&](auto* type_of) {
        using Other = std::remove_pointer_t<decltype(type_of)>;
        auto* out = static_cast<Other*>(to);
        std::transform(from.begin(), from.end(), out, out, [](T value, Other sum) {
            return Other(float(sum) + static_cast<float>(value));
        });
    });
}

template class CpuMath<float>;
template class CpuMath<double>;

}  // namespace gpt
