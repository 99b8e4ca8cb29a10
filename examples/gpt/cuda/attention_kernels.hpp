#pragma once
// Causal attention without a table of all scores: tiles of queries and keys meet in shared memory,
// and the softmax is carried along (Dao et al., "FlashAttention", 2022, and Dao,
// "FlashAttention-2", 2023, whose split of the work over warps this follows). Backward makes the
// scores again from the rows' logarithmic sums; it has one kernel for keys and values and one for
// queries, so nothing is added atomically and the same input gives the same bits.
//
// A block has kAttentionWarps warps of 16 rows each. A warp holds a tile of 16 x N as mma.m16n8k16
// leaves it (see multiply_tile_bf16): c[n / 8][4] a lane. bf16 is multiplied by tensor cores, f32
// by ordinary arithmetic in the same places.
#include "gpt/cuda/device_language.hpp"

#include <cstddef>

namespace gpt {

inline constexpr int kAttentionWarps = 4;
inline constexpr int kAttentionThreads = kAttentionWarps * kWarp;
inline constexpr int kTile = kAttentionWarps * 16;  ///< rows of queries, or of keys and values

/// Rows in shared memory are 16 bytes longer than what they hold, so that neighbours lie in
/// different banks.
template <class T, int kColumns>
inline constexpr int kPadded = kColumns + kWideCount<T>;
/// Bytes of shared memory for so many tiles of rows x head width, one of scores, and `statistics`
/// numbers a row.
template <class T>
constexpr std::size_t attention_shared_bytes(int tiles, int head_width, int statistics) {
    return static_cast<std::size_t>(kTile) *
           (static_cast<std::size_t>(tiles * (head_width + kWideCount<T>)+kPadded<T, kTile>) *
                sizeof(T) +
            static_cast<std::size_t>(statistics) * sizeof(float));
}

/// Where one head of one sequence lies: rows[length], `stride` elements apart, of which head_width
/// are this head's.
template <class T>
struct HeadRows {
    T* first;
    std::int64_t stride;
    int length;
    int head_width;
};

/// Copies rows [first_row, first_row + kTile) to shared memory; zero beyond the sequence and the
/// head.
template <int kWidth, class T>
GPT_DEVICE void load_tile(const HeadRows<const T>& rows, int first_row, T* tile) {
    constexpr int kCount = kWideCount<T>;
    const bool wide = rows.head_width % kCount == 0;
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kWidth / kCount;
         i += kAttentionThreads) {
        const int row = i / (kWidth / kCount);
        const int column = i % (kWidth / kCount) * kCount;
        Chunk<T, kCount> chunk;
        const T* from = rows.first + (first_row + row) * rows.stride + column;
        const bool inside = first_row + row < rows.length;
        if (inside && wide && column < rows.head_width) {
            chunk = load_chunk<kCount>(from);
        } else {
            for (int k = 0; k < kCount; ++k)
                chunk.values[k] =
                    inside && column + k < rows.head_width ? from[k] : from_float<T>(0);
        }
        store_chunk(tile + row * kPadded<T, kWidth> + column, chunk);
    }
}

/// Where a lane's part of a warp's tile lies: rows group and group + 8, columns pair and pair + 1
/// of each 8.
struct LanePlace {
    int warp, group, pair;
};
GPT_DEVICE LanePlace lane_place() {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    return {static_cast<int>(threadIdx.x) / kWarp, lane / 4, lane % 4 * 2};
}
GPT_DEVICE int row_of(const LanePlace& place, int i) { return place.group + (i >= 2 ? 8 : 0); }
GPT_DEVICE int column_of(const LanePlace& place, int n8, int i) {
    return n8 * 8 + place.pair + (i & 1);
}

GPT_DEVICE std::uint32_t two(const autolaunch::bfloat16* low, const autolaunch::bfloat16* high) {
    return static_cast<std::uint32_t>(low->bits) | static_cast<std::uint32_t>(high->bits) << 16;
}
GPT_DEVICE std::uint32_t two_neighbours(const autolaunch::bfloat16* low) {
    return *reinterpret_cast<const std::uint32_t*>(low);
}

/// How b lies: b[n][k], or b[k][n].
enum class Order { columns, rows };

