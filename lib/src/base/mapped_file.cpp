#include "base/mapped_file.hpp"

#include <autolaunch/error.hpp>

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

namespace autolaunch {

MappedFile::MappedFile(int fd, const std::string& what) {
    struct stat facts {};
    if (fd < 0 || ::fstat(fd, &facts) != 0)
        throw SystemError(errno, what);
    if (facts.st_size == 0)
        return;
    const auto bytes = static_cast<std::size_t>(facts.st_size);
    void* const start = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (start == MAP_FAILED)
        throw SystemError(errno, what);
    start_ = start;
    bytes_ = bytes;
    ::madvise(start_, bytes_, MADV_SEQUENTIAL);
}

MappedFile::~MappedFile() {
    if (start_ != nullptr)
        ::munmap(start_, bytes_);
}

}  // namespace autolaunch
