#include "causes/start_words.hpp"

#include "base/text.hpp"
#include "exit_codes/exit_codes.hpp"

#include <fmt/format.h>

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
    if (!find_text(lines, "symbol lookup error").empty() ||
        !find_text(lines, ".so: undefined symbol: ").empty())
        return fmt::format(
            "a library is of another version than the program was built with: it lacks {}",
            until(find_text(lines, kSymbol).substr(0, 200), ",").substr(kSymbol.size()));
    return {};
}

// As shells, env and the kernel's messages quote the carriage return. Also at a line's end.
bool tells_dos_line_ends(const Lines& lines) {
    for (const std::string_view text : {"\\r'", "\\r\u2019", "\\r: ", "^M: bad interpreter"})
        if (!find_text(lines, text).empty())
            return true;
    return find_text(lines, "option -\\r") == "option -\\r" ||
           find_text(lines, "option: -\\r") == "option: -\\r";
}

// Interpreters and shells say that there is nothing to run.
std::string program_hint(const Lines& lines) {
    struct Saying {
        std::string_view text, says;
    };
    static constexpr Saying kSayings[] = {
        {"can't open file ", "the script is not there, or may not be read"},
        {"Cannot find module ", "the script or a module of it is not there"},
        {"Unable to access jarfile", "the jar is not there, or may not be read"},
        {"Could not find or load main class",
         "the class is not there: java's class path has it not"},
        {"Can't open perl script", "the script is not there, or may not be read"},
        {"Fatal error: cannot open file '", "the script is not there, or may not be read"},
        {"Fatal Python error: init_fs_encoding",
         "Python does not find its own library: is PYTHONHOME or PYTHONPATH of another Python?"},
        {"FATAL:   could not open image", "the container's image is not there, or may not be read"},
        {": image not known", "the container's image is not on this node: podman pull fetches it"},
        {"cgroups in hybrid mode not supported",
         "crun starts nothing where cgroups are in hybrid mode: umount /sys/fs/cgroup/unified"},
        {"ruby: No such file or directory -- ", "the script is not there, or may not be read"},
        {"Could not open input file: ", "the script is not there, or may not be read"},
        {"ERROR: In procedure primitive-load:", "the script is not there, or may not be read"},
        {": 0: cannot open ", "the script is not there, or may not be read"},
        {"can't find '__main__' module in", "the script is a folder without __main__.py"},
        {"Bad magic number in .pyc file", "the script is compiled by another Python, or damaged"},
        {"Cannot connect to the Docker daemon", "Docker does not run, or may not be used"},
        {"Error response from daemon: ", "Docker could not start the container"},
        {"couldn't read file \"", "the script is not there, or may not be read"},
        {"bad interpreter", "the interpreter of its #! line is not there"},
        {"required file not found", "the interpreter of its #! line or its loader is not there"},
        {"Exec format error", "it is no program for this machine, or a script without #! line"},
        {"cannot execute binary file", "it is no program for this machine"},
    };
    for (const Saying& saying : kSayings)
        if (!find_text(lines, saying.text).empty())
            return std::string(saying.says);
    for (const auto& line : lines)
        if (line.starts_with("lua") && line.find(": cannot open ") != std::string::npos)
            return "the script is not there, or may not be read";
    for (const auto& line : lines)  // `python -m`; an import of the program has a traceback
        if (const auto at = line.find(": No module named "); at != std::string::npos)
            if (line.substr(0, at).find("python") != std::string::npos &&
                line.find("Error") == std::string::npos)
                return "Python has no module" + line.substr(at + 17);
    return {};
}

}  // namespace

std::string why_not_started(const RankExited& exit, const std::vector<std::string>& last_lines) {
    if (exit.signal)
        return {};
    if (auto hint = library_hint(last_lines); !hint.empty())
        return hint;
    if (tells_dos_line_ends(last_lines))
        return std::string(kDosLineEnds);
    if (auto hint = program_hint(last_lines); !hint.empty())
        return hint;
    if (exit.exit_code == exit_code::kNotFound)
        return "127 from a shell: a command it was to run was not found";
    if (exit.exit_code == exit_code::kCannotExecute)
        return "126 from a shell: a command it was to run cannot be executed";
    return {};
}

}  // namespace autolaunch::launcher
