#include "post_mortem/evidence_message.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cstddef>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kLineLimit = 1024;  // the screen shows less of a line

// Whole lines, the last of them where they do not all fit.
std::string last_lines(const std::vector<std::string>& lines) {
    std::string text;
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
        const std::string cut = line->substr(0, kLineLimit);
        if (text.size() + cut.size() + 1 > control::kEvidenceLimit)
            break;
        text.insert(0, cut + '\n');
    }
    return text;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines = split(text, '\n');
    if (!lines.empty() && lines.back().empty())
        lines.pop_back();
    return lines;
}

}  // namespace

void put_evidence(const FailureEvidence& evidence, control::RankFailed& failed) {
    (evidence.from_stdout ? failed.stdout_tail : failed.stderr_tail) =
        last_lines(evidence.last_lines);
    failed.may_miss_words = evidence.may_miss_words;
    if (evidence.error_message.empty())
        return;
    const std::string message =
        split(evidence.error_message, '\n').front().substr(0, kLineLimit) + '\n';
    failed.error_text = message + last_lines(evidence.callstack);
    failed.error_text.resize(std::min(failed.error_text.size(), control::kEvidenceLimit));
}

FailureEvidence evidence_of(const control::RankFailed& failed) {
    FailureEvidence evidence;
    evidence.may_miss_words = failed.may_miss_words;
    evidence.from_stdout = failed.stderr_tail.empty() && !failed.stdout_tail.empty();
    evidence.last_lines = lines_of(evidence.from_stdout ? failed.stdout_tail : failed.stderr_tail);
    std::vector<std::string> error = lines_of(failed.error_text);
    if (error.empty())
        return evidence;
    evidence.error_message = error.front();
    evidence.callstack.assign(error.begin() + 1, error.end());
    return evidence;
}

}  // namespace autolaunch::launcher
