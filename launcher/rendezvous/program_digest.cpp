#include "rendezvous/program_digest.hpp"

#include "base/file_io.hpp"
#include "base/hash.hpp"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

namespace {

std::size_t padded(std::size_t bytes) { return (bytes + 3) & ~std::size_t{3}; }

/// The GNU build id among the notes of one segment; empty when it is not there.
std::string_view find_build_id(std::string_view notes) {
    while (notes.size() >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) header;
        std::memcpy(&header, notes.data(), sizeof header);
        const std::size_t name_at = sizeof header;
        const std::size_t id_at = name_at + padded(header.n_namesz);
        if (id_at + header.n_descsz > notes.size())
            return {};
        const std::string_view name = notes.substr(name_at, header.n_namesz);
        if (header.n_type == NT_GNU_BUILD_ID && name == std::string_view("GNU\0", 4))
            return notes.substr(id_at, header.n_descsz);
        notes.remove_prefix(std::min(notes.size(), id_at + padded(header.n_descsz)));
    }
    return {};
}

// The first object is the program itself.
int read_program(dl_phdr_info* info, std::size_t, void* found) {
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)& segment = info->dlpi_phdr[i];
        if (segment.p_type != PT_NOTE)
            continue;
        const auto* bytes = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
        const std::string_view id = find_build_id({bytes, segment.p_memsz});
        if (!id.empty())
            static_cast<std::string*>(found)->assign(id);
    }
    return 1;
}

}  // namespace

std::uint64_t program_digest() {
    std::string identity;
    ::dl_iterate_phdr(read_program, &identity);
    if (identity.empty())
        identity = read_file("/proc/self/exe");
    return hash64(identity.data(), identity.size());
}

}  // namespace autolaunch::launcher
