#include "vector_kernels.hpp"

namespace gpt {

// One namespace per build of vector_kernels.cpp.
#define GPT_DECLARE_KERNELS(instruction_set)           \
    namespace instruction_set {                        \
    extern const VectorKernels<float> kFloatKernels;   \
    extern const VectorKernels<double> kDoubleKernels; \
    }
GPT_DECLARE_KERNELS(baseline)
#if defined(GPT_HAVE_X86_KERNELS)
GPT_DECLARE_KERNELS(avx2)
GPT_DECLARE_KERNELS(avx512)
#endif
#undef GPT_DECLARE_KERNELS

namespace {

template <class T>
struct Usable {
    const VectorKernels<T>* tables[4] = {};
    int count = 0;
    void add_if(bool usable, const VectorKernels<T>& table) {
        if (usable)
            tables[count++] = &table;
    }
};

#if defined(GPT_HAVE_X86_KERNELS)
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() { return has_avx2() && __builtin_cpu_supports("avx512f"); }
#endif

}  // namespace

template <>
const VectorKernels<float>* const* usable_vector_kernels<float>() {
    static const Usable<float> usable = [] {
        Usable<float> found;
#if defined(GPT_HAVE_X86_KERNELS)
        found.add_if(has_avx512(), avx512::kFloatKernels);
        found.add_if(has_avx2(), avx2::kFloatKernels);
#endif
        found.add_if(true, baseline::kFloatKernels);
        return found;
    }();
    return usable.tables;
}

template <>
const VectorKernels<double>* const* usable_vector_kernels<double>() {
    static const Usable<double> usable = [] {
        Usable<double> found;
#if defined(GPT_HAVE_X86_KERNELS)
        found.add_if(has_avx512(), avx512::kDoubleKernels);
        found.add_if(has_avx2(), avx2::kDoubleKernels);
#endif
        found.add_if(true, baseline::kDoubleKernels);
        return found;
    }();
    return usable.tables;
}

}  // namespace gpt
