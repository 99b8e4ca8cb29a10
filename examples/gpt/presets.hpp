#pragma once
#include "parameters.hpp"

#include <cstdint>
#include <span>
#include <string_view>

namespace gpt {

/// A model's size and what suits it: the defaults of a configuration, by name. What a configuration
/// says itself counts.
struct Preset {
    std::string_view name;
    ModelConfig model;
    std::int64_t global_batch = 16;
    double lr = 4e-3;
    double beta2 = 0.99;
};

/// tiny:       136,960 parameters; seconds on one core.
/// small:      875,264; the default: a minute on two cores.
/// gpt2-124m:  124,475,904, as GPT-2's smallest (Radford et al., 2019): 12 layers, 12 heads, width
/// 768, context 1024,
///             head tied to the token table, and a vocabulary of 50257 padded to 50304, a multiple
///             of 128. The text is read as bytes all the same, so of the table 256 rows are used:
///             size and cost are GPT-2's, not its tokens. Learning rate and beta2 are GPT-3's for
///             this size (Brown et al., 2020, table 2.1 and appendix B). For a GPU.
std::span<const Preset> presets();
/// Null when there is none of that name.
const Preset* find_preset(std::string_view name);

}  // namespace gpt
