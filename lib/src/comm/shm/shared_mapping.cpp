#include "comm/shm/shared_mapping.hpp"

#include "base/hash.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace autolaunch::shm {
namespace {

constexpr char kOpenHint[] =
    "the ranks of a node must run as one user, in one PID namespace, with /proc mounted; else "
    "choose backend mpi";

UniqueFd open_published(const std::string& pid, const std::string& descriptor) {
    const std::string path = "/proc/" + pid + "/fd/" + descriptor;
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (fd)
        return fd;
    if (errno == ENOENT) {
        throw Error(ErrorCode::closed,
                    fmt::format("pid {} went away before all ranks shared its memory", pid),
                    kOpenHint);
    }
    throw SystemError(errno, "open another rank's shared memory " + path, kOpenHint);
}

// MADV_POPULATE_READ and _WRITE, which libraries older than the kernel do not name.
constexpr int kPopulateRead = 22, kPopulateWrite = 23;

bool advise(std::byte* begin, std::size_t bytes, int advice) {
    int result = 0;
    do {
        result = ::madvise(begin, bytes, advice);
    } while (result != 0 && errno == EINTR);
    return result == 0;
}

// A huge page needs an address that is a multiple of its size: a larger range is reserved, and cut
// to fit.
std::byte* map_aligned(int fd, std::size_t bytes) {
    const std::size_t reserved = bytes + SharedMapping::kHugePage;
    void* const range =
        ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
        return nullptr;
    auto* const begin = static_cast<std::byte*>(range);
    const auto address = reinterpret_cast<std::uintptr_t>(begin);
    const std::size_t skip =
        (SharedMapping::kHugePage - address % SharedMapping::kHugePage) % SharedMapping::kHugePage;
    constexpr int kFlags = MAP_SHARED | MAP_NORESERVE | MAP_FIXED;
    const bool mapped =
        ::mmap(begin + skip, bytes, PROT_READ | PROT_WRITE, kFlags, fd, 0) != MAP_FAILED;
    const int reason = errno;
    constexpr std::size_t kPage = 4096;
    const std::size_t end = (skip + bytes + kPage - 1) / kPage * kPage;
    if (!mapped) {
        ::munmap(range, reserved);
        errno = reason;
        return nullptr;
    }
    if (skip != 0)
        ::munmap(range, skip);
    if (end < reserved)
        ::munmap(begin + end, reserved - end);
    return begin + skip;
}

}  // namespace

SharedMapping::SharedMapping(UniqueFd fd, std::size_t bytes, std::string address)
    : fd_(std::move(fd)),
      bytes_(bytes),
      address_(std::move(address)),
      base_(map_aligned(fd_.get(), bytes)) {
    if (base_ == nullptr)
        throw SystemError(errno, fmt::format("map {} bytes of shared memory", bytes));
}

SharedMapping::SharedMapping(SharedMapping&& other) noexcept
    : fd_(std::move(other.fd_)),
      bytes_(other.bytes_),
      address_(std::move(other.address_)),
      base_(std::exchange(other.base_, nullptr)) {}

SharedMapping::~SharedMapping() {
    if (base_ != nullptr)
        ::munmap(base_, bytes_);
}

SharedMapping SharedMapping::create(const char* name, std::size_t bytes) {
    UniqueFd fd(::memfd_create(name, MFD_CLOEXEC));
    if (!fd)
        throw SystemError(errno, "create shared memory (memfd)");
    if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
        throw SystemError(errno, fmt::format("size shared memory to {}", bytes));
    const std::string token = random_hex(16);
    std::string address = fmt::format("{} {} {}", ::getpid(), fd.get(), token);
    SharedMapping mapping(std::move(fd), bytes, std::move(address));
    std::memcpy(mapping.data(), token.data(), token.size());
    return mapping;
}

std::optional<SharedMapping> SharedMapping::attach(const std::string& address, std::size_t bytes) {
    const auto parts = split(address, ' ');
    if (parts.size() != 3) {
        throw Error(ErrorCode::corrupt,
                    "another rank published '" + address + "' as its shared memory");
    }
    UniqueFd fd = open_published(parts[0], parts[1]);
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0)
        throw SystemError(errno, "examine another rank's shared memory");
    if (static_cast<std::size_t>(status.st_size) != bytes)
        return std::nullopt;
    SharedMapping mapping(std::move(fd), bytes, address);
    mapping.close_to_newcomers();
    if (std::strncmp(reinterpret_cast<const char*>(mapping.data()), parts[2].c_str(),
                     kTokenBytes) != 0)
        return std::nullopt;
    return mapping;
}

void SharedMapping::advise_huge_pages(std::size_t offset) noexcept {
#if defined(MADV_HUGEPAGE)
    if (offset < bytes_)
        ::madvise(base_ + offset, bytes_ - offset, MADV_HUGEPAGE);
#endif
}

bool SharedMapping::take_pages(std::size_t offset, std::size_t bytes) const noexcept {
    return advise(base_ + offset, bytes, kPopulateWrite) || errno == EINVAL;
}

void SharedMapping::map_pages(std::size_t offset, std::size_t bytes) const noexcept {
    advise(base_ + offset, bytes, kPopulateRead);
}

}  // namespace autolaunch::shm
