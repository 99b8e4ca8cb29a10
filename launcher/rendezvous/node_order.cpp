#include "rendezvous/node_order.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <unordered_map>

namespace autolaunch::launcher {

std::vector<int> order_nodes(const std::vector<std::string>& addresses) {
    // Every switch and node, by its whole path, gets a number when it is first seen; a node's place
    // is the numbers on its path.
    std::unordered_map<std::string_view, int> numbers;
    std::vector<std::vector<int>> places(addresses.size());
    int next = 0;
    for (std::size_t node = 0; node < addresses.size(); ++node) {
        const std::string_view address = addresses[node];
        for (std::size_t dot = address.find('.'); dot != std::string_view::npos;
             dot = address.find('.', dot + 1)) {
            const auto [found, is_new] = numbers.emplace(address.substr(0, dot), next);
            if (is_new)
                ++next;
            places[node].push_back(found->second);
        }
        places[node].push_back(next++);
    }
    std::vector<int> order(addresses.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) {
        return places[static_cast<std::size_t>(a)] < places[static_cast<std::size_t>(b)];
    });
    return order;
}

}  // namespace autolaunch::launcher
