#include "pmi/mpi_state.hpp"

#include "base/unique_fd.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <limits>
#include <string_view>

namespace autolaunch::launcher {

namespace {

struct StateVariable {
    std::string_view name;
    std::int32_t done;  ///< from this value on MPI_Init is over; below it, but 0, it may be
};

// What they mean is in the sources of MPICH (4, 3.2 to 4.0) and of Open MPI (3.1 and newer).
constexpr std::array<StateVariable, 3> kVariables = {
    {{"MPIR_world_model_state", 1}, {"MPIR_Process", 2}, {"ompi_mpi_state", 2}}};
constexpr std::array<std::string_view, kVariables.size()> kNames = {
    kVariables[0].name, kVariables[1].name, kVariables[2].name};
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
    if (known_.size() >= kMostKnown)
        known_.clear();
    auto known = known_.find(name);
    if (known == known_.end())
        known = known_
                    .emplace(name, find_elf_variable(
                                       [&](std::uint64_t offset, std::size_t size) {
                                           return read_bytes_at(image.get(), offset, size);
                                       },
                                       kNames))
                    .first;
    const auto& variable = known->second;
    if (!variable)
        return MpiState::unknown;
    const UniqueFd memory = open_to_read(folder + "/mem");
    if (!memory || read_bytes_at(memory.get(), file.start, kFirstBytes) !=
                       read_bytes_at(image.get(), 0, kFirstBytes))
        return MpiState::unknown;
    const std::string bytes = read_bytes_at(
        memory.get(), file.start + (variable->address - variable->base), sizeof(std::int32_t));
    std::int32_t value = 0;
    if (bytes.size() != sizeof value)
        return MpiState::unknown;
    std::memcpy(&value, bytes.data(), sizeof value);
    return mpi_state_of(variable->name, value);
}

}  // namespace autolaunch::launcher