/// c[16][kN] += a[16][kDepth] b, by one warp; a and b lie in shared memory.
template <int kN, int kDepth, Order kOrder>
GPT_DEVICE void multiply_warp(float (&c)[kN / 8][4], const autolaunch::bfloat16* a, int a_stride,
                              const autolaunch::bfloat16* b, int b_stride) {
    const LanePlace place = lane_place();
    GPT_UNROLL
    for (int k = 0; k < kDepth; k += 16) {
        const auto* left = a + place.group * a_stride + k + place.pair;
        const std::uint32_t parts[4] = {two_neighbours(left), two_neighbours(left + 8 * a_stride),
                                        two_neighbours(left + 8),
                                        two_neighbours(left + 8 * a_stride + 8)};
        GPT_UNROLL
        for (int n8 = 0; n8 < kN / 8; ++n8) {
            if constexpr (kOrder == Order::columns) {
                const auto* right = b + (n8 * 8 + place.group) * b_stride + k + place.pair;
                const std::uint32_t others[2] = {two_neighbours(right), two_neighbours(right + 8)};
                multiply_tile_bf16(c[n8], parts, others);
            } else {
                const auto* right = b + (k + place.pair) * b_stride + n8 * 8 + place.group;
                const std::uint32_t others[2] = {two(right, right + b_stride),
                                                 two(right + 8 * b_stride, right + 9 * b_stride)};
                multiply_tile_bf16(c[n8], parts, others);
            }
        }
    }
}
template <int kN, int kDepth, Order kOrder>
GPT_DEVICE void multiply_warp(float (&c)[kN / 8][4], const float* a, int a_stride, const float* b,
                              int b_stride) {
    const LanePlace place = lane_place();
    const float* upper = a + place.group * a_stride;
    const float* lower = upper + 8 * a_stride;
    for (int k = 0; k < kDepth; ++k) {
        const float left[2] = {upper[k], lower[k]};
        GPT_UNROLL
        for (int n8 = 0; n8 < kN / 8; ++n8) {
            const int column = n8 * 8 + place.pair;
            const bool columns = kOrder == Order::columns;
            const float right[2] = {
                columns ? b[column * b_stride + k] : b[k * b_stride + column],
                columns ? b[(column + 1) * b_stride + k] : b[k * b_stride + column + 1]};
            GPT_UNROLL
            for (int i = 0; i < 4; ++i)
                c[n8][i] += left[i / 2] * right[i % 2];
        }
    }
}

/// Writes a warp's tile to its rows of a tile in shared memory, for the warp to multiply with.
template <int kN, class T>
GPT_DEVICE void store_warp_tile(const float (&c)[kN / 8][4], T* tile) {
    const LanePlace place = lane_place();
    __syncwarp();  // no lane reads what was there any more
    GPT_UNROLL
    for (int n8 = 0; n8 < kN / 8; ++n8) {
        GPT_UNROLL
        for (int i = 0; i < 4; ++i)
            tile[row_of(place, i) * kPadded<T, kN> + column_of(place, n8, i)] =
                from_float<T>(c[n8][i]);
    }
    __syncwarp();
}

/// Writes a warp's 16 rows, times a factor for the upper and one for the lower 8, to global memory.
template <int kWidth, class T>
GPT_DEVICE void store_rows(const float (&c)[kWidth / 8][4], const float (&factors)[2],
                           int first_row, const HeadRows<T>& rows) {
    const LanePlace place = lane_place();
    GPT_UNROLL
    for (int n8 = 0; n8 < kWidth / 8; ++n8) {
        GPT_UNROLL
        for (int i = 0; i < 4; ++i) {
            const int row = first_row + row_of(place, i);
            const int column = column_of(place, n8, i);
            if (row < rows.length && column < rows.head_width)
                rows.first[row * rows.stride + column] = from_float<T>(c[n8][i] * factors[i / 2]);
        }
    }
}

/// The largest, and the sum, of a value over the four lanes that share a row.
GPT_DEVICE float row_largest(float value) {
    value = fmaxf(value, __shfl_xor_sync(kWholeWarp, value, 1));
    return fmaxf(value, __shfl_xor_sync(kWholeWarp, value, 2));
}
GPT_DEVICE float row_sum(float value) {
    value += __shfl_xor_sync(kWholeWarp, value, 1);
    return value + __shfl_xor_sync(kWholeWarp, value, 2);
}

