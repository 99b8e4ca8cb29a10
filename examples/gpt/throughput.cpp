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
    constexpr std::int64_t kExtent = 512;
    constexpr auto kCount = static_cast<std::size_t>(kExtent * kExtent);
    DeviceArray<T> a(math), b(math), c(math);
    for (auto* array : {&a, &b, &c}) math.clear(array->resize(kCount));
    double best = 0;
    const auto end = clock::now() + std::chrono::milliseconds(50);
    do {
        const auto start = clock::now();
        math.linear(kExtent, a, b, {}, c);
        math.wait();
        const double seconds = std::chrono::duration<double>(clock::now() - start).count();
        best = std::max(best, 2.0 * kExtent * kExtent * kExtent / seconds);
    } while (clock::now() < end);
    return {best, "measured"};
}

template Peak peak_flops(Math<float>&);
template Peak peak_flops(Math<autolaunch::bfloat16>&);

}  // namespace gpt
