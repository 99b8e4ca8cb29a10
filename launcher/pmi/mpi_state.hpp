#pragma once
#include "pmi/elf_symbols.hpp"

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// How far a process is with MPI, by a variable of its library.
enum class MpiState {
    unknown,    ///< the library has no such variable, or it is not for us to read
    untouched,  ///< nobody has called MPI_Init
    begun,      ///< in MPI_Init or behind it
    done,       ///< behind it
};

/// What the value of the variable with this number (ElfVariable::name) says. Pure.
MpiState mpi_state_of(std::size_t variable, std::int32_t value);

/// A program or library in the memory of a process.
struct MappedFile {
    std::string path;         ///< as the process sees it
    std::uint64_t start = 0;  ///< where the file's first byte is
};

/// Reads the variables in which MPI libraries keep whether MPI_Init was called: of Open MPI, of
/// MPICH and its relatives where they kept the names for debuggers, as Intel MPI and programs with
/// MPI within do.
///
/// Owner: MpiWatch. Threads: one. Blocks: reads a file's tables of symbols once, and /proc.
class MpiStateReader {
public:
    MpiState read(pid_t process, const MappedFile& file);

private:
    const std::vector<ElfVariable>& variables_of(const std::string& name, int image);

    std::map<std::string, std::vector<ElfVariable>> known_;  ///< by file, place and time
};

}  // namespace autolaunch::launcher
