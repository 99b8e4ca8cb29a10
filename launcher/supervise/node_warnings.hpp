#pragma once
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Warnings that nodes sent to the head: equal ones become one line, "node2, node3: …". Pure.
class NodeWarnings {
public:
    /// `said`: what has been shown already, for all nodes.
    explicit NodeWarnings(std::vector<std::string> said) : said_(std::move(said)) {}

    void add(const std::string& node, const std::string& text);
    /// What came since the last call, as lines.
    std::vector<std::string> take();

private:
    struct Warning {
        std::string text;
        std::vector<std::string> nodes;
    };

    std::vector<std::string> said_;
    std::vector<Warning> waiting_;
};

}  // namespace autolaunch::launcher
