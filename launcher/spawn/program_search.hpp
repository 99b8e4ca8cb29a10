#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Where a program was found, or why it was not. `error_number` is 0, ENOENT or EACCES; `path` is
/// what to execute, or the file that cannot be executed.
struct ProgramSearch {
    std::string path;
    int error_number = 0;
};

/// execvp's rule with the child's own PATH and working directory: a name with a '/' is taken as it
/// is, any other is looked for in each folder of PATH, and a file that cannot be executed is passed
/// over for a later one that can.
ProgramSearch find_program(const std::string& name, const std::vector<std::string>& environment,
                           const std::string& workdir);

/// "/usr/bin/env" of a file that begins with "#! /usr/bin/env python3"; empty without such a line.
/// A carriage return that ends the line is a part of the name, as it is for the kernel.
std::string interpreter_of(const std::filesystem::path& path);

/// What to tell a person whose program could not be executed: a similar name in PATH, a missing
/// interpreter, a missing "chmod +x", a process limit. Empty when there is nothing useful to say.
/// Reads the disk.
std::string exec_failure_hint(const std::string& name, const ProgramSearch& found, int error_number,
                              const std::vector<std::string>& environment,
                              const std::string& workdir);

}  // namespace autolaunch::launcher
