#include "post_mortem/core_file.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "spawn/program_search.hpp"

#include <autolaunch/error.hpp>

#include <glob.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <vector>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kCommBytes = 15;  // of a process's name, as the kernel keeps it

bool dumps_core(int signal) {
    constexpr int kSignals[] = {SIGQUIT, SIGILL,  SIGTRAP, SIGABRT, SIGBUS,
                                SIGFPE,  SIGSEGV, SIGXCPU, SIGXFSZ, SIGSYS};
    return std::find(std::begin(kSignals), std::end(kSignals), signal) != std::end(kSignals);
}

std::string part_of_name(char letter, const CoreProcess& process) {
    const std::string name = std::filesystem::path(process.program).filename();
    switch (letter) {
        case '%':
            return "%";
        case 'p':
        case 'i':
            return std::to_string(process.pid);
        case 'e':
            return name.substr(0, kCommBytes);
        case 'f':
            return name;
        case 's':
            return std::to_string(process.signal);
        case 'u':
            return std::to_string(::getuid());
        case 'g':
            return std::to_string(::getgid());
        case 'h':
            return process.hostname;
        case 'E': {
            std::string path = process.program;
            std::replace(path.begin(), path.end(), '/', '!');
            return path;
        }
        default:  // the time, the pid outside of a container, the limit
            return "*";
    }
}

// "/lib/systemd/systemd-coredump" of "|/lib/systemd/systemd-coredump %P %u …".
std::string handler_of(const std::string& pattern) {
    const std::string_view line = trim(std::string_view(pattern).substr(1));
    return std::string(line.substr(0, line.find(' ')));
}

std::string describe_handled(const std::string& handler, const CoreProcess& process) {
    if (!process.dumped)
        return {};
    if (handler.ends_with("systemd-coredump"))
        return "core file: coredumpctl gdb " + std::to_string(process.pid);
    if (handler.ends_with("apport"))
        return "core file: apport has it, in /var/lib/apport/coredump or /var/crash";
    return "core file: " + handler + " has it (/proc/sys/kernel/core_pattern)";
}

std::string line_of(const char* file) {
    try {
        return std::string(trim(read_file(std::string("/proc/sys/kernel/") + file)));
    } catch (const Error&) {
        return {};
    }
}

CoreRules rules_here() {
    rlimit limit{};
    return {.pattern = line_of("core_pattern"),
            .appends_pid = line_of("core_uses_pid") == "1",
            .is_forbidden = ::getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur == 0};
}

// The newest that was written since the rank was started: an older one is another's.
std::string newest_match(const std::string& pattern, std::time_t since) {
    glob_t matches{};
    std::string newest;
    std::time_t newest_time = since;
    if (::glob(pattern.c_str(), 0, nullptr, &matches) == 0) {
        for (std::size_t i = 0; i < matches.gl_pathc; ++i) {
            struct stat status {};
            if (::stat(matches.gl_pathv[i], &status) != 0 || !S_ISREG(status.st_mode) ||
                status.st_mtime < newest_time)
                continue;
            newest = matches.gl_pathv[i];
            newest_time = status.st_mtime;
        }
        ::globfree(&matches);
    }
    return newest;
}

}  // namespace

std::string core_path(const CoreRules& rules, const CoreProcess& process) {
    std::string path;
    bool has_pid = false;
    for (std::size_t i = 0; i < rules.pattern.size(); ++i) {
        if (rules.pattern[i] != '%') {
            path += rules.pattern[i];
        } else if (++i < rules.pattern.size()) {
            has_pid = has_pid || rules.pattern[i] == 'p';
            path += part_of_name(rules.pattern[i], process);
        }
    }
    if (rules.appends_pid && !has_pid)
        path += '.' + std::to_string(process.pid);
    return (std::filesystem::path(process.workdir) / path).lexically_normal();
}

std::string describe_core(const CoreRules& rules, const CoreProcess& process,
                          const std::string& found) {
    if (!dumps_core(process.signal) || rules.pattern.empty())
        return {};
    if (rules.pattern.starts_with('|'))
        return describe_handled(handler_of(rules.pattern), process);
    if (process.dumped && !found.empty())  // else it is a moment older, and another's
        return "core file: gdb " + process.program + ' ' + found;
    if (process.dumped)
        return "it dumped core, by /proc/sys/kernel/core_pattern as " + core_path(rules, process) +
               ", where nothing is";
    return rules.is_forbidden
               ? "no core file: the limit is 0; ulimit -c unlimited before autolaunch"
               : "";
}

std::string explain_core(const RankExited& end, const LaunchPlan& plan, const RankPlan& rank) {
    if (!end.signal)
        return {};
    const CoreRules rules = rules_here();
    CoreProcess process{.pid = end.pid,
                        .signal = *end.signal,
                        .dumped = end.core_dumped,
                        .program = rank.argv.front(),
                        .workdir = plan.workdir,
                        .hostname = plan.hostname};
    std::vector<std::string> search_path;
    if (const char* path = ::getenv("PATH"))
        search_path.push_back(std::string("PATH=") + path);
    if (const ProgramSearch program = find_program(process.program, search_path, plan.workdir);
        program.error_number == 0)
        process.program = program.path;
    const auto started =
        std::time(nullptr) - std::chrono::ceil<std::chrono::seconds>(end.ran).count() - 1;
    return describe_core(rules, process, newest_match(core_path(rules, process), started));
}

}  // namespace autolaunch::launcher
