#include "base/path_within.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <iterator>
#include <string>

namespace autolaunch {

bool is_path_within(std::string_view path) {
    if (path.empty() || path.find('\0') != std::string_view::npos)
        return false;
    const auto names = split(path, '/');
    return std::none_of(names.begin(), names.end(), [](const std::string& name) {
        return name.empty() || name == "." || name == "..";
    });
}

bool lies_within(const std::filesystem::path& inner, const std::filesystem::path& outer) {
    const auto ends = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
    return ends.first == outer.end() ||
           (std::next(ends.first) == outer.end() && ends.first->empty());
}

}  // namespace autolaunch
