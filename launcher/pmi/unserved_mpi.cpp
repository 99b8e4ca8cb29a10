#include "pmi/unserved_mpi.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "pmi/mpi_linkage.hpp"
#include "spawn/process_tree.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <system_error>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostProcesses = 64;

// What is mapped only after MPI_Init: Open MPI's segments and plugins, MPICH's and UCX's segments.
bool is_made_by_init(std::string_view file) {
    constexpr std::array<std::string_view, 6> kBeginnings = {
        "vader_segment.", "sm_segment.", "mca_pml_", "mpich_sh", "ucx_shm_", "Intel_MPI_"};
    return std::any_of(kBeginnings.begin(), kBeginnings.end(),
                       [&](std::string_view beginning) { return file.starts_with(beginning); });
}

// Where it is within the program, no memory map tells its name.
constexpr const char* kWithinProgram = "MPI";

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Intel's wheels have copies in the place of links, so a process may have one without a number.
bool is_mpi_library(std::string_view name) {
    return name == "libmpi.so" || mode_of_library(name) != MpiMode::none;
}

// They load what MPI_Init loads, to tell of it.
bool only_tells_of_mpi(std::string_view program) {
    const std::string_view name = last_part(program);
    return name == "ompi_info" || name == "oshmem_info";
}

// "/usr/lib/libmpi.so.40.30.4" of a line of maps; empty where it has no file.
std::string_view file_of(std::string_view line) {
    const std::size_t slash = line.find('/');
    return slash == std::string_view::npos ? std::string_view{} : line.substr(slash);
}

// "7f12a4000000" of a line of maps whose file begins there; else nothing.
std::optional<std::uint64_t> start_of_file(std::string_view line) {
    const std::size_t dash = line.find('-'), blank = line.find(' ');
    if (blank == std::string_view::npos || line.substr(blank).find(" 00000000 ") != 5)
        return std::nullopt;
    std::uint64_t start = 0;
    const auto end = std::from_chars(line.data(), line.data() + dash, start, 16);
    return end.ec == std::errc{} ? std::optional(start) : std::nullopt;
}

std::string read_or_nothing(const std::string& path) {
    try {
        return read_file(path);
    } catch (const Error&) {  // it has ended, or is not for us to look at
        return {};
    }
}

// A process with our variables is in MPI_Init for a while before it comes to us.
bool is_initialised(MpiState state, MpiIdentity identity) {
    return state == MpiState::done || (state == MpiState::begun && identity == MpiIdentity::none);
}

// The program itself, where MPI is within it. One that has our variables is not looked at: it would
// have come by them, and reading the symbols of each program takes long.
std::optional<MappedMpi> find_within_program(pid_t pid, std::string_view maps,
                                             MpiStateReader& states) {
    const std::string_view line = maps.substr(0, maps.find('\n'));
    const auto start = start_of_file(line);
    if (!start)
        return std::nullopt;
    const MpiState state = states.read(pid, {std::string(file_of(line)), *start});
    if (state == MpiState::unknown)
        return std::nullopt;
    return MappedMpi{.library = kWithinProgram,
                     .initialised = is_initialised(state, MpiIdentity::none),
                     .files = {}};
}

std::optional<MappedMpi> look_into(pid_t pid, MpiIdentity identity, MpiStateReader& states) {
    const std::string maps = read_or_nothing("/proc/" + std::to_string(pid) + "/maps");
    auto mpi = find_mapped_mpi(maps);
    if (!mpi)
        return identity == MpiIdentity::none ? find_within_program(pid, maps, states)
                                             : std::nullopt;
    for (const MappedFile& file : mpi->files)
        mpi->initialised = mpi->initialised || is_initialised(states.read(pid, file), identity);
    return mpi;
}

std::string program_of(const std::string& process) {
    const std::string line = read_or_nothing(process + "/cmdline");
    return line.substr(0, line.find('\0'));
}

}  // namespace

std::optional<MappedMpi> find_mapped_mpi(std::string_view maps) {
    MappedMpi found;
    std::string_view before;
    while (!maps.empty()) {
        const std::size_t end = std::min(maps.find('\n'), maps.size());
        const std::string_view line = maps.substr(0, end), file = file_of(line);
        maps.remove_prefix(std::min(end + 1, maps.size()));
        if (file.empty() || file == before)
            continue;
        before = file;
        const std::string_view name = last_part(file);
        if (is_mpi_library(name)) {
            if (found.library.empty())
                found.library = name;
            if (const auto start = start_of_file(line))
                found.files.push_back({std::string(file), *start});
        }
        found.initialised = found.initialised || is_made_by_init(name);
    }
    return found.library.empty() ? std::nullopt : std::optional(found);
}

MpiIdentity find_mpi_identity(std::string_view environment, const MpiNames& names) {
    MpiIdentity identity = MpiIdentity::none;
    while (!environment.empty()) {
        const std::size_t end = std::min(environment.find('\0'), environment.size());
        const std::string_view line = environment.substr(0, end);
        environment.remove_prefix(std::min(end + 1, environment.size()));
        const std::string_view name = line.substr(0, line.find('='));
        const std::string_view value = line.substr(std::min(name.size() + 1, line.size()));
        const std::string* expected = name == "PMIX_NAMESPACE" ? &names.name_space
                                      : name == "PMI_PORT"     ? &names.port
                                      : name == "PMI_FD"       ? &names.fd
                                                               : nullptr;
        if ((expected != nullptr && value != *expected) || (name == "PMI_RANK" && names.fd.empty()))
            return MpiIdentity::foreign;
        if (expected != nullptr)
            identity = MpiIdentity::ours;
    }
    return identity;
}

std::optional<UnservedMpi> find_unserved_mpi(pid_t rank, const MpiNames& names,
                                             MpiStateReader& states, bool only_unidentified) {
    std::optional<UnservedMpi> found;
    std::vector<pid_t> waiting = {rank};
    for (std::size_t i = 0; i < waiting.size() && i < kMostProcesses; ++i) {
        for (const pid_t child : list_children(waiting[i]))
            waiting.push_back(child);
        const std::string process = "/proc/" + std::to_string(waiting[i]);
        const auto identity = find_mpi_identity(read_or_nothing(process + "/environ"), names);
        if (identity == MpiIdentity::foreign ||
            (only_unidentified && identity == MpiIdentity::ours))
            continue;
        const auto mpi = look_into(waiting[i], identity, states);
        if (!mpi || (found && !mpi->initialised))
            continue;
        const std::string program = program_of(process);
        if (only_tells_of_mpi(program))
            continue;
        found = UnservedMpi{waiting[i], program, *mpi, identity};
        if (mpi->initialised)
            break;
    }
    return found;
}

}  // namespace autolaunch::launcher
