#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// Collects the elements of an SVG document; coordinates are in pixels from the upper left corner.
class SvgCanvas {
public:
    struct Area {
        double x = 0, y = 0, width = 0, height = 0;
    };

    /// `style` is a class of the style sheet in document().
    void rectangle(const Area& area, std::string_view style, std::string_view tooltip = {});
    void text(double x, double y, std::string_view words, std::string_view style = "text");

    /// A rectangle below what is drawn next, whose size is known only afterwards.
    std::size_t reserve();
    void fill(std::size_t place, const Area& area, std::string_view style);

    std::string document(double width, double height) const;

private:
    std::vector<std::string> elements_;
};

/// As many characters as fit, with "…" where some do not.
std::string shorten(std::string_view words, double width);

}  // namespace autolaunch::launcher
