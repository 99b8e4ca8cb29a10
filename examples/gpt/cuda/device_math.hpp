#pragma once
// A Math by kernels. What runs them, and multiplies matrices, is a Gpu:
//     void* allocate(bytes), release(memory), upload(), download(), wait(), stream(), clear(memory,
//     bytes), name() data_sheet_flops<T>() launch(kernel, Geometry, arguments…)
//     multiply(Product<T>)
// CudaGpu (cuda_gpu.hpp) is a real one, and EmulatedGpu (tests/unit/emulated_gpu.hpp) one that
// tests run anywhere.
#include "gpt/cuda/attention_kernels.hpp"
#include "gpt/cuda/kernels.hpp"
#include "gpt/math.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpt {

struct Extent3 {
    unsigned x = 1, y = 1, z = 1;
};

/// How a kernel is started: blocks, threads of each, and bytes of shared memory each gets.
struct Geometry {
    Extent3 blocks;
    Extent3 threads;
    std::size_t shared_bytes = 0;
};

/// c[rows][columns] = a b, or c += a b; row-major, a[rows][depth] or, transposed, a[depth][rows]; b
/// likewise.
template <class T>
struct Product {
    std::int64_t rows, columns, depth;
    const T* a;
    bool a_transposed;
    const T* b;
    bool b_transposed;
    T* c;
    bool adds;
};

/// T is float or bfloat16. Threads: one. `gpu` must outlive it.
template <class T, class Gpu>
class DeviceMath final : public Math<T> {
public:
    explicit DeviceMath(Gpu& gpu) : gpu_(&gpu), losses_(*this), delta_(*this), partial_(*this) {}

    void* allocate(std::size_t bytes) override {
        void* memory = gpu_->allocate(bytes);
        allocated_ += bytes;
        return memory;
    }
    void release(void* memory, std::size_t bytes) noexcept override {
        gpu_->release(memory);
        allocated_ -= bytes;
    }
    std::size_t allocated() const noexcept override { return allocated_; }
    void upload(const void* from, void* to, std::size_t bytes) override {
        gpu_->upload(from, to, bytes);
    }
    void download(const void* from, void* to, std::size_t bytes) override {
        gpu_->download(from, to, bytes);
    }
    void wait() override { gpu_->wait(); }
    autolaunch::Stream stream() const override { return gpu_->stream(); }
    std::string name() const override { return gpu_->name(); }
    double data_sheet_flops() const override { return gpu_->template data_sheet_flops<T>(); }
    void clear(std::span<T> x) override { gpu_->clear(x.data(), x.size_bytes()); }

    void linear(std::int64_t rows, std::span<const T> x, std::span<const T> weight,
                std::span<const T> bias, std::span<T> y) override {
        const std::int64_t inputs = extent(x, rows);
        const std::int64_t outputs = extent(y, rows);
        gpu_->template multiply<T>(
            {rows, outputs, inputs, x.data(), false, weight.data(), false, y.data(), false});
        if (bias.empty())
            return;
        with_width(outputs, [&](auto wide) {
            const Geometry geometry{{static_cast<unsigned>(rows)}, {256}};
            gpu_->launch(add_bias_kernel<T, wide.value>, geometry, static_cast<int>(outputs),
                         bias.data(), y.data());
        });
    }
    void linear_backward(std::int64_t rows, std::span<const T> x, std::span<const T> weight,
                         std::span<const T> dy, std::span<T> dx, std::span<T> dweight,
                         std::span<T> dbias) override {
        const std::int64_t inputs = extent(x, rows);
        const std::int64_t outputs = extent(dy, rows);
        gpu_->template multiply<T>(
            {rows, inputs, outputs, dy.data(), false, weight.data(), true, dx.data(), false});
        gpu_->template multiply<T>(
            {inputs, outputs, rows, x.data(), true, dy.data(), false, dweight.data(), true});
        if (!dbias.empty())
            add_column_sums(rows, {}, {}, {}, dy, dbias, {});
    }
    void tied_linear(std::int64_t rows, std::span<const T> x, std::span<const T> table,
                     std::span<T> y) override {
        gpu_->template multiply<T>({rows, extent(y, rows), extent(x, rows), x.data(), false,
                                    table.data(), true, y.data(), false});
    }
    void tied_linear_backward(std::int64_t rows, std::span<const T> x, std::span<const T> table,
                              std::span<const T> dy, std::span<T> dx,
                              std::span<T> dtable) override {
        const std::int64_t inputs = extent(x, rows);
        const std::int64_t outputs = extent(dy, rows);
        gpu_->template multiply<T>(
            {rows, inputs, outputs, dy.data(), false, table.data(), false, dx.data(), false});
        gpu_->template multiply<T>(
            {outputs, inputs, rows, dy.data(), true, x.data(), false, dtable.data(), true});
    }

