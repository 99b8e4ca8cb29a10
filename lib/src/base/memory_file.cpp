#include "base/memory_file.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace autolaunch {

UniqueFd create_memory_file(const char* name, std::uint64_t bytes) {
    constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    constexpr unsigned kNoExec =
        8;  // MFD_NOEXEC_SEAL, of Linux 6.3, which a site may demand (vm.memfd_noexec)
    UniqueFd file(::memfd_create(name, kFlags | kNoExec));
    if (!file)
        file.reset(::memfd_create(name, kFlags));
    if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
        ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return UniqueFd();
    return file;
}

SharedMapping::SharedMapping(const UniqueFd& file, std::uint64_t bytes) : bytes_(bytes) {
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED)
        throw SystemError(errno, "map " + std::to_string(bytes) + " bytes of shared memory");
    data_ = static_cast<std::byte*>(memory);
    ::madvise(memory, bytes,
              MADV_HUGEPAGE);  // where the system has them for shared memory; else nothing happens
}

SharedMapping::SharedMapping(SharedMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

SharedMapping& SharedMapping::operator=(SharedMapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

SharedMapping::~SharedMapping() {
    if (data_ != nullptr)
        ::munmap(data_, bytes_);
}

}  // namespace autolaunch
