#pragma once
#include "model.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace gpt {

/// Continues `prompt` by `count` bytes drawn from the model's distribution, sharpened by 1/temperature; temperature 0
/// takes the likeliest byte. The prompt must not be empty. The same seed gives the same bytes.
std::vector<std::uint8_t> continue_text(Model<float>& model, ParameterSource<float>& parameters,
                                        std::span<const std::uint8_t> prompt, std::int64_t count, double temperature,
                                        std::uint64_t seed);

}  // namespace gpt
