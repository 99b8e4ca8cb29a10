#include "supervise/node_warnings.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cstddef>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kNamedNodes = 3;

std::string name(const std::vector<std::string>& nodes) {
    const std::size_t named = std::min(nodes.size(), kNamedNodes);
    std::string text = join(
        std::vector<std::string>(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(named)),
        ", ");
    if (nodes.size() > named)
        text += " and " + std::to_string(nodes.size() - named) + " more";
    return text;
}

}  // namespace

void NodeWarnings::add(const std::string& node, const std::string& text) {
    if (std::find(said_.begin(), said_.end(), text) != said_.end())
        return;
    auto found = std::find_if(waiting_.begin(), waiting_.end(),
                              [&](const Warning& w) { return w.text == text; });
    if (found == waiting_.end())
        found = waiting_.insert(waiting_.end(), Warning{text, {}});
    if (std::find(found->nodes.begin(), found->nodes.end(), node) == found->nodes.end())
        found->nodes.push_back(node);
}

std::vector<std::string> NodeWarnings::take() {
    std::vector<std::string> lines;
    for (const Warning& warning : waiting_)
        lines.push_back(name(warning.nodes) + ": " + warning.text);
    waiting_.clear();
    return lines;
}

}  // namespace autolaunch::launcher