    void add_layer_norm(std::int64_t rows, std::span<const T> x, std::span<const T> branch,
                        std::span<const T> weight, std::span<const T> bias, std::span<T> sum,
                        std::span<T> y, std::span<float> mean,
                        std::span<float> inverse_deviation) override {
        with_width(extent(weight, 1), [&](auto wide) {
            gpu_->launch(add_layer_norm_kernel<T, wide.value>, rows_a_warp(rows), rows,
                         static_cast<int>(weight.size()), x.data(),
                         branch.empty() ? nullptr : branch.data(), weight.data(), bias.data(),
                         sum.data(), y.data(), mean.data(), inverse_deviation.data());
        });
    }
    void layer_norm_backward(std::int64_t rows, std::span<const T> x, std::span<const T> weight,
                             std::span<const float> mean, std::span<const float> inverse_deviation,
                             std::span<const T> dy, std::span<T> dx, std::span<T> dweight,
                             std::span<T> dbias) override {
        with_width(extent(weight, 1), [&](auto wide) {
            gpu_->launch(layer_norm_input_gradient_kernel<T, wide.value>, rows_a_warp(rows), rows,
                         static_cast<int>(weight.size()), x.data(), weight.data(), mean.data(),
                         inverse_deviation.data(), dy.data(), dx.data());
        });
        add_column_sums(rows, x, mean, inverse_deviation, dy, dbias, dweight);
    }

    void gelu(std::span<const T> x, std::span<T> y) override {
        gpu_->launch(gelu_kernel<T, kWideCount<T>>, elementwise(x.size(), kWideCount<T>),
                     extent(x, 1), x.data(), y.data());
    }
    void gelu_backward(std::span<const T> x, std::span<const T> dy, std::span<T> dx) override {
        gpu_->launch(gelu_backward_kernel<T, kWideCount<T>>, elementwise(x.size(), kWideCount<T>),
                     extent(x, 1), x.data(), dy.data(), dx.data());
    }

    std::size_t attention_state_count(const BatchShape& shape, std::int64_t heads) const override {
        return static_cast<std::size_t>(shape.rows() * heads);
    }
    void attention(const BatchShape& shape, std::int64_t heads, std::span<const T> qkv,
                   std::span<float> state, std::span<T> y) override {
        const auto attended = attention_shape(shape, heads, extent(y, shape.rows()));
        with_head_width(attended, [&](auto width) {
            gpu_->launch(attention_kernel<T, width.value>,
                         attention_geometry(shape, heads, width.value, 3, 0), attended, qkv.data(),
                         state.data(), y.data());
        });
    }
    void attention_backward(const BatchShape& shape, std::int64_t heads, std::span<const T> qkv,
                            std::span<const T> y, std::span<const float> state,
                            std::span<const T> dy, std::span<T> dqkv) override {
        const auto attended = attention_shape(shape, heads, extent(y, shape.rows()));
        const std::span<float> delta = delta_.resize(state.size());
        gpu_->launch(attention_delta_kernel<T>, rows_a_warp(shape.rows() * heads), attended,
                     shape.rows(), y.data(), dy.data(), delta.data());
        with_head_width(attended, [&](auto width) {
            gpu_->launch(attention_key_gradient_kernel<T, width.value>,
                         attention_geometry(shape, heads, width.value, 4, 2), attended, qkv.data(),
                         dy.data(), state.data(), delta.data(), dqkv.data());
            gpu_->launch(attention_query_gradient_kernel<T, width.value>,
                         attention_geometry(shape, heads, width.value, 4, 0), attended, qkv.data(),
                         dy.data(), state.data(), delta.data(), dqkv.data());
        });
    }

