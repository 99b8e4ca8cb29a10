#include "causes/told_signal.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace autolaunch::launcher {

namespace {

constexpr std::array kTold = {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGSYS, SIGTRAP, SIGKILL};

std::string_view behind(std::string_view line, std::string_view text) {
    const auto at = line.find(text);
    return at == line.npos ? std::string_view() : line.substr(at + text.size());
}

// Whether it is this text, and nothing of a longer word.
bool is_first_word(std::string_view line, std::string_view text) {
    return line.starts_with(text) &&
           (line.size() == text.size() || std::strchr(" .,:;()>'\"", line[text.size()]) != nullptr);
}

// "SIGSEGV, segmentation fault occurred", "Segmentation fault (core dumped)".
std::optional<int> named_signal(std::string_view text) {
    for (const int signal : kTold)
        if (is_first_word(text, std::string("SIG") + ::sigabbrev_np(signal)) ||
            is_first_word(text, ::sigdescr_np(signal)))
            return signal;
    return std::nullopt;
}

std::optional<int> numbered_signal(std::string_view text) {
    long long number = 0;
    const auto digits = text.substr(0, std::min(text.size(), text.find_first_not_of("0123456789")));
    if (parse_integer(digits, number) &&
        std::find(kTold.begin(), kTold.end(), number) != kTold.end())
        return static_cast<int>(number);
    return std::nullopt;
}

// dash: "Segmentation fault"; bash: "run.sh: line 2: 4711 Segmentation fault      ./solver".
std::optional<int> told_by_shell(std::string_view line) {
    std::string_view rest = behind(line, ": line ");
    if (rest.empty()) {
        const auto signal = named_signal(line);
        const bool is_all =
            signal && (line == ::sigdescr_np(*signal) || line.ends_with("(core dumped)"));
        return is_all ? signal : std::nullopt;
    }
    rest = trim(behind(rest, ": "));
    const auto digits = std::min(rest.size(), rest.find_first_not_of("0123456789"));
    return digits == 0 ? std::nullopt : named_signal(trim(rest.substr(digits)));
}

std::optional<int> told_by(std::string_view line) {
    // subprocess, torch's processes and data loader, Intel's Fortran
    for (const std::string_view text :
         {"died with <Signals.", "terminated with signal ", "is killed by signal: ",
          "forrtl: severe (174): ", "signal: '", "codes of the workers are {", "killed by signal "})
        if (const auto signal = named_signal(behind(line, text)))
            return signal;
    if (line.find(": *** [") != line.npos)  // make: "make: *** [Makefile:2: all] Killed"
        return named_signal(behind(line, "] "));
    for (const std::string_view text :
         {"terminated by signal ", "exited on signal ", "killed by signal ", "traceback : Signal "})
        if (const auto signal = numbered_signal(behind(line, text)))
            return signal;
    return told_by_shell(line);
}

}  // namespace

std::optional<ToldSignal> find_told_signal(const std::vector<std::string>& lines) {
    for (auto line = lines.rbegin(); line != lines.rend(); ++line)
        if (const auto signal = told_by(trim(*line)))
            return ToldSignal{*signal, std::string(trim(*line))};
    return std::nullopt;
}

std::optional<int> read_hidden_end(const std::vector<std::string>& lines) {
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
        const auto end = line->find(" did not exit normally");
        const auto begin = line->find("child ");
        long long pid = 0;
        if (end != std::string::npos && begin < end &&
            parse_integer(std::string_view(*line).substr(begin + 6, end - begin - 6), pid))
            return static_cast<int>(pid);
    }
    return std::nullopt;
}

}  // namespace autolaunch::launcher
