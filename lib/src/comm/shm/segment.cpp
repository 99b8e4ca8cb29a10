#include "comm/shm/segment.hpp"

#include "base/hash.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace autolaunch::shm {
namespace {

constexpr char kOpenHint[] =
    "the ranks of a node must run as one user, in one PID namespace, with /proc mounted; else choose backend mpi";

UniqueFd open_published(const std::string& pid, const std::string& descriptor) {
    const std::string path = "/proc/" + pid + "/fd/" + descriptor;
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (fd) return fd;
    if (errno == ENOENT) {
        throw Error(ErrorCode::closed, fmt::format("rank 0 (pid {}) went away before all ranks shared its memory", pid),
                    kOpenHint);
    }
    throw SystemError(errno, "open rank 0's shared memory " + path, kOpenHint);
}

}  // namespace

Segment::Segment(UniqueFd fd, int size, std::string address)
    : layout_(size), fd_(std::move(fd)), address_(std::move(address)) {
    void* base = ::mmap(nullptr, layout_.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_.get(), 0);
    if (base == MAP_FAILED) throw SystemError(errno, fmt::format("map {} bytes of shared memory", layout_.bytes()));
    base_ = static_cast<std::byte*>(base);
}

Segment::Segment(Segment&& other) noexcept
    : layout_(other.layout_),
      fd_(std::move(other.fd_)),
      address_(std::move(other.address_)),
      base_(std::exchange(other.base_, nullptr)) {}

Segment::~Segment() {
    if (base_ != nullptr) ::munmap(base_, layout_.bytes());
}

Segment Segment::create(int size, std::span<const int> pids) {
    UniqueFd fd(::memfd_create("autolaunch-shm", MFD_CLOEXEC));
    if (!fd) throw SystemError(errno, "create shared memory (memfd)");
    const auto bytes = static_cast<off_t>(Layout(size).bytes());
    if (::ftruncate(fd.get(), bytes) != 0) throw SystemError(errno, fmt::format("size shared memory to {}", bytes));
    const std::string token = random_hex(16);
    std::string address = fmt::format("{} {} {}", ::getpid(), fd.get(), token);
    Segment segment(std::move(fd), size, std::move(address));
    segment.header().size = size;
    for (std::size_t rank = 0; rank < pids.size(); ++rank) {
        segment.rank_state(static_cast<int>(rank)).pid.store(pids[rank], std::memory_order_relaxed);
    }
    std::memcpy(segment.header().token, token.data(), token.size());
    return segment;
}

Segment Segment::attach(const std::string& address, int size) {
    const auto parts = split(address, ' ');
    if (parts.size() != 3) {
        throw Error(ErrorCode::corrupt, "rank 0 published '" + address + "' as its shared memory");
    }
    UniqueFd fd = open_published(parts[0], parts[1]);
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) throw SystemError(errno, "examine rank 0's shared memory");
    const bool sized = static_cast<std::size_t>(status.st_size) == Layout(size).bytes();
    if (sized) {
        Segment segment(std::move(fd), size, address);
        segment.close_to_newcomers();
        if (segment.header().size == size && parts[2] == segment.header().token) return segment;
    }
    throw Error(ErrorCode::closed, fmt::format("pid {} is not rank 0 of this group of {}", parts[0], size),
                "rank 0 went away and its process number was reused, or the ranks run different releases");
}

RankState& Segment::rank_state(int rank) const noexcept {
    return reinterpret_cast<RankState*>(base_ + layout_.rank_states())[rank];
}

Channel& Segment::channel(int from, int to) const noexcept {
    const std::size_t index = static_cast<std::size_t>(from) * layout_.size + static_cast<std::size_t>(to);
    return reinterpret_cast<Channel*>(base_ + layout_.channels())[index];
}

std::byte* Segment::slot(int rank, std::uint64_t piece) const noexcept {
    return base_ + layout_.slots() + (static_cast<std::size_t>(rank) * kSlots + piece % kSlots) * kSlotBytes;
}

std::byte* Segment::channel_chunk(int from, int to, std::uint64_t chunk) const noexcept {
    const std::size_t index = static_cast<std::size_t>(from) * layout_.size + static_cast<std::size_t>(to);
    return base_ + layout_.channel_chunks() + (index * kChannelChunks + chunk % kChannelChunks) * kChannelChunkBytes;
}

}  // namespace autolaunch::shm
