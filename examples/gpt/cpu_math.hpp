#pragma once
#include "math.hpp"

namespace gpt {

/// layers.hpp's functions as a Math. T is float or double.
template <class T>
class CpuMath final : public Math<T> {
public:
    /// `pool` must outlive it.
    explicit CpuMath(ThreadPool& pool) : pool_(&pool) {}

    void* allocate(std::size_t bytes) override;
    void release(void* memory, std::size_t bytes) noexcept override;
    std::size_t allocated() const noexcept override { return allocated_; }
    void upload(const void* from, void* to, std::size_t bytes) override;
    void download(const void* from, void* to, std::size_t bytes) override;
    void wait() override {}
    autolaunch::Stream stream() const override { return {}; }

    std::string name() const override;
    double data_sheet_flops() const override { return 0; }
    void clear(std::span<T> x) override;
    void linear(std::int64_t rows, std::span<const T> x, std::span<const T> weight,
                std::span<const T> bias, std::span<T> y) override;
    void linear_backward(std::int64_t rows, std::span<const T> x, std::span<const T> weight,
                         std::span<const T> dy, std::span<T> dx, std::span<T> dweight,
                         std::span<T> dbias) override;
    void tied_linear(std::int64_t rows, std::span<const T> x, std::span<const T> table,
                     std::span<T> y) override;
    void tied_linear_backward(std::int64_t rows, std::span<const T> x, std::span<const T> table,
                              std::span<const T> dy, std::span<T> dx, std::span<T> dtable) override;
    void add_layer_norm(std::int64_t rows, std::span<const T> x, std::span<const T> branch,
                        std::span<const T> weight, std::span<const T> bias, std::span<T> sum,
                        std::span<T> y, std::span<T> mean, std::span<T> inverse_deviation) override;
    void layer_norm_backward(std::int64_t rows, std::span<const T> x, std::span<const T> weight,
                             std::span<const T> mean, std::span<const T> inverse_deviation,
                             std::span<const T> dy, std::span<T> dx, std::span<T> dweight,
                             std::span<T> dbias) override;
    void gelu(std::span<const T> x, std::span<T> y) override;
    void gelu_backward(std::span<const T> x, std::span<const T> dy, std::span<T> dx) override;
    std::size_t attention_state_count(const BatchShape& shape, std::int64_t heads) const override;
    void attention(const BatchShape& shape, std::int64_t heads, std::span<const T> qkv,
                   std::span<T> state, std::span<T> y) override;
    void attention_backward(const BatchShape& shape, std::int64_t heads, std::span<const T> qkv,
                            std::span<const T> y, std::span<const T> state, std::span<const T> dy,
                            std::span<T> dqkv) override;
    void embedding(const BatchShape& shape, std::span<const std::uint8_t> tokens,
                   std::span<const T> token_table, std::span<const T> position_table,
                   std::span<T> x) override;
    void embedding_backward(const BatchShape& shape, std::span<const std::uint8_t> tokens,
                            std::span<const T> dx, std::span<T> dtoken_table,
                            std::span<T> dposition_table) override;
    void cross_entropy(std::int64_t rows, std::span<const std::uint8_t> targets, T scale,
                       std::span<T> logits) override;
    double loss() override { return loss_; }
    void convert(const void* from, autolaunch::DataType type, std::span<T> to) override;
    void add_converted(std::span<const T> from, void* to, autolaunch::DataType type) override;

private:
    ThreadPool* pool_;
    std::size_t allocated_ = 0;
    double loss_ = 0;
};

}  // namespace gpt
