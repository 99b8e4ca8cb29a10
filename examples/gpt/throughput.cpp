#include "throughput.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

namespace gpt {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Square matrices.
template <class T>
class Product {
public:
    explicit Product(Math<T>& math) : math_(math), a_(math), b_(math), c_(math) {}
    void resize(std::int64_t extent) {
        extent_ = extent;
        for (auto* array : {&a_, &b_, &c_})
            math_.clear(array->resize(static_cast<std::size_t>(extent * extent)));
    }
    void multiply() {
        math_.linear(extent_, a_, b_, {}, c_);
        math_.wait();
    }
    double flops() const { return 2 * std::pow(static_cast<double>(extent_), 3); }

private:
    Math<T>& math_;
    DeviceArray<T> a_, b_, c_;
    std::int64_t extent_ = 0;
};

/// Leaves the product at the size that was fastest, and returns its operations a second.
template <class T>
double choose_size(Product<T>& product) {
    double best = 0;
    std::int64_t chosen = 0;
    // From small products, which are over before somebody else wants the CPU, to ones that take
    // their time.
    for (std::int64_t extent = 128; extent <= 8192; extent *= 2) {
        product.resize(extent);
        const auto first = Clock::now();
        double shortest = 1e9;
        for (int run = 0; run < 3 || seconds_since(first) < 0.015; ++run) {
            const auto start = Clock::now();
            product.multiply();
            shortest = std::min(shortest, seconds_since(start));
        }
        if (product.flops() / shortest > best) {
            best = product.flops() / shortest;
            chosen = extent;
        }
        if (shortest > 1e-3)
            break;
    }
    product.resize(chosen);
    return best;
}

}  // namespace

double flops_per_token(const ModelConfig& config) {
    const auto width = static_cast<double>(config.width);
    const auto layers = static_cast<double>(config.layers);
    const double multiplied =
        layers * 12 * width * width + width * static_cast<double>(config.vocabulary);
    return 6 * multiplied + 12 * layers * width * static_cast<double>(config.context);
}

template <class T>
Peak peak_flops(Math<T>& math) {
    if (math.data_sheet_flops() > 0)
        return {math.data_sheet_flops(), "data sheet"};
    Product<T> product(math);
    return {choose_size(product), "measured"};
}

// A time slice of the scheduler is a few ms: in a window of many, ranks that share a CPU have their
// parts of it.
template <class T>
Peak peak_flops(Math<T>& math, autolaunch::Communicator& world) {
    const double promised = math.data_sheet_flops();
    // Ranks may have different GPUs, and what follows is collective.
    if (!world.any_rank(promised == 0))
        return {world.all_reduce_value(promised), "data sheet"};
    constexpr int kWindows = 4;
    constexpr double kWindowSeconds = 0.03;
    Product<T> product(math);
    choose_size(product);
    double best = 0;
    for (int window = 0; window < kWindows; ++window) {
        world.barrier();
        const auto start = Clock::now();
        double done = 0;
        for (; seconds_since(start) < kWindowSeconds; done += product.flops())
            product.multiply();
        best = std::max(best, world.all_reduce_value(done / seconds_since(start)));
    }
    return {best, "measured"};
}

template Peak peak_flops(Math<float>&);
template Peak peak_flops(Math<autolaunch::bfloat16>&);
template Peak peak_flops(Math<float>&, autolaunch::Communicator&);
template Peak peak_flops(Math<autolaunch::bfloat16>&, autolaunch::Communicator&);

}  // namespace gpt
