#include "presets.hpp"

namespace gpt {

std::span<const Preset> presets() {
    static const Preset all[] = {
        {"tiny", {.layers = 2, .heads = 2, .width = 64, .context = 64}, 8, 4e-3, 0.99},
        {"small", {.layers = 4, .heads = 4, .width = 128, .context = 128}, 16, 4e-3, 0.99},
        {"gpt2-124m",
         {.layers = 12,
          .heads = 12,
          .width = 768,
          .context = 1024,
          .vocabulary = 50304,
          .tied_head = true},
         16,
         6e-4,
         0.95},
    };
    return all;
}

const Preset* find_preset(std::string_view name) {
    for (const auto& preset : presets()) {
        if (preset.name == name)
            return &preset;
    }
    return nullptr;
}

}  // namespace gpt