    void embedding(const BatchShape& shape, std::span<const std::uint8_t> tokens,
                   std::span<const T> token_table, std::span<const T> position_table,
                   std::span<T> x) override {
        const Geometry geometry{{static_cast<unsigned>(shape.rows())}, {256}};
        gpu_->launch(embedding_kernel<T>, geometry, static_cast<int>(shape.length),
                     static_cast<int>(extent(x, shape.rows())), tokens.data(), token_table.data(),
                     position_table.data(), x.data());
    }
    void embedding_backward(const BatchShape& shape, std::span<const std::uint8_t> tokens,
                            std::span<const T> dx, std::span<T> dtoken_table,
                            std::span<T> dposition_table) override {
        const std::int64_t width = extent(dx, shape.rows());
        const unsigned columns = blocks_for(width, kEmbeddingThreads);
        const Geometry by_token{
            {256, columns}, {kEmbeddingThreads}, kEmbeddingThreads / kWarp * sizeof(std::uint32_t)};
        gpu_->launch(token_gradient_kernel<T>, by_token, shape.rows(), static_cast<int>(width),
                     tokens.data(), dx.data(), dtoken_table.data());
        const Geometry by_position{{static_cast<unsigned>(shape.length), columns},
                                   {kEmbeddingThreads}};
        gpu_->launch(position_gradient_kernel<T>, by_position, shape.sequences,
                     static_cast<int>(shape.length), static_cast<int>(width), dx.data(),
                     dposition_table.data());
    }

    void cross_entropy(std::int64_t rows, std::span<const std::uint8_t> targets, float scale,
                       std::span<T> logits) override {
        const std::span<float> losses = losses_.resize(static_cast<std::size_t>(rows));
        loss_rows_ = losses.size();
        const Geometry geometry{{static_cast<unsigned>(rows)},
                                {kEntropyThreads},
                                kEntropyThreads / kWarp * sizeof(SoftmaxSum)};
        with_width(extent(logits, rows), [&](auto wide) {
            gpu_->launch(cross_entropy_kernel<T, wide.value>, geometry,
                         static_cast<int>(extent(logits, rows)), targets.data(), scale,
                         logits.data(), losses.data());
        });
    }
    double loss() override {
        std::vector<float> losses(loss_rows_);
        download(std::span<float>(losses_).data(), losses.data(), losses.size() * sizeof(float));
        double sum = 0;
        for (const float loss : losses)
            sum += loss;
        return sum;
    }

    void convert(const void* from, autolaunch::DataType type, std::span<T> to) override {
        with_type(from, type,
                  [&](const auto* values) { run_conversion(values, to.data(), to.size(), false); });
    }
    void add_converted(std::span<const T> from, void* to, autolaunch::DataType type) override {
        with_type(to, type,
                  [&](auto* values) { run_conversion(from.data(), values, from.size(), true); });
    }

private:
    template <int kValue>
    struct Constant {
        static constexpr int value = kValue;
    };

