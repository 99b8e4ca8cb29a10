#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// Files of a run directory in one text, for checks that read all of them: a line's first letter
/// says of which file the rest of it is. e: events.jsonl, n: events.node-1.jsonl, t: the torn end
/// of events.jsonl, p: plan.json, q: plan.node-1.json, x: exit.json, s: samples/NODE.jsonl.
class RunFilesText {
public:
    explicit RunFilesText(std::string_view bytes) {
        while (!bytes.empty()) {
            const std::string_view line = bytes.substr(0, bytes.find('\n'));
            bytes.remove_prefix(line.size() == bytes.size() ? line.size() : line.size() + 1);
            if (!line.empty())
                lines_.emplace_back(line.front(), line.substr(1));
        }
    }
    /// In the order in which they stand.
    const std::vector<std::pair<char, std::string_view>>& lines() const { return lines_; }
    template <class Take>
    void each(char letter, Take take) const {
        for (const auto& [its, text] : lines_)
            if (its == letter)
                take(text);
    }

private:
    std::vector<std::pair<char, std::string_view>> lines_;
};

}  // namespace autolaunch::launcher
