#include "pmi/mpi_state.hpp"

#include "base/unique_fd.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {

struct StateVariable {
    std::string_view name;
    std::int32_t done;  ///< from this value on MPI_Init is over; below it, but 0, it may be
};

// What they mean is in the sources of MPICH (4, 3.2 to 4.0) and of Open MPI (3.1 and newer). A file
// with the first one has something else behind the second name. The last one is set by whatever
// begins with MPI, and long before the others: Intel's MPI_Init takes a quarter of a second.
constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();
constexpr std::array<StateVariable, 4> kVariables = {{{"MPIR_world_model_state", 1},
                                                      {"MPIR_Process", 2},
                                                      {"ompi_mpi_state", 2},
                                                      {"MPIR_T_env_initialized", kNever}}};
constexpr std::array<std::string_view, kVariables.size()> kNames = {
    kVariables[0].name, kVariables[1].name, kVariables[2].name, kVariables[3].name};
constexpr std::size_t kBeginning = 3;
constexpr std::size_t kFirstBytes = 4096;  // the header, and of newer files the number of the build
constexpr std::size_t kMostKnown = 256;

std::string read_bytes_at(int fd, std::uint64_t offset, std::size_t size) {
    if (offset > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()))
        return {};
    std::string bytes(size, '\0');
    const ssize_t count = ::pread(fd, bytes.data(), size, static_cast<off_t>(offset));
    bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return bytes;
}

UniqueFd open_to_read(const std::string& path) {
    return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

// The same path may be another file, in a container or after an installation.
std::string describe_file(const std::string& path, int fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
        return {};
    return path + ' ' + std::to_string(status.st_dev) + ' ' + std::to_string(status.st_ino) + ' ' +
           std::to_string(status.st_mtim.tv_sec) + '.' + std::to_string(status.st_mtim.tv_nsec);
}

}  // namespace

MpiState mpi_state_of(std::size_t variable, std::int32_t value) {
    if (variable >= kVariables.size())
        return MpiState::unknown;
    if (value == 0)
        return MpiState::untouched;
    return value >= kVariables[variable].done ? MpiState::done : MpiState::begun;
}

MpiState MpiStateReader::read(pid_t process, const MappedFile& file) {
    const std::string folder = "/proc/" + std::to_string(process);
    const UniqueFd image = open_to_read(folder + "/root" + file.path);
    const std::string name = image ? describe_file(file.path, image.get()) : std::string();
    if (name.empty())
        return MpiState::unknown;
    const auto& variables = variables_of(name, image.get());
    if (variables.empty())
        return MpiState::unknown;
    const UniqueFd memory = open_to_read(folder + "/mem");
    if (!memory || read_bytes_at(memory.get(), file.start, kFirstBytes) !=
                       read_bytes_at(image.get(), 0, kFirstBytes))
        return MpiState::unknown;
    MpiState state = MpiState::unknown;
    for (const ElfVariable& variable : variables) {
        const std::string bytes = read_bytes_at(
            memory.get(), file.start + (variable.address - variable.base), sizeof(std::int32_t));
        std::int32_t value = 0;
        if (bytes.size() != sizeof value)
            return MpiState::unknown;
        std::memcpy(&value, bytes.data(), sizeof value);
        state = std::max(state, mpi_state_of(variable.name, value));
    }
    return state;
}

// The first that says how far it is, and the one that says that it has begun.
const std::vector<ElfVariable>& MpiStateReader::variables_of(const std::string& name, int image) {
    if (known_.size() >= kMostKnown)
        known_.clear();
    const auto known = known_.find(name);
    if (known != known_.end())
        return known->second;
    std::vector<ElfVariable> found = find_elf_variables(
        [&](std::uint64_t offset, std::size_t size) { return read_bytes_at(image, offset, size); },
        kNames);
    if (!found.empty())
        std::erase_if(found, [first = found.front().name](const ElfVariable& one) {
            return one.name != first && one.name != kBeginning;
        });
    return known_.emplace(name, std::move(found)).first->second;
}

}  // namespace autolaunch::launcher
