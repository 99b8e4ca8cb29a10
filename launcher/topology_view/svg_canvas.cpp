#include "topology_view/svg_canvas.hpp"

#include <fmt/format.h>

namespace autolaunch::launcher {
namespace {

constexpr double kCharacterWidth = 6.7;  // of the 11 px font, on average a little less

constexpr std::string_view kStyle = R"(
  text { font-family: "DejaVu Sans", "Liberation Sans", Helvetica, Arial, sans-serif; fill: #1f2933; }
  .text { font-size: 11px; }
  .title { font-size: 16px; font-weight: bold; }
  .head { font-size: 12px; font-weight: bold; }
  .faint { font-size: 10px; fill: #616e7c; }
  .page { fill: #ffffff; }
  .package { fill: #f5f7fa; stroke: #7b8794; stroke-width: 1.5; }
  .node { fill: #ffffff; stroke: #9aa5b1; }
  .cache { fill: #eef2f6; stroke: #cbd2d9; }
  .core { fill: #829ab1; }
  .group { fill: #fbf8f1; stroke: #d9cba3; }
  .gpu { fill: #d3efd7; stroke: #3f9142; }
  .hca { fill: #d4e6f9; stroke: #2b6cb0; }
  .down { fill: #eceff1; stroke: #9aa5b1; stroke-dasharray: 3 2; }
  .nv { fill: #8fd694; } .pix { fill: #b9e4bb; } .pxb { fill: #dcf2dc; } .phb { fill: #fdf3c4; }
  .near { fill: #fbe0b5; } .sys { fill: #f6c3b7; } .none { fill: #ffffff; }
)";

std::string escape(std::string_view words) {
    std::string escaped;
    for (const char c : words) {
        if (c == '&') {
            escaped += "&amp;";
        } else if (c == '<') {
            escaped += "&lt;";
        } else if (c == '>') {
            escaped += "&gt;";
        } else if (c == '"') {
            escaped += "&quot;";
        } else if (static_cast<unsigned char>(c) >= 0x20) {  // others are not allowed in XML
            escaped += c;
        }
    }
    return escaped;
}

std::string rectangle_element(const SvgCanvas::Area& area, std::string_view style,
                              std::string_view tooltip) {
    const std::string place =
        fmt::format(R"(x="{:g}" y="{:g}" width="{:g}" height="{:g}" rx="3" class="{}")", area.x,
                    area.y, area.width, area.height, style);
    if (tooltip.empty())
        return "<rect " + place + "/>";
    return "<rect " + place + "><title>" + escape(tooltip) + "</title></rect>";
}

}  // namespace

void SvgCanvas::rectangle(const Area& area, std::string_view style, std::string_view tooltip) {
    elements_.push_back(rectangle_element(area, style, tooltip));
}

void SvgCanvas::text(double x, double y, std::string_view words, std::string_view style) {
    elements_.push_back(
        fmt::format(R"(<text x="{:g}" y="{:g}" class="{}">{}</text>)", x, y, style, escape(words)));
}

std::size_t SvgCanvas::reserve() {
    elements_.emplace_back();
    return elements_.size() - 1;
}

void SvgCanvas::fill(std::size_t place, const Area& area, std::string_view style) {
    elements_[place] = rectangle_element(area, style, {});
}

std::string SvgCanvas::document(double width, double height) const {
    std::string text = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" viewBox=\"0 0 "
        "{0:g} {1:g}\">\n"
        "<style>{2}</style>\n<rect x=\"0\" y=\"0\" width=\"{0:g}\" height=\"{1:g}\" "
        "class=\"page\"/>\n",
        width, height, kStyle);
    for (const std::string& element : elements_)
        text += element + '\n';
    return text + "</svg>\n";
}

std::string shorten(std::string_view words, double width) {
    const auto room = static_cast<std::size_t>(width / kCharacterWidth);
    std::size_t characters = 0, bytes = 0;
    while (bytes < words.size() && characters + 1 < room) {
        ++bytes;
        while (bytes < words.size() && (static_cast<unsigned char>(words[bytes]) & 0xC0) == 0x80)
            ++bytes;
        ++characters;
    }
    if (bytes == words.size())
        return std::string(words);
    return std::string(words.substr(0, bytes)) + "…";
}

}  // namespace autolaunch::launcher