/// What all three kernels are given. qkv[rows][3 * width] as in layers.hpp.
struct AttentionShape {
    int length;
    int heads;
    int head_width;
    float scale;  ///< of scores
};
/// Queries (0), keys (1) or values (2) of this block's head and sequence (blockIdx.y and .z), in
/// qkv or its gradient.
template <class T>
GPT_DEVICE HeadRows<T> part_of(const AttentionShape& shape, T* qkv, int which) {
    const std::int64_t width = static_cast<std::int64_t>(shape.heads) * shape.head_width;
    T* first = qkv + static_cast<std::int64_t>(blockIdx.z) * shape.length * 3 * width +
               which * width + static_cast<std::int64_t>(blockIdx.y) * shape.head_width;
    return {first, 3 * width, shape.length, shape.head_width};
}
/// The same rows of y[rows][width] or its gradient.
template <class T>
GPT_DEVICE HeadRows<T> output_of(const AttentionShape& shape, T* y) {
    const std::int64_t width = static_cast<std::int64_t>(shape.heads) * shape.head_width;
    T* first = y + static_cast<std::int64_t>(blockIdx.z) * shape.length * width +
               static_cast<std::int64_t>(blockIdx.y) * shape.head_width;
    return {first, width, shape.length, shape.head_width};
}
/// The same rows of an array with a number for each sequence, head and position.
template <class E>
GPT_DEVICE E* statistics_of(const AttentionShape& shape, E* all) {
    return all + (static_cast<std::int64_t>(blockIdx.z) * shape.heads + blockIdx.y) * shape.length;
}

inline constexpr float kMasked = -3e38f;  // finite, so that two of them differ by 0

// One tile of queries against the keys up to its last one; the longest tiles come first. kWidth:
// the head's, rounded up to 64 or 128.
template <class T, int kWidth>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_kernel(AttentionShape shape, const T* qkv, float* log_sums, T* y) {
    constexpr int kStride = kPadded<T, kWidth>;
    T* queries = reinterpret_cast<T*>(shared_memory());
    T* keys = queries + kTile * kStride;
    T* values = keys + kTile * kStride;
    const LanePlace place = lane_place();
    T* weights =
        values + kTile * kStride + place.warp * 16 * kPadded<T, kTile>;  // the warp's own rows
    const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kTile;
    const int first_row = first_query + place.warp * 16;
    load_tile<kWidth>(part_of(shape, qkv, 0), first_query, queries);
    float out[kWidth / 8][4] = {};
    float largest[2] = {kMasked, kMasked};
    float sums[2] = {0, 0};
    for (int first_key = 0; first_key <= first_query; first_key += kTile) {
        __syncthreads();  // no warp uses the tiles before any more
        load_tile<kWidth>(part_of(shape, qkv, 1), first_key, keys);
        load_tile<kWidth>(part_of(shape, qkv, 2), first_key, values);
        __syncthreads();
        float scores[kTile / 8][4] = {};
        multiply_warp<kTile, kWidth, Order::columns>(scores, queries + place.warp * 16 * kStride,
                                                     kStride, keys, kStride);
        float top[2] = {largest[0], largest[1]};
        GPT_UNROLL
        for (int n8 = 0; n8 < kTile / 8; ++n8) {
            GPT_UNROLL
            for (int i = 0; i < 4; ++i) {
                const bool seen =
                    first_key + column_of(place, n8, i) <= first_row + row_of(place, i);
                scores[n8][i] = seen ? scores[n8][i] * shape.scale : kMasked;
                top[i / 2] = fmaxf(top[i / 2], scores[n8][i]);
            }
        }
        float factors[2];
        for (int half = 0; half < 2; ++half) {
            top[half] = row_largest(top[half]);
            factors[half] = exponential_of(largest[half] - top[half]);
            largest[half] = top[half];
            sums[half] *= factors[half];
        }
        GPT_UNROLL
        for (int n8 = 0; n8 < kTile / 8; ++n8) {
            GPT_UNROLL
            for (int i = 0; i < 4; ++i) {
                scores[n8][i] = exponential_of(scores[n8][i] - top[i / 2]);
                sums[i / 2] += scores[n8][i];
            }
        }
        store_warp_tile<kTile>(scores, weights);
        GPT_UNROLL
        for (int n8 = 0; n8 < kWidth / 8; ++n8) {
            GPT_UNROLL
            for (int i = 0; i < 4; ++i)
                out[n8][i] *= factors[i / 2];
        }
        multiply_warp<kWidth, kTile, Order::rows>(out, weights, kPadded<T, kTile>, values, kStride);
    }
    for (int half = 0; half < 2; ++half) {
        sums[half] = row_sum(sums[half]);
        const int row = first_row + place.group + 8 * half;
        if (place.pair == 0 && row < shape.length)
            statistics_of(shape, log_sums)[row] = largest[half] + logf(sums[half]);
    }
    store_rows<kWidth>(out, {1.0f / sums[0], 1.0f / sums[1]}, first_row, output_of(shape, y));
}

