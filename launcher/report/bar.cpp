#include "report/bar.hpp"

#include <algorithm>
#include <string_view>

namespace autolaunch::launcher {

namespace {

std::string repeat(std::string_view glyph, int times) {
    std::string text;
    for (int i = 0; i < times; ++i)
        text += glyph;
    return text;
}

}  // namespace

std::string draw_bar(double done, int columns) {
    const int halves = static_cast<int>(std::clamp(done, 0.0, 1.0) * 2 * columns);
    const int full = halves / 2, half = halves % 2;
    return repeat("━", full) + repeat("╸", half) + repeat("─", columns - full - half);
}

}  // namespace autolaunch::launcher
