#pragma once
// The kernels of device_math.hpp but attention's. T is float or bfloat16; arithmetic is f32. kCount
// elements are read at a time: kWideCount<T> where `width` is a multiple of it, else 1. Activations
// begin at multiples of 16 bytes; parameters and gradients lie anywhere, so they are read one by
// one. No kernel adds in an order that depends on time: the same input gives the same bits.
#include "gpt/cuda/device_language.hpp"

namespace gpt {

// A row a block.
template <class T, int kCount>
__global__ void add_bias_kernel(int width, const T* bias, T* y) {
    T* row = y + static_cast<std::int64_t>(blockIdx.x) * width;
    for (int j = static_cast<int>(threadIdx.x) * kCount; j < width;
         j += static_cast<int>(blockDim.x) * kCount) {
        auto chunk = load_chunk<kCount>(row + j);
        for (int i = 0; i < kCount; ++i)
            chunk.values[i] = from_float<T>(to_float(chunk.values[i]) + to_float(bias[j + i]));
        store_chunk(row + j, chunk);
    }
}

// A row a warp. Without a branch the sum is x.
template <class T, int kCount>
__global__ void add_layer_norm_kernel(std::int64_t rows, int width, const T* x, const T* branch,
                                      const T* weight, const T* bias, T* sum, T* y, float* mean,
                                      float* inverse_deviation) {
    const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
    if (row >= rows)
        return;
    const int first = static_cast<int>(threadIdx.x) * kCount;
    const T* in = x + row * width;
    float total = 0;
    for (int j = first; j < width; j += kWarp * kCount) {
        auto chunk = load_chunk<kCount>(in + j);
        if (branch != nullptr) {
            const auto other = load_chunk<kCount>(branch + row * width + j);
            for (int i = 0; i < kCount; ++i)
                chunk.values[i] =
                    from_float<T>(to_float(chunk.values[i]) + to_float(other.values[i]));
            store_chunk(sum + row * width + j, chunk);
        }
        for (int i = 0; i < kCount; ++i)
            total += to_float(chunk.values[i]);
    }
    const T* normed =
        branch != nullptr ? sum + row * width : in;  // each lane reads what it wrote itself
    const float center = warp_sum(total) / static_cast<float>(width);
    float squares = 0;
    for (int j = first; j < width; j += kWarp * kCount) {
        const auto chunk = load_chunk<kCount>(normed + j);
        for (int i = 0; i < kCount; ++i) {
            const float distance = to_float(chunk.values[i]) - center;
            squares += distance * distance;
        }
    }
    const float scale = rsqrtf(warp_sum(squares) / static_cast<float>(width) + 1e-5f);
    for (int j = first; j < width; j += kWarp * kCount) {
        auto chunk = load_chunk<kCount>(normed + j);
        for (int i = 0; i < kCount; ++i) {
            const float value = (to_float(chunk.values[i]) - center) * scale;
            chunk.values[i] =
                from_float<T>(value * to_float(weight[j + i]) + to_float(bias[j + i]));
        }
        store_chunk(y + row * width + j, chunk);
    }
    if (threadIdx.x == 0) {
        mean[row] = center;
        inverse_deviation[row] = scale;
    }
}

// A row a warp: dx += inverse deviation * (g - average(g) - n * average(g n)), g = dy * weight, n =
// the normed x.
template <class T, int kCount>
__global__ void layer_norm_input_gradient_kernel(std::int64_t rows, int width, const T* x,
                                                 const T* weight, const float* mean,
                                                 const float* inverse_deviation, const T* dy,
                                                 T* dx) {
    const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
    if (row >= rows)
        return;
    const int first = static_cast<int>(threadIdx.x) * kCount;
    const std::int64_t start = row * width;
    const float center = mean[row];
    const float scale = inverse_deviation[row];
    float sum = 0;
    float product = 0;
    for (int j = first; j < width; j += kWarp * kCount) {
        const auto in = load_chunk<kCount>(x + start + j);
        const auto upper = load_chunk<kCount>(dy + start + j);
        for (int i = 0; i < kCount; ++i) {
            const float g = to_float(upper.values[i]) * to_float(weight[j + i]);
            sum += g;
            product += g * (to_float(in.values[i]) - center) * scale;
        }
    }
    sum = warp_sum(sum) / static_cast<float>(width);
    product = warp_sum(product) / static_cast<float>(width);
    for (int j = first; j < width; j += kWarp * kCount) {
        const auto in = load_chunk<kCount>(x + start + j);
        const auto upper = load_chunk<kCount>(dy + start + j);
        auto lower = load_chunk<kCount>(dx + start + j);
        for (int i = 0; i < kCount; ++i) {
            const float g = to_float(upper.values[i]) * to_float(weight[j + i]);
            const float n = (to_float(in.values[i]) - center) * scale;
            lower.values[i] =
                from_float<T>(to_float(lower.values[i]) + scale * (g - sum - n * product));
        }
        store_chunk(dx + start + j, lower);
    }
}

// Sums over rows: of dy, and where x is given of dy * normed x, too. A block of 32 x kSumRows
// threads sums 32 columns of one of gridDim.y parts of the rows; partial[part][width], then the
// same for the products.
inline constexpr int kSumRows = 8;
template <class T>
__global__ void column_sums_kernel(std::int64_t rows, int width, const T* x, const float* mean,
                                   const float* inverse_deviation, const T* dy, float* partial) {
    auto* shared = reinterpret_cast<float*>(shared_memory());  // [2][kSumRows][32]
    const int column = static_cast<int>(blockIdx.x) * kWarp + static_cast<int>(threadIdx.x);
    const std::int64_t part = (rows + gridDim.y - 1) / gridDim.y;
    const std::int64_t begin = blockIdx.y * part;
    const std::int64_t end = begin + part < rows ? begin + part : rows;
    float sum = 0;
    float product = 0;
    for (std::int64_t row = begin + threadIdx.y; row < end && column < width; row += kSumRows) {
        const float upper = to_float(dy[row * width + column]);
        sum += upper;
        if (x != nullptr)
            product +=
                upper * (to_float(x[row * width + column]) - mean[row]) * inverse_deviation[row];
    }
    shared[threadIdx.y * kWarp + threadIdx.x] = sum;
    shared[(kSumRows + threadIdx.y) * kWarp + threadIdx.x] = product;
    __syncthreads();
    if (threadIdx.y != 0 || column >= width)
        return;
    for (unsigned i = 1; i < kSumRows; ++i) {
        sum += shared[i * kWarp + threadIdx.x];
        product += shared[(kSumRows + i) * kWarp + threadIdx.x];
    }
    partial[static_cast<std::int64_t>(blockIdx.y) * width + column] = sum;
    if (x != nullptr)
        partial[static_cast<std::int64_t>(gridDim.y + blockIdx.y) * width + column] = product;
}

// sums[column] += partial[0][column] + partial[1][column] + …; a column a thread.
template <class T>
__global__ void add_partial_sums_kernel(int parts, int width, const float* partial, T* sums) {
    const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (column >= width)
        return;
    float sum = 0;
    for (int part = 0; part < parts; ++part)
        sum += partial[static_cast<std::int64_t>(part) * width + column];
    sums[column] = from_float<T>(to_float(sums[column]) + sum);
}

// gelu(x) = x * gate with gate = 1 / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3): the tanh
// form.
GPT_DEVICE float gelu_gate(float x) {
    return 1.0f / (1.0f + exponential_of(-1.5957691216057308f * (x + 0.044715f * x * x * x)));
}

// Elementwise: kCount elements a thread, what is left over by the last.
template <class T, int kCount>
__global__ void gelu_kernel(std::int64_t count, const T* x, T* y) {
    const std::int64_t i =
        (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kCount;
    const auto gelu_of = [](T value) {
        return from_float<T>(to_float(value) * gelu_gate(to_float(value)));
    };
    if (i + kCount <= count) {
        auto chunk = load_chunk<kCount>(x + i);
        for (int k = 0; k < kCount; ++k)
            chunk.values[k] = gelu_of(chunk.values[k]);
        store_chunk(y + i, chunk);
        return;
    }
    for (std::int64_t k = i; k < count; ++k)
        y[k] = gelu_of(x[k]);
}

template <class T, int kCount>
__global__ void gelu_backward_kernel(std::int64_t count, const T* x, const T* dy, T* dx) {
    const std::int64_t i =
        (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kCount;
    const auto gradient_of = [](T in, T upper) {
        const float value = to_float(in);
        const float gate = gelu_gate(value);
        const float slope = 1.5957691216057308f * (1.0f + 3 * 0.044715f * value * value);
        return from_float<T>(to_float(upper) * (gate + value * gate * (1.0f - gate) * slope));
    };
    if (i + kCount <= count) {
        const auto in = load_chunk<kCount>(x + i);
        auto chunk = load_chunk<kCount>(dy + i);
        for (int k = 0; k < kCount; ++k)
            chunk.values[k] = gradient_of(in.values[k], chunk.values[k]);
        store_chunk(dx + i, chunk);
        return;
    }
    for (std::int64_t k = i; k < count; ++k)
        dx[k] = gradient_of(x[k], dy[k]);
}

// x[row] = token_table[tokens[row]] + position_table[row % length]; a row a block.
template <class T>
__global__ void embedding_kernel(int length, int width, const std::uint8_t* tokens,
                                 const T* token_table, const T* position_table, T* x) {
    const std::int64_t row = blockIdx.x;
    const T* token = token_table + static_cast<std::int64_t>(tokens[row]) * width;
    const T* position = position_table + row % length * width;
    for (int j = static_cast<int>(threadIdx.x); j < width; j += static_cast<int>(blockDim.x))
        x[row * width + j] = from_float<T>(to_float(token[j]) + to_float(position[j]));
}

// A block has one token (blockIdx.x) and some columns, and adds up the rows that hold the token, in
// order: no two blocks write to one place.
inline constexpr int kEmbeddingThreads = 128;
template <class T>
__global__ void token_gradient_kernel(std::int64_t rows, int width, const std::uint8_t* tokens,
                                      const T* dx, T* dtoken_table) {
    auto* holders = reinterpret_cast<std::uint32_t*>(
        shared_memory());  // a bit a row, of kEmbeddingThreads rows
    constexpr int kWords = kEmbeddingThreads / kWarp;
    const int thread = static_cast<int>(threadIdx.x);
    const int column = static_cast<int>(blockIdx.y) * kEmbeddingThreads + thread;
    float sum = 0;
    bool found = false;
    for (std::int64_t base = 0; base < rows; base += kEmbeddingThreads) {
        const bool holds = base + thread < rows && tokens[base + thread] == blockIdx.x;
        const std::uint32_t word = __ballot_sync(kWholeWarp, holds);
        if (thread % kWarp == 0)
            holders[thread / kWarp] = word;
        __syncthreads();
        for (int w = 0; w < kWords; ++w) {
            for (std::uint32_t left = holders[w]; left != 0; left &= left - 1) {
                const std::int64_t row = base + w * kWarp + __ffs(static_cast<int>(left)) - 1;
                if (column < width)
                    sum += to_float(dx[row * width + column]);
                found = true;
            }
        }
        __syncthreads();
    }
    if (!found || column >= width)
        return;
    T* out = dtoken_table + static_cast<std::int64_t>(blockIdx.x) * width + column;
    *out = from_float<T>(to_float(*out) + sum);
}

// A position a block (blockIdx.x), a column a thread: sums over the sequences.
template <class T>
__global__ void position_gradient_kernel(std::int64_t sequences, int length, int width, const T* dx,
                                         T* dposition_table) {
    const int column = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
    if (column >= width)
        return;
    const std::int64_t place = static_cast<std::int64_t>(blockIdx.x) * width + column;
    float sum = 0;
    for (std::int64_t sequence = 0; sequence < sequences; ++sequence)
        sum += to_float(dx[sequence * length * width + place]);
    dposition_table[place] = from_float<T>(to_float(dposition_table[place]) + sum);
}

// The largest value of a row and the sum of exp(value - largest), as one thread or several have
// seen them.
struct SoftmaxSum {
    float largest;
    float sum;
};
GPT_DEVICE SoftmaxSum joined(SoftmaxSum a, SoftmaxSum b) {
    const float largest = a.largest > b.largest ? a.largest : b.largest;
    return {largest, a.sum * exponential_of(a.largest - largest) +
                         b.sum * exponential_of(b.largest - largest)};
}

// A row a block of kEntropyThreads: its loss, and its gradient in place of the logits.
inline constexpr int kEntropyThreads = 256;
inline constexpr float kLeastLogit = -3e38f;  // finite, so that two of them differ by 0
template <class T, int kCount>
__global__ void cross_entropy_kernel(int classes, const std::uint8_t* targets, float scale,
                                     T* logits, float* losses) {
    auto* shared = reinterpret_cast<SoftmaxSum*>(shared_memory());  // one a warp
    constexpr int kWarps = kEntropyThreads / kWarp;
    T* line = logits + static_cast<std::int64_t>(blockIdx.x) * classes;
    const int target = targets[blockIdx.x];
    const int first = static_cast<int>(threadIdx.x) * kCount;
    const float wanted = to_float(line[target]);
    SoftmaxSum seen{kLeastLogit, 0};
    for (int j = first; j < classes; j += kEntropyThreads * kCount) {
        const auto chunk = load_chunk<kCount>(line + j);
        float largest = seen.largest;
        for (int i = 0; i < kCount; ++i)
            largest = fmaxf(largest, to_float(chunk.values[i]));
        seen.sum *= exponential_of(seen.largest - largest);
        for (int i = 0; i < kCount; ++i)
            seen.sum += exponential_of(to_float(chunk.values[i]) - largest);
        seen.largest = largest;
    }
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
        seen = joined(seen, {__shfl_xor_sync(kWholeWarp, seen.largest, distance),
                             __shfl_xor_sync(kWholeWarp, seen.sum, distance)});
    }
    if (threadIdx.x % kWarp == 0)
        shared[threadIdx.x / kWarp] = seen;
    __syncthreads();  // every thread has read the target's logit, too: it may be overwritten from
                      // here on
    seen = shared[0];
    for (int i = 1; i < kWarps; ++i)
        seen = joined(seen, shared[i]);
    if (threadIdx.x == 0)
        losses[blockIdx.x] = seen.largest + logf(seen.sum) - wanted;
    const float inverse = 1.0f / seen.sum;
    for (int j = first; j < classes; j += kEntropyThreads * kCount) {
        auto chunk = load_chunk<kCount>(line + j);
        for (int i = 0; i < kCount; ++i) {
            const float chance = exponential_of(to_float(chunk.values[i]) - seen.largest) * inverse;
            chunk.values[i] = from_float<T>(scale * (chance - (j + i == target ? 1.0f : 0.0f)));
        }
        store_chunk(line + j, chunk);
    }
}

// to = from, or to += from.
template <class From, class To>
__global__ void convert_kernel(std::int64_t count, const From* from, To* to, bool adds) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    to[i] = from_float<To>((adds ? to_float(to[i]) : 0.0f) + to_float(from[i]));
}

}  // namespace gpt
