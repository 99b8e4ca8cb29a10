#pragma once
#include "pmi/elf_file.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace autolaunch::launcher {

/// A variable of an ELF file.
struct ElfVariable {
    std::uint64_t address = 0;  ///< as the file has it
    std::uint64_t base = 0;     ///< of the segment that begins with the file's first byte
    std::size_t name = 0;       ///< which of the names it has
};

/// The variable with the first of `names` that the file has, in its tables of symbols (for the
/// loader, and for debuggers where they were left in). Nothing too for what is no such ELF file, or
/// contradicts itself. Reads a bounded number of bytes and believes none.
std::optional<ElfVariable> find_elf_variable(const ReadAt& read_at,
                                             std::span<const std::string_view> names);

}  // namespace autolaunch::launcher
