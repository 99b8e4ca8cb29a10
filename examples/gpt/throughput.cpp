#include "throughput.hpp"

#include <algorithm>
#include <chrono>

namespace gpt {

double flops_per_token(const ModelConfig& config) {
    const auto width = static_cast<double>(config.width);
    const auto layers = static_cast<double>(config.layers);
    const double multiplied = layers * 12 * width * width + width * static_cast<double>(config.vocabulary);
    return 6 * multiplied + 12 * layers * width * static_cast<double>(config.context);
}

template <class T>
Peak peak_flops(Math<T>& math) {
    if (math.data_sheet_flops() > 0) return {math.data_sheet_flops(), "data sheet"};
    using clock = std::chrono::steady_clock;
    using milliseconds = std::chrono::duration<double, std::milli>;
    DeviceArray<T> a(math), b(math), c(math);
    double best = 0;
    // From small products, which are over before somebody else wants the CPU, to ones that take their time.
    for (std::int64_t extent = 128; extent <= 8192; extent *= 2) {
        for (auto* array : {&a, &b, &c}) math.clear(array->resize(static_cast<std::size_t>(extent * extent)));
        const auto first = clock::now();
        double shortest = 1e9;
        for (int run = 0; run < 3 || milliseconds(clock::now() - first).count() < 15; ++run) {
            const auto start = clock::now();
            math.linear(extent, a, b, {}, c);
            math.wait();
            shortest = std::min(shortest, milliseconds(clock::now() - start).count());
        }
        const auto each = static_cast<double>(extent);
        best = std::max(best, 2 * each * each * each / (shortest / 1e3));
        if (shortest > 1) break;
    }
    return {best, "measured"};
}

template Peak peak_flops(Math<float>&);
template Peak peak_flops(Math<autolaunch::bfloat16>&);

}  // namespace gpt