    template <class E>
    static std::int64_t extent(std::span<E> all, std::int64_t rows) {
        return static_cast<std::int64_t>(all.size()) / rows;
    }
    static unsigned blocks_for(std::int64_t count, std::int64_t each) {
        return static_cast<unsigned>((count + each - 1) / each);
    }
    static Geometry rows_a_warp(std::int64_t rows) { return {{blocks_for(rows, 4)}, {kWarp, 4}}; }
    static Geometry elementwise(std::size_t count, int each) {
        return {{blocks_for(static_cast<std::int64_t>(count), 256 * each)}, {256}};
    }
    /// Rows of a multiple of 16 bytes are read 16 bytes at a time.
    template <class Use>
    static void with_width(std::int64_t width, const Use& use) {
        if (width % kWideCount<T> == 0) {
            use(Constant<kWideCount<T>>{});
        } else {
            use(Constant<1>{});
        }
    }
    template <class Use>
    static void with_head_width(const AttentionShape& shape, const Use& use) {
        if (shape.head_width <= 64) {
            use(Constant<64>{});
        } else if (shape.head_width <= 128) {
            use(Constant<128>{});
        } else {
            throw std::invalid_argument("heads of width " + std::to_string(shape.head_width) +
                                        ": on a GPU a head may have up to 128; choose more heads");
        }
    }
    static AttentionShape attention_shape(const BatchShape& shape, std::int64_t heads,
                                          std::int64_t width) {
        const float scale = 1.0f / std::sqrt(static_cast<float>(width / heads));
        return {static_cast<int>(shape.length), static_cast<int>(heads),
                static_cast<int>(width / heads), scale};
    }
    static Geometry attention_geometry(const BatchShape& shape, std::int64_t heads, int head_width,
                                       int tiles, int statistics) {
        return {{blocks_for(shape.length, kTile), static_cast<unsigned>(heads),
                 static_cast<unsigned>(shape.sequences)},
                {kAttentionThreads},
                attention_shared_bytes<T>(tiles, head_width, statistics)};
    }
    /// Adds the columns' sums of dy to `sums`, and those of dy * normed x to `products` where there
    /// is x.
    void add_column_sums(std::int64_t rows, std::span<const T> x, std::span<const float> mean,
                         std::span<const float> inverse_deviation, std::span<const T> dy,
                         std::span<T> sums, std::span<T> products) {
        const std::int64_t width = extent(dy, rows);
        const unsigned parts = std::clamp<unsigned>(blocks_for(rows, 128), 1, 64);
        const bool both = !x.empty();
        const auto one = static_cast<std::size_t>(parts * width);
        const std::span<float> partial = partial_.resize(one * (both ? 2 : 1));
        const Geometry geometry{{blocks_for(width, kWarp), parts},
                                {kWarp, kSumRows},
                                std::size_t{2} * kSumRows * kWarp * sizeof(float)};
        gpu_->launch(column_sums_kernel<T>, geometry, rows, static_cast<int>(width),
                     both ? x.data() : nullptr, mean.data(), inverse_deviation.data(), dy.data(),
                     partial.data());
        const Geometry by_column{{blocks_for(width, 128)}, {128}};
        gpu_->launch(add_partial_sums_kernel<T>, by_column, static_cast<int>(parts),
                     static_cast<int>(width), partial.data(), sums.data());
        if (!both)
            return;
        gpu_->launch(add_partial_sums_kernel<T>, by_column, static_cast<int>(parts),
                     static_cast<int>(width), partial.data() + one, products.data());
    }
    template <class Byte, class Use>
    static void with_type(Byte* memory, autolaunch::DataType type, const Use& use) {
        constexpr bool kConst = std::is_const_v<Byte>;
        switch (type) {
            case autolaunch::f32:
                return use(static_cast<std::conditional_t<kConst, const float, float>*>(memory));
            case autolaunch::bf16:
                return use(static_cast<std::conditional_t<kConst, const autolaunch::bfloat16,
                                                          autolaunch::bfloat16>*>(memory));
            case autolaunch::f16:
                return use(static_cast<std::conditional_t<kConst, const autolaunch::float16,
                                                          autolaunch::float16>*>(memory));
            default:
                throw std::invalid_argument("parameters and gradients are f32, bf16 or f16");
        }
    }
    template <class From, class To>
    void run_conversion(const From* from, To* to, std::size_t count, bool adds) {
        gpu_->launch(convert_kernel<From, To>, elementwise(count, 1),
                     static_cast<std::int64_t>(count), from, to, adds);
    }

    Gpu* gpu_;
    std::size_t allocated_ = 0;
    DeviceArray<float> losses_;  ///< a row's
    std::size_t loss_rows_ = 0;
    DeviceArray<float> delta_;    ///< of attention's backward
    DeviceArray<float> partial_;  ///< of sums over rows
};

}  // namespace gpt
