#include "run_report/html_text.hpp"

#include "report/terminal_text.hpp"

#include <fmt/format.h>

namespace autolaunch::launcher {

std::string html(std::string_view text) {
    std::string escaped;
    for (const char c : escape_for_terminal(text, Colours::strip)) {
        switch (c) {
            case '&':
                escaped += "&amp;";
                break;
            case '<':
                escaped += "&lt;";
                break;
            case '>':
                escaped += "&gt;";
                break;
            case '"':
                escaped += "&quot;";
                break;
            case '\'':
                escaped += "&#39;";
                break;
            default:
                escaped += c;
        }
    }
    return escaped;
}

std::string html_table(std::string_view caption, const std::vector<std::string>& head,
                       const std::vector<std::vector<std::string>>& rows) {
    std::string text = fmt::format(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table>"
        "<caption>{0}</caption><thead><tr>",
        html(caption));
    for (const std::string& cell : head)
        text += "<th scope=\"col\">" + cell + "</th>";
    text += "</tr></thead><tbody>";
    for (const auto& row : rows) {
        text += "<tr>";
        for (std::size_t i = 0; i < row.size(); ++i)
            text += i == 0 ? "<th scope=\"row\">" + row[i] + "</th>" : "<td>" + row[i] + "</td>";
        text += "</tr>\n";
    }
    return text + "</tbody></table></div>\n";
}

std::string html_details(std::string_view summary, const std::string& content) {
    return fmt::format("<details><summary>{}</summary>{}</details>\n", html(summary), content);
}

}  // namespace autolaunch::launcher
