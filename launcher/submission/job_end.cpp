#include "submission/job_end.hpp"

#include "base/text.hpp"
#include "stopping/scontrol_line.hpp"

#include <algorithm>
#include <array>

namespace autolaunch::launcher {

namespace {

constexpr std::array<std::string_view, 9> kFinal = {"COMPLETED", "FAILED",    "CANCELLED",
                                                    "TIMEOUT",   "NODE_FAIL", "PREEMPTED",
                                                    "BOOT_FAIL", "DEADLINE",  "OUT_OF_MEMORY"};

/// Of ExitCode=CODE:SIGNAL.
int code_of(const std::string& written, bool completed) {
    const auto parts = split(written, ':');
    long long code = 0, signal = 0;
    const bool readable = parts.size() == 2 && parse_integer(parts[0], code) &&
                          parse_integer(parts[1], signal) && code >= 0 && code < 256 &&
                          signal >= 0 && signal < 128;
    if (!readable)
        return completed ? 0 : 1;
    if (signal > 0)
        return static_cast<int>(128 + signal);
    return code == 0 && !completed ? 1 : static_cast<int>(code);
}

std::string word_behind(std::string_view text, std::string_view mark) {
    const std::size_t at = text.find(mark);
    if (at == std::string_view::npos)
        return {};
    text.remove_prefix(at + mark.size());
    return std::string(text.substr(0, text.find_first_of(" \n")));
}

}  // namespace

bool JobEnd::take(std::string_view answer) {
    bool any = false;
    goes_on_ = false;
    for (const std::string& line : split(answer, '\n')) {
        const std::string id = scontrol_field(line, "JobId");
        if (id.empty())
            continue;
        any = true;
        const std::string state = scontrol_field(line, "JobState");
        if (std::find(kFinal.begin(), kFinal.end(), state) == kFinal.end()) {
            goes_on_ = true;
            ends_.erase(id);
            continue;
        }
        ends_[id] = {state, code_of(scontrol_field(line, "ExitCode"), state == "COMPLETED")};
    }
    return any;
}

int JobEnd::exit_code() const {
    int code = 0;
    for (const auto& [id, end] : ends_)
        code = std::max(code, end.code);
    return code;
}

std::string JobEnd::state() const {
    for (const auto& [id, end] : ends_)
        if (end.code == exit_code() && end.code != 0)
            return end.state;
    return ends_.empty() ? std::string() : ends_.begin()->second.state;
}

StartEstimate parse_estimate(std::string_view text) {
    return {word_behind(text, " to start at "), word_behind(text, " on nodes "),
            word_behind(text, " in partition ")};
}

}  // namespace autolaunch::launcher
