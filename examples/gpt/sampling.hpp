#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace gpt {

/// The logits of what follows a text; the first 256 are those of the bytes.
using NextLogits = std::function<std::vector<float>(std::span<const std::uint8_t> text)>;

/// Continues `prompt` by `count` bytes drawn from the model's distribution over bytes, sharpened by
/// 1/temperature; temperature 0 takes the likeliest byte. The prompt must not be empty; the model
/// sees the last `context` bytes. The same seed gives the same bytes.
std::vector<std::uint8_t> continue_text(const NextLogits& next, std::int64_t context,
                                        std::span<const std::uint8_t> prompt, std::int64_t count,
                                        double temperature, std::uint64_t seed);

}  // namespace gpt
