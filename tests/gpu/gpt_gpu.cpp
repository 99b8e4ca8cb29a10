// The CUDA part of examples/gpt on a real GPU: every operation and a whole model against the CPU's
// layers in double, and the time of a GPT-2-sized pass. `gpt_gpu` checks, `gpt_gpu speed [json]`
// measures, for bench/gpu.
#include "gpt/cuda/cuda_module.hpp"
#include "gpt/throughput.hpp"
#include "no_gpu.hpp"
#include "unit/gpt_math_cases.hpp"

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>

using namespace gpt;
using namespace gpt::cases;

namespace {

int failures = 0;

template <class T>
struct Compare {
    Math<T>& math;
    double tolerance;

    template <class Operation>
    void operator()(const char* name, const Operation& operation) const {
        ThreadPool pool(1);
        CpuMath<double> precise(pool);
        const double error =
            worst_error(operation(math), operation(static_cast<Math<double>&>(precise)));
        const bool good = error < tolerance;
        if (!good)
            ++failures;
        std::printf("%s: %s, %zu bits: off by %.1e of %.1e\n", good ? "ok" : "FAILED", name,
                    8 * sizeof(T), error, tolerance);
    }
};

template <class T>
void check_math(Math<T>& math, double tolerance, double model_tolerance) {
    all_operations(Compare<T>{math, tolerance});
    const ModelConfig own = {.layers = 2, .heads = 2, .width = 32, .context = 12};
    const ModelConfig tied = {
        .layers = 1, .heads = 3, .width = 21, .context = 9, .vocabulary = 259, .tied_head = true};
    for (const auto& config : {own, tied}) {
        Compare<T>{math, model_tolerance}(
            "model", [&]<class M>(Math<M>& any) { return model_results(config, 2, any); });
    }
    const auto once = model_results(own, 2, math);
    const bool same = once == model_results(own, 2, math);
    if (!same)
        ++failures;
    std::printf("%s: twice the same bits, %zu bits\n", same ? "ok" : "FAILED", 8 * sizeof(T));
}

/// Tokens a second of forward and backward, without gathering and without an optimizer; the last
/// line is JSON where that is wanted.
void measure(Math<autolaunch::bfloat16>& math, bool as_json) {
    using clock = std::chrono::steady_clock;
    const ModelConfig config = {.layers = 12,
                                .heads = 12,
                                .width = 768,
                                .context = 1024,
                                .vocabulary = 50304,
                                .tied_head = true};
    Arrays<autolaunch::bfloat16> arrays(math);
    PlacedParameters<autolaunch::bfloat16> parameters(config, arrays);
    Model<autolaunch::bfloat16> model(config, math);
    const BatchShape shape{16, config.context};
    const auto tokens = random_bytes(shape.rows(), 1);
    const double peak = peak_flops(math).per_second;
    constexpr int kPasses = 10;
    double seconds = 0;
    for (int pass = -2; pass < kPasses; ++pass) {
        const auto start = clock::now();
        model.loss_and_gradients(parameters, shape, tokens, tokens, 1e-4f);
        math.wait();
        if (pass >= 0)
            seconds += std::chrono::duration<double>(clock::now() - start).count();
    }
    const double rate = kPasses * static_cast<double>(shape.rows()) / seconds;
    std::printf("%s: GPT-2 124M, bf16, 16 x 1024: %.0f tokens/s, %.1f%% of %.0f TFLOP/s, %.1f GB\n",
                math.name().c_str(), rate, 100 * rate * flops_per_token(config) / peak, peak / 1e12,
                static_cast<double>(math.allocated()) / 1e9);
    if (as_json)
        std::printf("{\"tokens\": %.9g}\n", rate);
}

}  // namespace

int main(int argc, char** argv) {
    if (!has_cuda_module()) {
        std::puts("skipped: this build has no CUDA part (nvcc and cuBLAS)");
        return 77;
    }
    skip_without_gpu();
    try {
        const auto compute = load_cuda(0);
        if (argc > 1 && std::string(argv[1]) == "speed") {
            measure(compute->bf16(), argc > 2 && std::string(argv[2]) == "json");
            return 0;
        }
        check_math<float>(compute->f32(), 2e-5, 1e-4);
        check_math<autolaunch::bfloat16>(compute->bf16(), 2e-2, 0.1);
    } catch (const std::exception& error) {
        std::printf("FAILED: %s\n", error.what());
        return 1;
    }
    return failures > 0;
}
