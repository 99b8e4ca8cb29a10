#include "binding/apportion.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace autolaunch::launcher {

std::vector<int> apportion(const std::vector<int>& weights, int seats) {
    const long long total = std::accumulate(weights.begin(), weights.end(), 0LL);
    if (weights.empty())
        return {};
    if (total == 0)
        return apportion(std::vector<int>(weights.size(), 1), seats);
    std::vector<int> shares;
    std::vector<long long> remainders;
    for (const int weight : weights) {
        const long long quota = static_cast<long long>(weight) * seats;
        shares.push_back(static_cast<int>(quota / total));
        remainders.push_back(quota % total);
    }
    std::vector<std::size_t> order(weights.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
    int left = seats - std::accumulate(shares.begin(), shares.end(), 0);
    for (const std::size_t party : order) {
        if (left-- <= 0)
            break;
        ++shares[party];
    }
    return shares;
}

}  // namespace autolaunch::launcher
