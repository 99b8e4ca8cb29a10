#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// Anybody's text as HTML's, also within quotes: it can end no element and no attribute, and what a
/// page or a reader of it would obey (control characters, direction marks) is made visible. Pure.
std::string html(std::string_view text);

/// A table that scrolls by itself where the page is too narrow. The cells are HTML.
std::string html_table(std::string_view caption, const std::vector<std::string>& head,
                       const std::vector<std::vector<std::string>>& rows);
/// Shown when it is opened.
std::string html_details(std::string_view summary, const std::string& content);

}  // namespace autolaunch::launcher
