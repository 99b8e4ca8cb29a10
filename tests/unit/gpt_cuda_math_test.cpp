// The CUDA kernels of examples/gpt, run on the CPU by emulated_grid.hpp, against the CPU's layers
// in double: every operation alone, and a whole model's loss and gradients.
#include "emulated_gpu.hpp"
#include "gpt/cuda/data_sheets.hpp"
#include "gpt_math_cases.hpp"
#include "sanitized.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace gpt_cuda_math_test {

using namespace gpt;
using namespace gpt::cases;
using autolaunch::bfloat16;
using emulated::Turns;

namespace {

template <class T>
constexpr double kTolerance = 1e-5;
template <>
constexpr double kTolerance<bfloat16> = 1.5e-2;  // 8 bits, a few roundings

/// Runs an operation on the emulated GPU with threads in every order, which must give the same
/// bits, and on the CPU in double.
template <class T>
struct Compare {
    std::vector<Turns> orders = autolaunch::kSanitized
                                    ? std::vector{Turns::shuffled}
                                    : std::vector{Turns::forward, Turns::backward, Turns::shuffled};

    template <class Operation>
    void operator()(const char* name, const Operation& operation) const {
        CAPTURE(name);
        CAPTURE(sizeof(T));
        ThreadPool pool(1);
        CpuMath<double> precise(pool);
        const Results expected = operation(static_cast<Math<double>&>(precise));
        Results first;
        for (const Turns turns : orders) {
            EmulatedGpu gpu(turns);
            DeviceMath<T, EmulatedGpu> math(gpu);
            const Results got = operation(static_cast<Math<T>&>(math));
            CHECK(worst_error(got, expected) < kTolerance<T>);
            if (first.empty())
                first = got;
            CHECK(got == first);
        }
    }
};

}  // namespace

TEST_CASE_TEMPLATE("every operation, in any order of threads and blocks", T, float, bfloat16) {
    const Compare<T> compare;
    SUBCASE("linear") { linear_cases(compare); }
    SUBCASE("layer norm") { layer_norm_cases(compare); }
    SUBCASE("elementwise") { elementwise_cases(compare); }
    SUBCASE("attention") { attention_cases(compare); }
    SUBCASE("embedding") { embedding_cases(compare); }
    SUBCASE("cross entropy") { cross_entropy_cases(compare); }
}

TEST_CASE("a GPU's data sheet is its own") {
    CHECK(data_sheet_of("NVIDIA H100 80GB HBM3").bf16_flops == 989.4e12);
    CHECK(data_sheet_of("NVIDIA H100 NVL").bf16_flops == 835.5e12);
    CHECK(data_sheet_of("NVIDIA H200").f32_flops == 66.9e12);
    CHECK(data_sheet_of("NVIDIA H200 NVL").bf16_flops == 835.5e12);
    CHECK(data_sheet_of("NVIDIA A100-SXM4-80GB").bf16_flops == 312e12);
    CHECK(data_sheet_of("NVIDIA L40S").bf16_flops == 362e12);
    CHECK(data_sheet_of("NVIDIA L40").bf16_flops == 181e12);
    CHECK(data_sheet_of("NVIDIA L4").bf16_flops == 121e12);
    for (const char* none :
         {"NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA L40G", "NVIDIA GeForce RTX 4090", ""})
        CHECK(data_sheet_of(none).bf16_flops == 0);
}

TEST_CASE("attention refuses heads that are too wide") {
    EmulatedGpu gpu;
    DeviceMath<float, EmulatedGpu> math(gpu);
    std::vector<float> qkv(3 * 129), y(129), state(1);
    CHECK_THROWS_WITH_AS(math.attention({1, 1}, 1, qkv, state, y), doctest::Contains("129"),
                         std::invalid_argument);
}

TEST_CASE("the whole model: loss and every gradient, with a head of its own and a tied one") {
    ModelConfig config = {.layers = 2, .heads = 2, .width = 32, .context = 12};
    SUBCASE("a head of its own") {}
    SUBCASE("tied, a larger vocabulary, an odd width") {
        config = {.layers = 1,
                  .heads = 3,
                  .width = 21,
                  .context = 9,
                  .vocabulary = 259,
                  .tied_head = true};
    }
    const Compare<float> compare{{Turns::shuffled}};
    compare("model", [&]<class M>(Math<M>& math) { return model_results(config, 2, math); });
}

TEST_CASE(
    "the whole model in bf16 is near the one in double, with a head of its own and a tied one") {
    ModelConfig config = {.layers = 2, .heads = 2, .width = 32, .context = 12};
    SUBCASE("a head of its own") {}
    SUBCASE("tied, a larger vocabulary, an odd width") {
        config = {.layers = 1,
                  .heads = 3,
                  .width = 21,
                  .context = 9,
                  .vocabulary = 259,
                  .tied_head = true};
    }
    ThreadPool pool(1);
    CpuMath<double> precise(pool);
    const auto expected = model_results(config, 2, static_cast<Math<double>&>(precise));
    EmulatedGpu gpu;
    DeviceMath<bfloat16, EmulatedGpu> math(gpu);
    const auto got = model_results(config, 2, static_cast<Math<bfloat16>&>(math));
    CHECK(got[0][0] == doctest::Approx(expected[0][0]).epsilon(0.01));
    CHECK(worst_error(got, expected) < 0.08);
}

namespace {

__global__ void one_thread_does_not_come(float*) {
    if (threadIdx.x != 3)
        __syncthreads();
}

/// Reads a neighbour's value without the barrier that it needs.
__global__ void reads_too_early(float* out) {
    auto* shared = reinterpret_cast<float*>(shared_memory());
    shared[threadIdx.x] = static_cast<float>(threadIdx.x);
    out[threadIdx.x] = shared[(threadIdx.x + 1) % 32];
}

}  // namespace

TEST_CASE("the emulation shows what a GPU would not: unequal barriers, and one that is missing") {
    EmulatedGpu gpu;
    std::vector<float> out(32);
    CHECK_THROWS_WITH(gpu.launch(one_thread_does_not_come, {{1}, {32}}, out.data()),
                      doctest::Contains("different barriers"));
    gpu.launch(reads_too_early, {{1}, {32}, 128}, out.data());
    CHECK(std::isnan(out[0]));
    EmulatedGpu backward(Turns::backward);
    backward.launch(reads_too_early, {{1}, {32}, 128}, out.data());
    CHECK(out[0] == 1);
    CHECK(std::isnan(out[31]));
}

}  // namespace gpt_cuda_math_test
