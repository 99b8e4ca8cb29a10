#pragma once
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// A rank's command, as far as it is one of Python's.
struct PythonCommand {
    std::string interpreter;  ///< the file of the program; empty: see `why_not`
    std::string script;       ///< the file; "-m" or "-c" where the program is none
    std::string module;       ///< of -m
    std::string why_not;      ///< goes on after "the program ": "is no Python program (…)"
};

/// The options of CPython's command line (3.8 to 3.13), behind the interpreter's name: what it
/// will run. Pure; `interpreter` stays empty.
PythonCommand parse_python_options(const std::vector<std::string>& options);

/// The same of a rank's argv: an interpreter, or a script whose first line names one, also behind
/// /usr/bin/env. Only CPython as a program of its own counts. Reads the disk.
PythonCommand python_command(const std::vector<std::string>& argv,
                             const std::vector<std::string>& environment,
                             const std::string& workdir);

}  // namespace autolaunch::launcher
