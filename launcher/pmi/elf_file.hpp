#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What an ELF file says of the libraries that it needs.
struct ElfFile {
    std::vector<std::string> needed;  ///< DT_NEEDED, in order
    std::string rpath, runpath;       ///< folders between colons, with $ORIGIN as it stands
    std::string interpreter;          ///< the loader; empty: the program is static
    unsigned machine = 0;             ///< EM_X86_64, …
    std::uint64_t names_at = 0;       ///< of the dynamic names, in the file
    std::uint64_t names_bytes = 0;
    bool has_our_note =
        false;  ///< libautolaunch's communicators are in it, and may be why it needs MPI
};

/// Up to `size` bytes at `offset`; fewer at the end of the file.
using ReadAt = std::function<std::string(std::uint64_t offset, std::size_t size)>;

/// Nothing for what is no 64-bit little-endian ELF file, or contradicts itself. Reads a bounded
/// number of bytes whatever the file says, and believes no offset or size in it.
std::optional<ElfFile> parse_elf(const ReadAt& read_at);

/// The same of a file; nothing too when it cannot be read.
std::optional<ElfFile> read_elf(const std::filesystem::path& path);

/// The names of what it takes from libraries and gives to them, each between zeros; at most some
/// megabytes. Empty when they cannot be read.
std::string read_dynamic_names(const std::filesystem::path& path, const ElfFile& file);

}  // namespace autolaunch::launcher
