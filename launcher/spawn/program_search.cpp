#include "spawn/program_search.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kDefaultPath =
    "/usr/local/bin:/usr/bin:/bin";  // what a shell assumes without PATH

std::vector<std::string> path_folders(const std::vector<std::string>& environment) {
    std::string_view path = kDefaultPath;
    for (const auto& variable : environment)
        if (variable.starts_with("PATH="))
            path = std::string_view(variable).substr(5);
    return split(path, ':');
}

fs::path in_workdir(const std::string& workdir, const std::string& path) {
    return fs::path(workdir) / path;  // an absolute `path` replaces the left side
}

// 0, EACCES for a file that is there but cannot be executed, ENOENT otherwise.
int executable_error(const fs::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0)
        return errno == EACCES ? EACCES : ENOENT;
    if (!S_ISREG(status.st_mode))
        return EACCES;
    return ::access(path.c_str(), X_OK) == 0 ? 0 : EACCES;
}

std::string similar_program(const std::string& name, const std::vector<std::string>& environment) {
    std::vector<std::string> names;
    for (const auto& folder : path_folders(environment)) {
        std::error_code missing;
        for (const fs::path& program : list_folder(folder, missing))
            names.push_back(program.filename().string());
    }
    return nearest(name, names);
}

std::string not_found_hint(const std::string& name, const std::vector<std::string>& environment,
                           const std::string& workdir) {
    if (name.find('/') != std::string::npos)
        return "check the path; it is taken relative to " + workdir;
    std::error_code error;
    if (fs::is_regular_file(in_workdir(workdir, name), error)) {
        if (name.ends_with(".py"))
            return "a Python script is started as: autolaunch -- python3 " + name;
        return "a file of this name is in the working directory; write ./" + name;
    }
    const std::string similar = similar_program(name, environment);
    return similar.empty() ? "it is in no folder of PATH" : "did you mean '" + similar + "'?";
}

// The first bytes of a file; nothing of one that cannot be read.
std::string head_of(const fs::path& path) {
    try {
        const UniqueFd fd = open_file(path, O_RDONLY | O_NONBLOCK);
        std::string head(256, '\0');
        const ssize_t got = ::read(fd.get(), head.data(), head.size());
        head.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
        return head;
    } catch (const Error&) {
        return {};
    }
}

// Of a file that may be executed, and that the system does not know how to.
std::string why_no_script(const fs::path& path) {
    const std::string head = head_of(path), name = path.string();
    std::error_code error;
    if (head.empty() && fs::file_size(path, error) == 0 && !error)
        return "the file is empty";
    if (head.starts_with("\xEF\xBB\xBF"))
        return "it begins with a byte order mark, which hides its #! line: sed -i "
               "'1s/^\\xEF\\xBB\\xBF//' " +
               name;
    if (head.starts_with("\xFF\xFE") || head.starts_with("\xFE\xFF"))
        return "it is a text in UTF-16: iconv -f UTF-16 -t UTF-8 " + name + " > FILE";
    return {};
}

}  // namespace

std::string interpreter_of(const fs::path& path) {
    const std::string head = head_of(path);
    std::string_view text = head;
    if (!text.starts_with("#!"))
        return {};
    text = text.substr(2, text.find('\n') - 2);
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    return std::string(text.substr(0, text.find_first_of(" \t")));
}

ProgramSearch find_program(const std::string& name, const std::vector<std::string>& environment,
                           const std::string& workdir) {
    if (name.empty())
        return {name, ENOENT};
    if (name.find('/') != std::string::npos)
        return {name, executable_error(in_workdir(workdir, name))};
    ProgramSearch refused{name, ENOENT};
    for (const auto& folder : path_folders(environment)) {
        const std::string candidate = folder.empty() ? "./" + name : folder + "/" + name;
        const int error = executable_error(in_workdir(workdir, candidate));
        if (error == 0)
            return {candidate, 0};
        if (error == EACCES && refused.error_number == ENOENT)
            refused = {candidate, EACCES};
    }
    return refused;
}

std::string exec_failure_hint(const std::string& name, const ProgramSearch& found, int error_number,
                              const std::vector<std::string>& environment,
                              const std::string& workdir) {
    const fs::path path = in_workdir(workdir, found.path);
    switch (error_number) {
        case ENOENT:
        case ENOTDIR: {
            if (found.error_number != 0)
                return not_found_hint(name, environment, workdir);
            const std::string interpreter = interpreter_of(path);
            if (interpreter.ends_with('\r'))
                return "its first line has a DOS line end (CR LF), so that the system looks for " +
                       interpreter.substr(0, interpreter.size() - 1) + "\\r: sed -i 's/\\r$//' " +
                       path.string() + ", or dos2unix " + path.string();
            if (!interpreter.empty())
                return "its first line asks for the interpreter " + interpreter +
                       ", which is missing";
            return "the program is there, but its dynamic loader is not: it was built for another "
                   "system";
        }
        case EACCES: {
            std::error_code error;
            if (fs::is_directory(path, error))
                return "it is a folder";
            if (fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) != 0)
                return "try: chmod +x " + path.string();
            return "the file system may be mounted noexec";
        }
        case ENOEXEC:
            if (const std::string why = why_no_script(path); !why.empty())
                return why;
            return "it is neither a program for this machine nor a script with a #! line";
        case E2BIG:
            return "the arguments and the environment together are too long";
        case EAGAIN:
            return "the limit on processes is reached: see ulimit -u and the cgroup's pids.max";
        case ENOMEM:
            return "the machine has no memory left for another process";
        default:
            return {};
    }
}

}  // namespace autolaunch::launcher
