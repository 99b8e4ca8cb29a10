#include "python_start/python_command.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "pmi/elf_file.hpp"
#include "spawn/program_search.hpp"
#include "stdio/program_kind.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kFlags = "bBdEIOPqRsSuvx";
constexpr std::string_view kWithValue = "WX";
constexpr const char* kHashOption = "--check-hash-based-pycs";

PythonCommand not_python(std::string why) {
    PythonCommand command;
    command.why_not = std::move(why);
    return command;
}

PythonCommand runs(std::string script) {
    PythonCommand command;
    command.script = std::move(script);
    return command;
}

PythonCommand runs_module(std::string module) {
    PythonCommand command = runs("-m");
    command.module = std::move(module);
    return command;
}

/// "python3.11d", and not "pythonw" or "ipython".
bool is_interpreter_name(const std::string& name) {
    return name.starts_with("python") &&
           name.find_first_not_of("0123456789.dmt", 6) == std::string::npos;
}

/// The words of "#! /usr/bin/env -S python3 -u", without the mark; none without such a line.
std::vector<std::string> shebang_words(const fs::path& file) {
    std::ifstream in(file);
    std::string line(2, '\0');
    if (!in.read(line.data(), 2) || line != "#!" || !std::getline(in, line))
        return {};
    std::vector<std::string> words;
    for (std::string& word : split(line, ' '))
        if (!trim(word).empty())
            words.emplace_back(trim(word));
    return words;
}

/// The interpreter's own argv, as the kernel and `env` make it of a script's.
std::vector<std::string> behind_shebang(const fs::path& file,
                                        const std::vector<std::string>& argv) {
    std::vector<std::string> words = shebang_words(file);
    if (words.empty())
        return argv;
    if (fs::path(words[0]).filename() == "env") {
        words.erase(words.begin());
        if (!words.empty() && words[0] == "-S")
            words.erase(words.begin());
    }
    words.insert(words.end(), argv.begin(), argv.end());
    return words;
}

/// An interpreter that is a script. Those of pyenv look for the version at each start, and run the
/// interpreter with another PATH and PYENV_VERSION: a rank that is forked would lack these.
std::string why_not_a_script(const std::string& name, const fs::path& file) {
    constexpr std::size_t kMostRead = 4096;
    std::string text(kMostRead, '\0');
    std::ifstream in(file);
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (text.find("/pyenv\" exec ") == text.npos)
        return fmt::format("is started by {}, which is a script itself", name);
    return fmt::format(
        "is started by {}, a shim of pyenv, which finds the interpreter anew at each start and "
        "changes PATH for it; name the one that `pyenv which {}` prints",
        file.string(), file.filename().string());
}

/// Its functions are in the file itself, or in a shared libpython.
bool has_functions(const fs::path& path, const ElfFile& file) {
    for (const std::string& library : file.needed)
        if (library.starts_with("libpython"))
            return true;
    const std::string names = read_dynamic_names(path, file);
    return names.find(std::string("\0Py_RunMain\0", 12)) != std::string::npos;
}

}  // namespace

PythonCommand parse_python_options(const std::vector<std::string>& options) {
    for (std::size_t at = 0; at < options.size(); ++at) {
        const std::string& option = options[at];
        if (option == "-" || option.empty())
            return not_python("is read from stdin");
        if (option == "--")
            return at + 1 < options.size() ? runs(options[at + 1])
                                           : not_python("is read from stdin");
        if (option[0] != '-')
            return runs(option);
        if (option == kHashOption) {
            ++at;
            continue;
        }
        if (option.starts_with("--"))
            return not_python(fmt::format("is none: {} only prints", option));
        for (std::size_t i = 1; i < option.size(); ++i) {
            const char letter = option[i];
            if (letter == 'c')
                return runs("-c");
            if (letter == 'm')
                return runs_module(i + 1 < option.size()     ? option.substr(i + 1)
                                   : at + 1 < options.size() ? options[at + 1]
                                                             : std::string());
            if (kWithValue.find(letter) != kWithValue.npos) {
                at += i + 1 == option.size() ? 1 : 0;
                break;
            }
            if (letter == 'x')
                return not_python("is started with -x, which skips its first line");
            if (kFlags.find(letter) == kFlags.npos)
                return not_python(fmt::format("is started with -{}", letter));
        }
    }
    return not_python("is read from stdin");
}

PythonCommand python_command(const std::vector<std::string>& argv,
                             const std::vector<std::string>& environment,
                             const std::string& workdir) {
    const ProgramSearch first = find_program(argv.at(0), environment, workdir);
    if (first.error_number != 0)
        return not_python("was not found");
    std::vector<std::string> words = argv;
    const fs::path program = fs::path(workdir) / first.path;
    if (!interpreter_of(program).empty()) {
        if (is_interpreter_name(program.filename()))
            return not_python(why_not_a_script(argv[0], program));
        words[0] = first.path;
        words = behind_shebang(program, words);
    }
    if (words.empty() || !is_interpreter_name(fs::path(words[0]).filename()))
        return not_python(fmt::format("is no Python program ({})", argv.at(0)));
    const ProgramSearch found = find_program(words[0], environment, workdir);
    const fs::path path = fs::path(workdir) / found.path;
    if (found.error_number != 0)
        return not_python(fmt::format("is started by {}, which was not found", words[0]));
    if (!interpreter_of(path).empty())
        return not_python(why_not_a_script(words[0], path));
    if (const auto why = why_not_preloaded(kind_of_program(words[0], environment, workdir));
        !why.empty())
        return not_python(fmt::format("cannot be hooked into: {}", why));
    const auto file = read_elf(path);
    std::error_code ignored;
    const fs::path real = fs::canonical(path, ignored);
    if (!file || !is_interpreter_name(real.filename()) || !has_functions(real, *file))
        return not_python(
            fmt::format("is started by {}, which is no CPython from 3.8 on", words[0]));
    words.erase(words.begin());
    PythonCommand command = parse_python_options(words);
    if (command.why_not.empty())
        command.interpreter = found.path;
    return command;
}

}  // namespace autolaunch::launcher
