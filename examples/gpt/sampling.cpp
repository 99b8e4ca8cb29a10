#include "sampling.hpp"

#include "parameters.hpp"
#include "random.hpp"

#include <algorithm>
#include <cmath>

namespace gpt {
namespace {

std::uint8_t draw(std::span<const float> logits, double temperature, double chance) {
    const auto likeliest = std::max_element(logits.begin(), logits.end());
    if (temperature <= 0)
        return static_cast<std::uint8_t>(likeliest - logits.begin());
    std::vector<double> weights;
    double sum = 0;
    for (const float logit : logits)
        sum += weights.emplace_back(std::exp((logit - *likeliest) / temperature));
    double left = chance * sum;
    std::size_t byte = 0;
    while (byte + 1 < weights.size() && left >= weights[byte])
        left -= weights[byte++];
    return static_cast<std::uint8_t>(byte);
}

}  // namespace

std::vector<std::uint8_t> continue_text(const NextLogits& next, std::int64_t context,
                                        std::span<const std::uint8_t> prompt, std::int64_t count,
                                        double temperature, std::uint64_t seed) {
    std::vector<std::uint8_t> text(prompt.begin(), prompt.end());
    for (std::int64_t i = 0; i < count; ++i) {
        const auto length = std::min<std::size_t>(text.size(), static_cast<std::size_t>(context));
        const auto logits = next(std::span<const std::uint8_t>(text).last(length));
        const auto bytes = std::span<const float>(logits).first(static_cast<std::size_t>(kBytes));
        text.push_back(
            draw(bytes, temperature, uniform(random_bits({seed, static_cast<std::uint64_t>(i)}))));
    }
    text.erase(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(prompt.size()));
    return text;
}

}  // namespace gpt
