#pragma once
#include "layers.hpp"

#include <autolaunch/comm/device.hpp>
#include <autolaunch/comm/types.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace gpt {

/// What sums over a row are kept in: T, or 32 bits where T has 16.
template <class T>
using Statistic = std::conditional_t<sizeof(T) == 2, float, T>;

/// Memory on the device where a Math computes. On a GPU its addresses mean nothing to the CPU.
class DeviceMemory {
public:
    virtual ~DeviceMemory() = default;
    virtual void* allocate(std::size_t bytes) = 0;
    virtual void release(void* memory, std::size_t bytes) noexcept = 0;
    /// Bytes that were allocated and not released.
    virtual std::size_t allocated() const noexcept = 0;
    /// From the CPU's memory; `from` may be reused when it returns.
    virtual void upload(const void* from, void* to, std::size_t bytes) = 0;
    /// To the CPU's memory, after all work that was asked for before.
    virtual void download(const void* from, void* to, std::size_t bytes) = 0;
    /// Waits for all work that was asked for before.
    virtual void wait() = 0;
    /// Where the work runs; none for the CPU.
    virtual autolaunch::Stream stream() const = 0;
};

/// An array in a device's memory. Grows as it is asked to and keeps what it has.
template <class E>
class DeviceArray {
public:
    explicit DeviceArray(DeviceMemory& memory) : memory_(&memory) {}
    DeviceArray(DeviceArray&& other) noexcept
        : memory_(other.memory_),
          data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, 0)),
          capacity_(std::exchange(other.capacity_, 0)) {}
    DeviceArray& operator=(DeviceArray&&) = delete;
    ~DeviceArray() {
        if (data_)
            memory_->release(data_, bytes());
    }

    /// What it held is lost when it grows.
    std::span<E> resize(std::size_t count) {
        if (count > capacity_) {
            if (data_)
                memory_->release(std::exchange(data_, nullptr), bytes());
            capacity_ = 0;
            data_ = static_cast<E*>(memory_->allocate(count * sizeof(E)));
            capacity_ = count;
        }
        size_ = count;
        return *this;
    }
    std::size_t bytes() const noexcept { return capacity_ * sizeof(E); }
    operator std::span<E>() const noexcept { return {data_, size_}; }
    operator std::span<const E>() const noexcept { return {data_, size_}; }

private:
    DeviceMemory* memory_;
    E* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

/// The operations that a transformer is made of, on one kind of device: layers.hpp has them for the
/// CPU (cpu_math.hpp), cuda/ for GPUs. The model asks for nothing else, so it is written once. What
/// is not said here is as in layers.hpp.
///
/// Spans are of the device's memory. Work may still run when a call returns; calls come in one
/// order, and download(), loss() and wait() wait. Owner: the trainer. Threads: one.
template <class T>
class Math : public DeviceMemory {
public:
    /// Of the instruction set or the GPU, for people.
    virtual std::string name() const = 0;
    /// Multiplications and additions a second that the data sheet promises for products of T; 0:
    /// none is known.
    virtual double data_sheet_flops() const = 0;

    virtual void clear(std::span<T> x) = 0;

    /// y = x weight + bias.
    virtual void linear(std::int64_t rows, std::span<const T> x, std::span<const T> weight,
                        std::span<const T> bias, std::span<T> y) = 0;
    virtual void linear_backward(std::int64_t rows, std::span<const T> x, std::span<const T> weight,
                                 std::span<const T> dy, std::span<T> dx, std::span<T> dweight,
                                 std::span<T> dbias) = 0;
    /// y = x table^T, for a head that shares the embedding's table[outputs][inputs].
    virtual void tied_linear(std::int64_t rows, std::span<const T> x, std::span<const T> table,
                             std::span<T> y) = 0;
    virtual void tied_linear_backward(std::int64_t rows, std::span<const T> x,
                                      std::span<const T> table, std::span<const T> dy,
                                      std::span<T> dx, std::span<T> dtable) = 0;

    /// sum = x + branch, y = layer_norm(sum). An empty branch is none: then the sum is x, and not
    /// written.
    virtual void add_layer_norm(std::int64_t rows, std::span<const T> x, std::span<const T> branch,
                                std::span<const T> weight, std::span<const T> bias,
                                std::span<T> sum, std::span<T> y, std::span<Statistic<T>> mean,
                                std::span<Statistic<T>> inverse_deviation) = 0;
    /// Adds to dx. `x` is what was normed.
    virtual void layer_norm_backward(std::int64_t rows, std::span<const T> x,
                                     std::span<const T> weight, std::span<const Statistic<T>> mean,
                                     std::span<const Statistic<T>> inverse_deviation,
                                     std::span<const T> dy, std::span<T> dx, std::span<T> dweight,
                                     std::span<T> dbias) = 0;

    virtual void gelu(std::span<const T> x, std::span<T> y) = 0;
    /// dx may be dy.
    virtual void gelu_backward(std::span<const T> x, std::span<const T> dy, std::span<T> dx) = 0;

    /// How many numbers attention() leaves in `state` for backward: the softmax, or its logarithmic
    /// sums.
    virtual std::size_t attention_state_count(const BatchShape& shape,
                                              std::int64_t heads) const = 0;
    virtual void attention(const BatchShape& shape, std::int64_t heads, std::span<const T> qkv,
                           std::span<Statistic<T>> state, std::span<T> y) = 0;
    virtual void attention_backward(const BatchShape& shape, std::int64_t heads,
                                    std::span<const T> qkv, std::span<const T> y,
                                    std::span<const Statistic<T>> state, std::span<const T> dy,
                                    std::span<T> dqkv) = 0;

    virtual void embedding(const BatchShape& shape, std::span<const std::uint8_t> tokens,
                           std::span<const T> token_table, std::span<const T> position_table,
                           std::span<T> x) = 0;
    virtual void embedding_backward(const BatchShape& shape, std::span<const std::uint8_t> tokens,
                                    std::span<const T> dx, std::span<T> dtoken_table,
                                    std::span<T> dposition_table) = 0;

    /// Turns logits into the gradient of loss() times `scale`.
    virtual void cross_entropy(std::int64_t rows, std::span<const std::uint8_t> targets,
                               Statistic<T> scale, std::span<T> logits) = 0;
    /// Sum over the rows of the last cross_entropy(), in nats.
    virtual double loss() = 0;

    /// to = from, and to += from, for parameters and gradients of another type than T: f32, bf16 or
    /// f16.
    virtual void convert(const void* from, autolaunch::DataType type, std::span<T> to) = 0;
    virtual void add_converted(std::span<const T> from, void* to, autolaunch::DataType type) = 0;
};

}  // namespace gpt
