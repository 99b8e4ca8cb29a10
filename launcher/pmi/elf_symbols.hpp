#pragma once
#include "pmi/elf_file.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// A variable of an ELF file.
struct ElfVariable {
    std::uint64_t address = 0;  ///< as the file has it
    std::uint64_t base = 0;     ///< of the segment that begins with the file's first byte
    std::size_t name = 0;       ///< which of the names it has
};

/// The variables with these names, in their order, from the file's tables of symbols (for the
/// loader, and for debuggers where they were left in). Nothing for what is no such ELF file, or
/// contradicts itself. Reads a bounded number of bytes and believes none.
std::vector<ElfVariable> find_elf_variables(const ReadAt& read_at,
                                            std::span<const std::string_view> names);

}  // namespace autolaunch::launcher