// sum over a head of y * dy, a warp for each row and head: what softmax's backward subtracts.
template <class T>
__global__ void attention_delta_kernel(AttentionShape shape, std::int64_t rows, const T* y,
                                       const T* dy, float* delta) {
    const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
    if (index >= rows * shape.heads)
        return;
    const std::int64_t row = index / shape.heads;
    const std::int64_t head = index % shape.heads;
    const std::int64_t start = index * shape.head_width;
    float sum = 0;
    for (int j = static_cast<int>(threadIdx.x); j < shape.head_width; j += kWarp)
        sum += to_float(y[start + j]) * to_float(dy[start + j]);
    sum = warp_sum(sum);
    if (threadIdx.x == 0)
        delta[(row / shape.length * shape.heads + head) * shape.length + row % shape.length] = sum;
}

// Gradients of one tile of keys and values, a warp for 16 of them, from the queries that see them.
template <class T, int kWidth>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_key_gradient_kernel(AttentionShape shape, const T* qkv, const T* dy,
                                  const float* log_sums, const float* delta, T* dqkv) {
    constexpr int kStride = kPadded<T, kWidth>;
    T* keys = reinterpret_cast<T*>(shared_memory());
    T* values = keys + kTile * kStride;
    T* queries = values + kTile * kStride;
    T* uppers = queries + kTile * kStride;  // dy
    const LanePlace place = lane_place();
    T* all_weights = uppers + kTile * kStride;
    T* weights = all_weights + place.warp * 16 * kPadded<T, kTile>;
    auto* log_sum = reinterpret_cast<float*>(all_weights + kTile * kPadded<T, kTile>);
    float* subtracted = log_sum + kTile;
    const int first_key = static_cast<int>(blockIdx.x) * kTile;
    const int first_row = first_key + place.warp * 16;
    load_tile<kWidth>(part_of(shape, qkv, 1), first_key, keys);
    load_tile<kWidth>(part_of(shape, qkv, 2), first_key, values);
    float dkeys[kWidth / 8][4] = {};
    float dvalues[kWidth / 8][4] = {};
    for (int first_query = first_key; first_query < shape.length; first_query += kTile) {
        __syncthreads();
        load_tile<kWidth>(part_of(shape, qkv, 0), first_query, queries);
        load_tile<kWidth>(output_of(shape, dy), first_query, uppers);
        for (int i = static_cast<int>(threadIdx.x); i < kTile; i += kAttentionThreads) {
            const bool inside = first_query + i < shape.length;
            log_sum[i] = inside ? statistics_of(shape, log_sums)[first_query + i] : 0.0f;
            subtracted[i] = inside ? statistics_of(shape, delta)[first_query + i] : 0.0f;
        }
        __syncthreads();
        float scores[kTile / 8][4] = {};  // of 16 keys (rows) with the queries (columns)
        multiply_warp<kTile, kWidth, Order::columns>(scores, keys + place.warp * 16 * kStride,
                                                     kStride, queries, kStride);
        GPT_UNROLL
        for (int n8 = 0; n8 < kTile / 8; ++n8) {
            GPT_UNROLL
            for (int i = 0; i < 4; ++i) {
                const int query = first_query + column_of(place, n8, i);
                const bool seen = first_row + row_of(place, i) <= query && query < shape.length;
                const float exponent =
                    scores[n8][i] * shape.scale - log_sum[column_of(place, n8, i)];
                scores[n8][i] = seen ? exponential_of(exponent) : 0.0f;
            }
        }
        store_warp_tile<kTile>(scores, weights);
        multiply_warp<kWidth, kTile, Order::rows>(dvalues, weights, kPadded<T, kTile>, uppers,
                                                  kStride);
        float dweights[kTile / 8][4] = {};
        multiply_warp<kTile, kWidth, Order::columns>(dweights, values + place.warp * 16 * kStride,
                                                     kStride, uppers, kStride);
        GPT_UNROLL
        for (int n8 = 0; n8 < kTile / 8; ++n8) {
            GPT_UNROLL
            for (int i = 0; i < 4; ++i)
                scores[n8][i] *=
                    (dweights[n8][i] - subtracted[column_of(place, n8, i)]) * shape.scale;
        }
        store_warp_tile<kTile>(scores, weights);
        multiply_warp<kWidth, kTile, Order::rows>(dkeys, weights, kPadded<T, kTile>, queries,
                                                  kStride);
    }
    store_rows<kWidth>(dkeys, {1.0f, 1.0f}, first_row, part_of(shape, dqkv, 1));
    store_rows<kWidth>(dvalues, {1.0f, 1.0f}, first_row, part_of(shape, dqkv, 2));
}

