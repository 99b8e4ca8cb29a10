#include "pmi/elf_symbols.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostHeaders = 1024;
constexpr std::size_t kMostFound = 16;
constexpr std::uint64_t kMostTableBytes = std::uint64_t{32} << 20;

template <typename T>
bool load_from(std::string_view bytes, std::size_t offset, T& value) {
    if (offset > bytes.size() || bytes.size() - offset < sizeof(T))
        return false;
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return true;
}

bool is_readable(const Elf64_Ehdr& header) {
    return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
           header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB &&
           header.e_phentsize == sizeof(Elf64_Phdr) && header.e_phnum <= kMostHeaders &&
           header.e_shentsize == sizeof(Elf64_Shdr) && header.e_shnum <= kMostHeaders;
}

template <typename T>
std::vector<T> read_table(const ReadAt& read_at, std::uint64_t offset, std::size_t count) {
    const std::string bytes = read_at(offset, count * sizeof(T));
    std::vector<T> table(bytes.size() / sizeof(T));
    for (std::size_t i = 0; i < table.size(); ++i)
        load_from(bytes, i * sizeof(T), table[i]);
    return table;
}

std::string read_section(const ReadAt& read_at, const Elf64_Shdr& section) {
    return read_at(section.sh_offset, std::min<std::uint64_t>(section.sh_size, kMostTableBytes));
}

bool is_at(std::string_view texts, std::size_t at, std::string_view name) {
    return at < texts.size() && texts.size() - at > name.size() &&
           texts.substr(at, name.size()) == name && texts[at + name.size()] == '\0';
}

// One that is in both tables is found twice, and is the same.
void look_through(std::string_view symbols, std::string_view texts,
                  std::span<const std::string_view> names, std::vector<ElfVariable>& found) {
    Elf64_Sym symbol;
    for (std::size_t at = 0; load_from(symbols, at, symbol); at += sizeof symbol) {
        if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_shndx == SHN_UNDEF ||
            symbol.st_size < sizeof(std::int32_t))
            continue;
        for (std::size_t name = 0; name < names.size(); ++name)
            if (is_at(texts, symbol.st_name, names[name]) && found.size() < kMostFound)
                found.push_back({.address = symbol.st_value, .name = name});
    }
}

}  // namespace

std::vector<ElfVariable> find_elf_variables(const ReadAt& read_at,
                                            std::span<const std::string_view> names) {
    Elf64_Ehdr header;
    if (!load_from(read_at(0, sizeof header), 0, header) || !is_readable(header))
        return {};
    std::vector<ElfVariable> found;
    const auto sections = read_table<Elf64_Shdr>(read_at, header.e_shoff, header.e_shnum);
    for (const Elf64_Shdr& section : sections)
        if ((section.sh_type == SHT_DYNSYM || section.sh_type == SHT_SYMTAB) &&
            section.sh_link < sections.size())
            look_through(read_section(read_at, section),
                         read_section(read_at, sections[section.sh_link]), names, found);
    const auto segments = read_table<Elf64_Phdr>(read_at, header.e_phoff, header.e_phnum);
    const auto first = std::find_if(segments.begin(), segments.end(), [](const Elf64_Phdr& one) {
        return one.p_type == PT_LOAD && one.p_offset == 0;
    });
    if (first == segments.end())
        return {};
    std::erase_if(found, [&](const ElfVariable& one) { return one.address < first->p_vaddr; });
    for (ElfVariable& one : found)
        one.base = first->p_vaddr;
    std::stable_sort(found.begin(), found.end(),
                     [](const ElfVariable& a, const ElfVariable& b) { return a.name < b.name; });
    return found;
}

}  // namespace autolaunch::launcher
