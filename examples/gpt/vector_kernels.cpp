// Compiled several times with different -m options; GPT_INSTRUCTION_SET names the namespace. No
// standard header may come in here: the linker could keep this file's copy of an inline function
// for CPUs that cannot run it.
#include "vector_kernels.hpp"

#define GPT_TEXT_OF(name) #name
#define GPT_NAME(name) GPT_TEXT_OF(name)

namespace gpt::GPT_INSTRUCTION_SET {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
constexpr int kTileRows =
    14;  // 28 accumulators, 2 columns of b and a broadcast: 31 of 32 registers
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
constexpr int kTileRows = 6;  // 12 + 2 + 1 of 16 registers
#else
constexpr int kVectorBytes = 16;
constexpr int kTileRows = 6;
#endif

// Elements may lie anywhere: matrices are cut at any column.
typedef float FloatVector
    __attribute__((vector_size(kVectorBytes), aligned(sizeof(float)), may_alias));
typedef double DoubleVector
    __attribute__((vector_size(kVectorBytes), aligned(sizeof(double)), may_alias));
// For arrays of vectors: aligned as the CPU likes them.
typedef float FloatRegister __attribute__((vector_size(kVectorBytes)));
typedef double DoubleRegister __attribute__((vector_size(kVectorBytes)));
template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
    using Type = FloatVector;
    using Register = FloatRegister;
};
template <>
struct VectorOf<double> {
    using Type = DoubleVector;
    using Register = DoubleRegister;
};

template <class T>
void multiply_tile(std::int64_t depth, const T* a, const T* b, const T* start, T* c,
                   std::int64_t c_row_stride) {
    using Vector = typename VectorOf<T>::Type;
    constexpr int kLanes = kVectorBytes / sizeof(T);
    for (int i = 0; i < kTileRows; ++i) {  // they are far away, and wanted when the sums are ready
        __builtin_prefetch(c + i * c_row_stride, 1);
        __builtin_prefetch(c + i * c_row_stride + kLanes, 1);
    }
    Vector sum[kTileRows][2] = {};
#pragma GCC unroll 4
    for (std::int64_t k = 0; k < depth; ++k, a += kTileRows, b += 2 * kLanes) {
        const Vector left = *reinterpret_cast<const Vector*>(b);
        const Vector right = *reinterpret_cast<const Vector*>(b + kLanes);
#pragma GCC unroll 14
        for (int i = 0; i < kTileRows; ++i) {
            sum[i][0] += a[i] * left;
            sum[i][1] += a[i] * right;
        }
    }
    const std::int64_t start_row_stride = start ? 0 : c_row_stride;
    if (!start)
        start = c;
#pragma GCC unroll 14
    for (int i = 0; i < kTileRows; ++i, c += c_row_stride, start += start_row_stride) {
        *reinterpret_cast<Vector*>(c) = *reinterpret_cast<const Vector*>(start) + sum[i][0];
        *reinterpret_cast<Vector*>(c + kLanes) =
            *reinterpret_cast<const Vector*>(start + kLanes) + sum[i][1];
    }
}

/// a's and b's elements in turns: of their lower halves, or of their upper ones.
template <bool kUpper, class Vector>
inline Vector interleave(Vector a, Vector b) {
    constexpr int kLanes = sizeof(Vector) / sizeof(a[0]);
    constexpr int k = kUpper ? kLanes / 2 : 0;
    constexpr int o = k + kLanes;  // the other vector's
    if constexpr (kLanes == 16) {
        return __builtin_shufflevector(a, b, k, o, k + 1, o + 1, k + 2, o + 2, k + 3, o + 3, k + 4,
                                       o + 4, k + 5, o + 5, k + 6, o + 6, k + 7, o + 7);
    } else if constexpr (kLanes == 8) {
        return __builtin_shufflevector(a, b, k, o, k + 1, o + 1, k + 2, o + 2, k + 3, o + 3);
    } else if constexpr (kLanes == 4) {
        return __builtin_shufflevector(a, b, k, o, k + 1, o + 1);
    } else {
        return __builtin_shufflevector(a, b, k, o);
    }
}

