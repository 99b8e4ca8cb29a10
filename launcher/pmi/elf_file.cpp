#include "pmi/elf_file.hpp"

#include "base/file_io.hpp"

#include <autolaunch/error.hpp>

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string_view>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostSegments = 256;
constexpr std::size_t kMostDynamicBytes = std::size_t{64} << 10;
constexpr std::size_t kMostNoteBytes = std::size_t{64} << 10;
constexpr std::size_t kMostNeeded = 256;
constexpr std::size_t kLongestText =
    4096;  // PATH_MAX; a list of folders may be longer, and is then cut
constexpr std::uint64_t kMostNameBytes = std::uint64_t{8} << 20;
constexpr std::string_view kOurNote = "autolaunch";

class Parser {
public:
    explicit Parser(const ReadAt& read_at) : read_at_(read_at) {}

    std::optional<ElfFile> parse() {
        if (!read_header() || !read_segments())
            return std::nullopt;
        for (const Elf64_Phdr& segment : segments_) {
            if (segment.p_type == PT_DYNAMIC && !read_dynamic(segment))
                return std::nullopt;
            if (segment.p_type == PT_NOTE)
                read_notes(segment);
            if (segment.p_type == PT_INTERP)
                read_interpreter(segment);
        }
        file_.machine = header_.e_machine;
        return std::move(file_);
    }

private:
    template <typename T>
    static bool load(std::string_view bytes, std::size_t offset, T& value) {
        if (offset > bytes.size() || bytes.size() - offset < sizeof(T))
            return false;
        std::memcpy(&value, bytes.data() + offset, sizeof(T));
        return true;
    }

    bool read_header() {
        const std::string bytes = read_at_(0, sizeof header_);
        return load(bytes, 0, header_) && std::memcmp(header_.e_ident, ELFMAG, SELFMAG) == 0 &&
               header_.e_ident[EI_CLASS] == ELFCLASS64 && header_.e_ident[EI_DATA] == ELFDATA2LSB &&
               header_.e_phentsize == sizeof(Elf64_Phdr) && header_.e_phnum <= kMostSegments;
    }

    bool read_segments() {
        const std::string bytes = read_at_(header_.e_phoff, header_.e_phnum * sizeof(Elf64_Phdr));
        for (std::size_t i = 0; i < header_.e_phnum; ++i) {
            Elf64_Phdr segment;
            if (!load(bytes, i * sizeof segment, segment))
                return false;
            segments_.push_back(segment);
        }
        return true;
    }

    // The dynamic section names addresses; the loadable segments say where in the file they are.
    std::optional<std::uint64_t> offset_of(std::uint64_t address) const {
        for (const Elf64_Phdr& segment : segments_)
            if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
                address - segment.p_vaddr < segment.p_filesz &&
                segment.p_offset <= std::numeric_limits<std::uint64_t>::max() - segment.p_filesz)
                return segment.p_offset + (address - segment.p_vaddr);
        return std::nullopt;
    }

    bool read_dynamic(const Elf64_Phdr& segment) {
        const std::string bytes = read_at_(
            segment.p_offset, std::min<std::uint64_t>(segment.p_filesz, kMostDynamicBytes));
        std::uint64_t strings = 0, strings_size = 0, rpath = 0, runpath = 0;
        std::vector<std::uint64_t> needed;
        Elf64_Dyn entry;
        for (std::size_t at = 0; load(bytes, at, entry) && entry.d_tag != DT_NULL;
             at += sizeof entry) {
            const std::uint64_t value = entry.d_un.d_val;
            if (entry.d_tag == DT_STRTAB)
                strings = value;
            if (entry.d_tag == DT_STRSZ)
                strings_size = value;
            if (entry.d_tag == DT_RPATH)
                rpath = value;
            if (entry.d_tag == DT_RUNPATH)
                runpath = value;
            if (entry.d_tag == DT_NEEDED && needed.size() < kMostNeeded)
                needed.push_back(value);
        }
        const auto offset = offset_of(strings);
        if (!offset)
            return needed.empty();
        file_.names_at = *offset;
        file_.names_bytes = strings_size;
        const auto text = [&](std::uint64_t index) {
            if (index >= strings_size ||
                *offset > std::numeric_limits<std::uint64_t>::max() - index)
                return std::string();
            std::string found = read_at_(
                *offset + index, std::min<std::uint64_t>(strings_size - index, kLongestText));
            found.resize(std::min(found.find('\0'), found.size()));
            return found;
        };
        for (const std::uint64_t index : needed)
            if (std::string name = text(index); !name.empty())
                file_.needed.push_back(std::move(name));
        if (rpath != 0)
            file_.rpath = text(rpath);
        if (runpath != 0)
            file_.runpath = text(runpath);
        return true;
    }

    void read_interpreter(const Elf64_Phdr& segment) {
        file_.interpreter =
            read_at_(segment.p_offset, std::min<std::uint64_t>(segment.p_filesz, kLongestText));
        file_.interpreter.resize(std::min(file_.interpreter.find('\0'), file_.interpreter.size()));
    }

    void read_notes(const Elf64_Phdr& segment) {
        const std::string bytes =
            read_at_(segment.p_offset, std::min<std::uint64_t>(segment.p_filesz, kMostNoteBytes));
        const std::size_t alignment = segment.p_align == 8 ? 8 : 4;
        const auto aligned = [&](std::size_t size) {
            return (size + alignment - 1) / alignment * alignment;
        };
        Elf64_Nhdr note;
        for (std::size_t at = 0; load(bytes, at, note);) {
            const std::size_t name = at + sizeof note;
            if (note.n_namesz == kOurNote.size() + 1 &&
                std::string_view(bytes).substr(name, kOurNote.size()) == kOurNote)
                file_.has_our_note = true;
            at = name + aligned(note.n_namesz);  // cannot wrap: sizes are 32 bits
            at += aligned(note.n_descsz);
        }
    }

    const ReadAt& read_at_;
    Elf64_Ehdr header_{};
    std::vector<Elf64_Phdr> segments_;
    ElfFile file_;
};

UniqueFd open_to_look(const std::filesystem::path& path) {
    // A FIFO must not hold us.
    return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

ReadAt reader_of(int fd) {
    return [fd](std::uint64_t offset, std::size_t size) {
        std::string bytes(size, '\0');
        if (offset > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()))
            return std::string();
        const ssize_t count = ::pread(fd, bytes.data(), size, static_cast<off_t>(offset));
        bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
        return bytes;
    };
}

}  // namespace

std::optional<ElfFile> parse_elf(const ReadAt& read_at) { return Parser(read_at).parse(); }

std::optional<ElfFile> read_elf(const std::filesystem::path& path) {
    const UniqueFd fd = open_to_look(path);
    return fd ? parse_elf(reader_of(fd.get())) : std::nullopt;
}

std::string read_dynamic_names(const std::filesystem::path& path, const ElfFile& file) {
    const UniqueFd fd = open_to_look(path);
    if (!fd || file.names_bytes == 0)
        return {};
    return reader_of(fd.get())(file.names_at, std::min(file.names_bytes, kMostNameBytes));
}

}  // namespace autolaunch::launcher
