#include "pmi/unserved_mpi.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "pmi/mpi_linkage.hpp"
#include "spawn/process_tree.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <array>

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

std::string read_or_nothing(const std::string& path) {
    try {
        return read_file(path);
    } catch (const Error&) {  // it has ended, or is not for us to look at
        return {};
    }
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
        const std::string_view file = file_of(maps.substr(0, end));
        maps.remove_prefix(std::min(end + 1, maps.size()));
        if (file.empty() || file == before)
            continue;
        before = file;
        const std::string_view name = last_part(file);
        if (found.library.empty() && is_mpi_library(name))
            found.library = name;
        found.initialised = found.initialised || is_made_by_init(name);
    }
    return found.library.empty() ? std::nullopt : std::optional(found);
}

MpiIdentity find_mpi_identity(std::string_view environment, std::string_view name_space,
                              std::string_view port) {
    MpiIdentity identity = MpiIdentity::none;
    while (!environment.empty()) {
        const std::size_t end = std::min(environment.find('\0'), environment.size());
        const std::string_view line = environment.substr(0, end);
        environment.remove_prefix(std::min(end + 1, environment.size()));
        const std::string_view name = line.substr(0, line.find('='));
        const std::string_view value = line.substr(std::min(name.size() + 1, line.size()));
        const bool is_pmix = name == "PMIX_NAMESPACE", is_port = name == "PMI_PORT";
        if (name == "PMI_FD" || name == "PMI_RANK" || (is_pmix && value != name_space) ||
            (is_port && value != port))
            return MpiIdentity::foreign;
        if (is_pmix || is_port)
            identity = MpiIdentity::ours;
    }
    return identity;
}

std::optional<UnservedMpi> find_unserved_mpi(pid_t rank, std::string_view name_space,
                                             std::string_view port, bool only_unidentified) {
    std::optional<UnservedMpi> found;
    std::vector<pid_t> waiting = {rank};
    for (std::size_t i = 0; i < waiting.size() && i < kMostProcesses; ++i) {
        for (const pid_t child : list_children(waiting[i]))
            waiting.push_back(child);
        const std::string process = "/proc/" + std::to_string(waiting[i]);
        const auto identity =
            find_mpi_identity(read_or_nothing(process + "/environ"), name_space, port);
        if (identity == MpiIdentity::foreign ||
            (only_unidentified && identity == MpiIdentity::ours))
            continue;
        const auto mpi = find_mapped_mpi(read_or_nothing(process + "/maps"));
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
