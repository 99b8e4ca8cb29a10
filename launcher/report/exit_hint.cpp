#include "report/exit_hint.hpp"

#include "base/text.hpp"
#include "exit_codes/exit_codes.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstring>
#include <map>
#include <string_view>

namespace autolaunch::launcher {

namespace {

using Lines = std::vector<std::string>;

constexpr std::string_view kDosLineEnds =
    "a script that it runs has DOS line ends (CR LF): sed -i 's/\\r$//' FILE, or dos2unix FILE";

// The newest line with the text, from the text on; empty: none.
std::string_view find_text(const Lines& lines, std::string_view text) {
    for (auto line = lines.rbegin(); line != lines.rend(); ++line)
        if (const auto at = line->find(text); at != std::string::npos)
            return std::string_view(*line).substr(at);
    return {};
}

std::string_view until(std::string_view text, std::string_view end) {
    return text.substr(0, text.find(end));
}

std::string missing_library(std::string_view name) {
    return fmt::format(
        "the library {} is missing on this node: install it, load its module, or set "
        "LD_LIBRARY_PATH; ldd PROGRAM lists all",
        name);
}

// What the dynamic loaders of glibc and musl say, also to Python.
std::string library_hint(const Lines& lines) {
    constexpr std::string_view kGone = ": cannot open shared object file";
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
        const auto end = line->find(kGone);
        if (end == std::string::npos)
            continue;
        const std::string_view before = std::string_view(*line).substr(0, end);
        return missing_library(before.substr(before.rfind(' ') + 1));
    }
    constexpr std::string_view kMusl = "Error loading shared library ";
    if (const auto text = find_text(lines, kMusl); !text.empty())
        return missing_library(until(text.substr(kMusl.size()), ":"));
    constexpr std::string_view kLoading = "error while loading shared libraries: ";
    if (const auto text = find_text(lines, kLoading); !text.empty())
        return fmt::format("the library {} cannot be loaded",
                           until(text.substr(kLoading.size()), ":"));
    constexpr std::string_view kVersion = "version `";
    const auto version = find_text(lines, kVersion);
    if (version.find("' not found") != std::string_view::npos)
        return fmt::format(
            "it was built against newer libraries than this node has ({}): build it on this "
            "system, or run it in the container that it was built in",
            until(version.substr(kVersion.size()), "'"));
    constexpr std::string_view kSymbol = "undefined symbol: ";
    if (!find_text(lines, "symbol lookup error").empty())
        return fmt::format(
            "a library is of another version than the program was built with: it lacks {}",
            until(find_text(lines, kSymbol).substr(0, 200), ",").substr(kSymbol.size()));
    return {};
}

// As bash, env and the kernel's messages quote the carriage return.
bool tells_dos_line_ends(const Lines& lines) {
    for (const std::string_view text : {"\\r'", "\\r\u2019", "^M: bad interpreter"})
        if (!find_text(lines, text).empty())
            return true;
    return false;
}

std::string count_kills(std::int64_t kills) {
    return fmt::format("the kernel killed {} process{} of this job's cgroup", kills,
                       kills == 1 ? "" : "es");
}

// PyTorch's data loader tells how its process ended, and fails with code 1 itself.
std::string loader_hint(const Lines& lines, std::optional<std::int64_t> oom_kills) {
    if (!find_text(lines, "is killed by signal: Bus error").empty() ||
        !find_text(lines, "insufficient shared memory (shm)").empty())
        return "a data loader's process found /dev/shm full: df -h /dev/shm, and more of it, or "
               "fewer workers";
    if (find_text(lines, "is killed by signal: Killed").empty())
        return {};
    if (!oom_kills)
        return "a data loader's process was killed, perhaps out of memory; the kernel's log tells: "
               "dmesg | grep -i 'killed process'";
    if (*oom_kills == 0)
        return "a data loader's process was killed, and not by this cgroup's out-of-memory killer: "
               "somebody or the scheduler did it";
    return fmt::format(
        "a data loader's process ran out of memory: {}; ask for more, or have fewer workers",
        count_kills(*oom_kills));
}

std::string kill_hint(std::optional<std::int64_t> oom_kills) {
    if (!oom_kills)
        return "perhaps out of memory; the kernel's log tells: dmesg | grep -i 'killed "
               "process'";
    if (*oom_kills == 0)
        return "not by this cgroup's out-of-memory killer: somebody or the scheduler sent it";
    return "out of memory: " + count_kills(*oom_kills);
}

std::string signal_hint(int signal) {
    static const std::map<int, std::string_view> kBySignal = {
        {SIGBUS, "often /dev/shm or a memory-mapped file's disk is full: df -h /dev/shm"},
        {SIGILL, "a CPU instruction that this machine does not have: built for another CPU?"},
        {SIGXCPU, "the CPU time limit (ulimit -t) was reached"},
        {SIGXFSZ, "the file size limit (ulimit -f) was reached"},
        {SIGSYS, "a system call that a seccomp filter forbids"},
    };
    const auto found = kBySignal.find(signal);
    return found == kBySignal.end() ? "" : std::string(found->second);
}

std::string code_hint(int code) {
    if (code == exit_code::kNotFound)
        return "127 from a shell: a command it was to run was not found";
    if (code == exit_code::kCannotExecute)
        return "126 from a shell: a command it was to run cannot be executed";
    if (code > exit_code::kSignalBase && ::sigabbrev_np(code - exit_code::kSignalBase) != nullptr)
        return fmt::format("{} from a shell: its command was killed by {}", code,
                           signal_name(code - exit_code::kSignalBase));
    return {};
}

}  // namespace

std::string exit_hint(const RankExited& exit, std::optional<std::int64_t> oom_kills,
                      const std::vector<std::string>& last_lines) {
    if (exit.signal == SIGKILL)
        return kill_hint(oom_kills);
    if (auto hint = loader_hint(last_lines, oom_kills); !hint.empty())
        return hint;
    if (oom_kills.value_or(0) > 0)  // a child's, which its rank did not survive
        return fmt::format("out of memory, for a process beside this one or started by it: {}",
                           count_kills(*oom_kills));
    if (exit.signal)
        return signal_hint(*exit.signal);
    if (auto hint = library_hint(last_lines); !hint.empty())
        return hint;
    if (tells_dos_line_ends(last_lines))
        return std::string(kDosLineEnds);
    return code_hint(exit.exit_code.value_or(0));
}

}  // namespace autolaunch::launcher
