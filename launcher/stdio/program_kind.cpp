#include "stdio/program_kind.hpp"

#include "pmi/elf_file.hpp"
#include "spawn/program_search.hpp"

#include <elf.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr int kMostScripts = 4;  // as the kernel has it: an interpreter may be a script

#if defined(__x86_64__)
constexpr unsigned kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kMachine = EM_AARCH64;
#else
constexpr unsigned kMachine = EM_PPC64;
#endif

constexpr std::array<std::string_view, 14> kContainers = {
    "apptainer", "bwrap",  "ch-run", "charliecloud", "chroot",      "docker",  "enroot",
    "nerdctl",   "podman", "proot",  "sarus",        "singularity", "shifter", "udocker"};

// In the program's table of dynamic names, whether it imports them or has them inside.
constexpr std::array<std::string_view, 5> kSanitizers = {
    "__asan_init", "__hwasan_init", "__lsan_init", "__msan_init", "__tsan_init"};
constexpr std::array<std::string_view, 5> kSanitizerLibraries = {
    "libasan.so", "libhwasan.so", "liblsan.so", "libtsan.so", "libclang_rt."};

bool is_sanitized(const ElfFile& file, const fs::path& path) {
    const auto is_runtime = [](const std::string& library) {
        return std::any_of(kSanitizerLibraries.begin(), kSanitizerLibraries.end(),
                           [&](auto name) { return library.starts_with(name); });
    };
    if (std::any_of(file.needed.begin(), file.needed.end(), is_runtime))
        return true;
    const std::string names = read_dynamic_names(path, file);
    return std::any_of(kSanitizers.begin(), kSanitizers.end(), [&](std::string_view name) {
        return names.find('\0' + std::string(name) + '\0') != std::string::npos;
    });
}

// Secure execution, as ld.so(8) calls it.
bool is_privileged(const fs::path& path) {
    struct stat facts {};
    if (::stat(path.c_str(), &facts) == 0 && (facts.st_mode & (S_ISUID | S_ISGID)) != 0)
        return true;
    return ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

bool is_glibc(const std::string& interpreter) {
    const std::string name = fs::path(interpreter).filename();
    return name.starts_with("ld-linux") || name.starts_with("ld64.so") || name == "ld.so";
}

ProgramKind kind_of_file(const fs::path& path) {
    const auto file = read_elf(path);
    if (!file || file->machine != kMachine)
        return ProgramKind::foreign;
    if (file->interpreter.empty())
        return ProgramKind::fixed;
    if (!is_glibc(file->interpreter))
        return ProgramKind::other_libc;
    if (is_privileged(path))
        return ProgramKind::privileged;
    return is_sanitized(*file, path) ? ProgramKind::sanitized : ProgramKind::preloadable;
}

}  // namespace

ProgramKind kind_of_program(const std::string& argv0, const std::vector<std::string>& environment,
                            const std::string& workdir) {
    const std::string name = fs::path(argv0).filename();
    if (std::find(kContainers.begin(), kContainers.end(), name) != kContainers.end())
        return ProgramKind::contained;
    const ProgramSearch found = find_program(argv0, environment, workdir);
    if (found.error_number != 0)
        return ProgramKind::missing;
    fs::path path = fs::path(workdir) / found.path;
    for (int scripts = 0; scripts < kMostScripts; ++scripts) {
        const std::string interpreter = interpreter_of(path);
        if (interpreter.empty())
            return kind_of_file(path);
        path = fs::path(workdir) / interpreter;
    }
    return ProgramKind::missing;
}

std::string why_not_preloaded(ProgramKind kind) {
    switch (kind) {
        case ProgramKind::preloadable:
            return {};
        case ProgramKind::missing:
            return "the program was not found";
        case ProgramKind::foreign:
            return "the program is no 64-bit ELF file of this machine";
        case ProgramKind::fixed:
            return "the program is static";
        case ProgramKind::other_libc:
            return "the program's C library is not glibc";
        case ProgramKind::privileged:
            return "the program is set-uid, and its loader preloads nothing";
        case ProgramKind::sanitized:
            return "the program has a sanitizer, which must come first";
        case ProgramKind::contained:
            return "what runs in a container does not see the library";
    }
    return {};
}

}  // namespace autolaunch::launcher