/// As many rows as a vector has lanes: each step halves the distance between elements of one
/// column.
template <class T>
inline void transpose(typename VectorOf<T>::Register (&rows)[kVectorBytes / sizeof(T)]) {
    constexpr int kLanes = kVectorBytes / sizeof(T);
#pragma GCC unroll 4
    for (int step = 1; step < kLanes; step *= 2) {
        typename VectorOf<T>::Register next[kLanes];
#pragma GCC unroll 8
        for (int i = 0; i < kLanes / 2; ++i) {
            next[2 * i] = interleave<false>(rows[i], rows[i + kLanes / 2]);
            next[2 * i + 1] = interleave<true>(rows[i], rows[i + kLanes / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i)
            rows[i] = next[i];
    }
}

/// Rows lie side by side: each depth is a run of memory.
template <int kWidth, class T>
void pack_runs(std::int64_t strips, std::int64_t depth, const T* source, std::int64_t depth_stride,
               T* packed) {
    for (std::int64_t k = 0; k < depth; ++k)
        for (std::int64_t strip = 0; strip < strips; ++strip)
            __builtin_memcpy(packed + (strip * depth + k) * kWidth,
                             source + k * depth_stride + strip * kWidth, kWidth * sizeof(T));
}

/// One strip whose rows are runs of memory.
template <int kWidth, class T>
void pack_transposed(std::int64_t depth, const T* source, std::int64_t row_stride, T* packed) {
    using Vector = typename VectorOf<T>::Type;
    constexpr int kLanes = kVectorBytes / sizeof(T);
    constexpr int kVectors = (kWidth + kLanes - 1) / kLanes;
    constexpr int kAhead =
        2 * 64 / sizeof(T);  // so many runs are more than the CPU looks ahead in by itself
    std::int64_t k = 0;
    for (; k + kLanes <= depth; k += kLanes, packed += kLanes * kWidth) {
        typename VectorOf<T>::Register block[kVectors][kLanes] = {};
        for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 16
            for (int i = 0; i < kLanes; ++i) {
                if (v * kLanes + i >= kWidth)
                    break;
                const T* row = source + (v * kLanes + i) * row_stride + k;
                __builtin_prefetch(row + kAhead);
                block[v][i] = *reinterpret_cast<const Vector*>(row);
            }
            transpose<T>(block[v]);
        }
        // In this order: what a vector has beyond the width is overwritten by the next.
        for (int j = 0; j < kLanes; ++j)
            for (int v = 0; v < kVectors; ++v)
                *reinterpret_cast<Vector*>(packed + j * kWidth + v * kLanes) = block[v][j];
    }
    for (; k < depth; ++k, packed += kWidth)
        for (int i = 0; i < kWidth; ++i)
            packed[i] = source[i * row_stride + k];
}

template <int kWidth, class T>
void pack(std::int64_t strips, std::int64_t depth, const T* source, std::int64_t row_stride,
          std::int64_t depth_stride, T* packed) {
    if (row_stride == 1)
        return pack_runs<kWidth>(strips, depth, source, depth_stride, packed);
    for (std::int64_t strip = 0; strip < strips; ++strip)
        pack_transposed<kWidth>(depth, source + strip * kWidth * row_stride, row_stride,
                                packed + strip * depth * kWidth);
}

inline double exponential(double x) { return __builtin_exp(x); }

// exp(x) = 2^n exp(r) with n = round(x / ln 2), |r| <= ln 2 / 2, and exp(r) by its Taylor
// polynomial of degree 6: a relative error below 2e-7. Written without branches or calls, so that
// loops over it become vector code.
inline float exponential(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    constexpr float kRounder =
        12582912.0f;  // 1.5 * 2^23: adding it leaves round(value) in the low mantissa bits
    const float shifted = x * 1.44269504f + kRounder;
    const float n = shifted - kRounder;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float sum = 1.0f / 720;
    sum = sum * r + 1.0f / 120;
    sum = sum * r + 1.0f / 24;
    sum = sum * r + 1.0f / 6;
    sum = sum * r + 0.5f;
    sum = sum * r + 1.0f;
    sum = sum * r + 1.0f;
    const std::uint32_t exponent = (__builtin_bit_cast(std::uint32_t, shifted) + 127u) << 23;
    return sum * __builtin_bit_cast(float, exponent);
}

// gelu(x) = x/2 (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3), and (1 + tanh(u))/2 is the
// logistic of 2u.
template <class T>
constexpr T kGeluLinear = T(1.5957691216057308);  // 2 sqrt(2/pi)
template <class T>
constexpr T kGeluCubic = T(0.044715);

template <class T>
inline T gelu_gate(T x) {
    return T(1) / (T(1) + exponential(-kGeluLinear<T> * (x + kGeluCubic<T> * x * x * x)));
}

template <class T>
void gelu(std::int64_t count, const T* x, T* y) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i)
        y[i] = x[i] * gelu_gate(x[i]);
}

template <class T>
void gelu_backward(std::int64_t count, const T* x, const T* dy, T* dx) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
        const T gate = gelu_gate(x[i]);
        const T slope = kGeluLinear<T> * (T(1) + T(3) * kGeluCubic<T> * x[i] * x[i]);
        dx[i] = dy[i] * (gate + x[i] * gate * (T(1) - gate) * slope);
    }
}

template <class T>
T softmax(std::int64_t count, T scale, T* x) {
    T largest = x[0];
#pragma omp simd reduction(max : largest)
    for (std::int64_t i = 0; i < count; ++i)
        largest = x[i] > largest ? x[i] : largest;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < count; ++i) {
        x[i] = exponential(scale * (x[i] - largest));
        sum += x[i];
    }
    const T inverse = T(1) / sum;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i)
        x[i] *= inverse;
    return scale * largest + static_cast<T>(__builtin_log(static_cast<double>(sum)));
}

template <class T>
constexpr VectorKernels<T> kTable = {GPT_NAME(GPT_INSTRUCTION_SET),
                                     kTileRows,
                                     2 * kVectorBytes / int{sizeof(T)},
                                     multiply_tile<T>,
                                     pack<kTileRows, T>,
                                     pack<2 * kVectorBytes / int{sizeof(T)}, T>,
                                     gelu<T>,
                                     gelu_backward<T>,
                                     softmax<T>};

}  // namespace

extern const VectorKernels<float> kFloatKernels;
extern const VectorKernels<double> kDoubleKernels;
const VectorKernels<float> kFloatKernels = kTable<float>;
const VectorKernels<double> kDoubleKernels = kTable<double>;

}  // namespace gpt::GPT_INSTRUCTION_SET
