#include "comm/shm/shared_mapping.hpp"

#include "base/hash.hpp"
#include "base/memory_file.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <utility>

namespace autolaunch::shm {
namespace {

constexpr char kOpenHint[] =
    "the ranks of a node must run as one user, in one PID namespace, with /proc mounted; else "
    "choose backend mpi";

constexpr std::size_t kTokenDigits = 32;

/// What "<pid> <descriptor> <token>" says.
struct Published {
    int pid, descriptor;
    std::string token;
};

// Digits alone: what another process wrote leads to a number or nowhere.
std::optional<int> parse_number(const std::string& text) {
    long long number = 0;
    const bool digits = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
    if (!digits || !parse_integer(text, number) || number > INT_MAX)
        return std::nullopt;
    return static_cast<int>(number);
}

// The text is shown to nobody: who wrote it is not known yet.
Published parse_address(const std::string& address) {
    const auto parts = split(address, ' ');
    if (parts.size() == 3 && parts[2].size() == kTokenDigits &&
        parts[2].find_first_not_of("0123456789abcdef") == std::string::npos) {
        const auto pid = parse_number(parts[0]), descriptor = parse_number(parts[1]);
        if (pid && descriptor && *pid > 0)
            return {*pid, *descriptor, parts[2]};
    }
    throw Error(ErrorCode::corrupt, "what a rank published is no address of shared memory",
                "the ranks run different releases, or somebody else writes into the job's store");
}

[[noreturn]] void refuse_foreign(const Published& published, const char* why) {
    throw Error(ErrorCode::corrupt,
                fmt::format("descriptor {} of pid {}, which was published as a rank's shared "
                            "memory, {}",
                            published.descriptor, published.pid, why),
                "somebody else writes into the job's store, or the ranks run as several users");
}

UniqueFd open_descriptor(const Published& published, int flags) {
    const std::string path = fmt::format("/proc/{}/fd/{}", published.pid, published.descriptor);
    UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC));
    if (fd)
        return fd;
    if (errno == ENOENT) {
        throw Error(
            ErrorCode::closed,
            fmt::format("pid {} went away before all ranks shared its memory", published.pid),
            kOpenHint);
    }
    throw SystemError(errno, "open another rank's shared memory " + path, kOpenHint);
}

/// Looks before it opens: a device or a pipe would already be touched by that. Only a memory file
/// that our own user made, and whose size is sealed, is memory of a rank's.
UniqueFd open_published(const Published& published, std::size_t& bytes) {
    const UniqueFd found = open_descriptor(published, O_PATH);
    struct stat status {};
    if (::fstat(found.get(), &status) != 0)
        throw SystemError(errno, "examine another rank's shared memory");
    if (!S_ISREG(status.st_mode) || status.st_nlink != 0)
        refuse_foreign(published, "is no memory file");
    if (status.st_uid != ::geteuid())
        refuse_foreign(published, "is another user's");
    const std::string path = fmt::format("/proc/self/fd/{}", found.get());
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!fd)
        throw SystemError(errno, "open another rank's shared memory", kOpenHint);
    constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    const int seals = ::fcntl(fd.get(), F_GET_SEALS);
    if (seals < 0 || (seals & kSeals) != kSeals)
        refuse_foreign(published, "is not sealed as a rank's memory is");
    bytes = static_cast<std::size_t>(status.st_size);
    return fd;
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
    UniqueFd fd = create_memory_file(name, bytes);
    if (!fd)
        throw SystemError(errno, fmt::format("make {} bytes of shared memory (memfd)", bytes));
    const std::string token = random_hex(kTokenDigits / 2);
    std::string address = fmt::format("{} {} {}", ::getpid(), fd.get(), token);
    SharedMapping mapping(std::move(fd), bytes, std::move(address));
    std::memcpy(mapping.data(), token.data(), token.size());
    return mapping;
}

std::optional<SharedMapping> SharedMapping::attach(const std::string& address, std::size_t bytes) {
    const Published published = parse_address(address);
    std::size_t found_bytes = 0;
    UniqueFd fd = open_published(published, found_bytes);
    if (found_bytes != bytes || bytes < kTokenBytes)
        return std::nullopt;
    SharedMapping mapping(std::move(fd), bytes, address);
    mapping.close_to_newcomers();
    if (std::memcmp(mapping.data(), published.token.data(), kTokenDigits) != 0)
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
