#pragma once
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What the loader will make of a program and of a library that is preloaded into it.
enum class ProgramKind {
    preloadable,  ///< dynamic, of this machine, with glibc
    missing,      ///< or not to be read
    foreign,      ///< no 64-bit ELF file of this machine
    fixed,        ///< static: it has no loader
    other_libc,   ///< musl and others, whose loader is another
    privileged,   ///< set-uid and the like: its loader ignores what is preloaded
    sanitized,    ///< its runtime wants to be the first library
    contained,    ///< it starts programs among other files, where the library is not
};

/// The program that `argv0` names in the rank's environment and folder; of a script, its
/// interpreter. Reads the disk.
ProgramKind kind_of_program(const std::string& argv0, const std::vector<std::string>& environment,
                            const std::string& workdir);

/// Why nothing is preloaded into it: "the program is static". Empty for one that is preloadable.
std::string why_not_preloaded(ProgramKind kind);

}  // namespace autolaunch::launcher