// Gradients of one tile of queries, a warp for 16 of them.
template <class T, int kWidth>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_query_gradient_kernel(AttentionShape shape, const T* qkv, const T* dy,
                                    const float* log_sums, const float* delta, T* dqkv) {
    constexpr int kStride = kPadded<T, kWidth>;
    T* queries = reinterpret_cast<T*>(shared_memory());
    T* uppers = queries + kTile * kStride;
    T* keys = uppers + kTile * kStride;
    T* values = keys + kTile * kStride;
    const LanePlace place = lane_place();
    T* weights = values + kTile * kStride + place.warp * 16 * kPadded<T, kTile>;
    const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kTile;
    const int first_row = first_query + place.warp * 16;
    load_tile<kWidth>(part_of(shape, qkv, 0), first_query, queries);
    load_tile<kWidth>(output_of(shape, dy), first_query, uppers);
    float log_sum[2];
    float subtracted[2];
    for (int half = 0; half < 2; ++half) {
        const int row = first_row + place.group + 8 * half;
        log_sum[half] = row < shape.length ? statistics_of(shape, log_sums)[row] : 0.0f;
        subtracted[half] = row < shape.length ? statistics_of(shape, delta)[row] : 0.0f;
    }
    float dqueries[kWidth / 8][4] = {};
    for (int first_key = 0; first_key <= first_query; first_key += kTile) {
        __syncthreads();
        load_tile<kWidth>(part_of(shape, qkv, 1), first_key, keys);
        load_tile<kWidth>(part_of(shape, qkv, 2), first_key, values);
        __syncthreads();
        float scores[kTile / 8][4] = {};
        float dweights[kTile / 8][4] = {};
        multiply_warp<kTile, kWidth, Order::columns>(scores, queries + place.warp * 16 * kStride,
                                                     kStride, keys, kStride);
        multiply_warp<kTile, kWidth, Order::columns>(dweights, uppers + place.warp * 16 * kStride,
                                                     kStride, values, kStride);
        GPT_UNROLL
        for (int n8 = 0; n8 < kTile / 8; ++n8) {
            GPT_UNROLL
            for (int i = 0; i < 4; ++i) {
                const int row = first_row + row_of(place, i);
                const bool seen = first_key + column_of(place, n8, i) <= row && row < shape.length;
                const float weight = exponential_of(scores[n8][i] * shape.scale - log_sum[i / 2]);
                scores[n8][i] =
                    seen ? weight * (dweights[n8][i] - subtracted[i / 2]) * shape.scale : 0.0f;
            }
        }
        store_warp_tile<kTile>(scores, weights);
        multiply_warp<kWidth, kTile, Order::rows>(dqueries, weights, kPadded<T, kTile>, keys,
                                                  kStride);
    }
    store_rows<kWidth>(dqueries, {1.0f, 1.0f}, first_row, part_of(shape, dqkv, 0));
}

}  // namespace gpt
