#include "base/room_on_disk.hpp"

#include "base/hash.hpp"
#include "base/unique_fd.hpp"

#include <fcntl.h>
#include <linux/quota.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>

namespace autolaunch {

namespace {

constexpr auto kNoLimit = std::numeric_limits<std::int64_t>::max();

// Glibc has no function for it, and older headers have no number.
#ifdef SYS_quotactl_fd
constexpr long kQuotaOfFile = SYS_quotactl_fd;
#else
constexpr long kQuotaOfFile = 443;
#endif

// A file system without quotas answers ENOSYS as an old kernel does; only a new one looks at the
// descriptor first.
bool kernel_tells_quotas() {
    static const bool tells = ::syscall(kQuotaOfFile, -1, 0, 0, nullptr) != 0 && errno != ENOSYS;
    return tells;
}

// Beyond the soft limit the kernel may refuse at any moment.
std::int64_t left_of_quota(int fd, int type, std::uint32_t id) {
    constexpr std::uint64_t kBlock = 1024;
    if_dqblk quota{};
    if (::syscall(kQuotaOfFile, fd, QCMD(Q_GETQUOTA, type), id, &quota) != 0)
        return kNoLimit;  // there is none
    if (quota.dqb_bsoftlimit != 0 && quota.dqb_curspace >= quota.dqb_bsoftlimit * kBlock)
        return 0;
    if (quota.dqb_bhardlimit == 0)
        return kNoLimit;
    const std::uint64_t limit = quota.dqb_bhardlimit * kBlock;
    return static_cast<std::int64_t>(limit - std::min(limit, std::uint64_t{quota.dqb_curspace}));
}

}  // namespace

RoomLeft room_left(int fd) noexcept {
    struct statvfs disk {};
    const bool told = ::fstatvfs(fd, &disk) == 0;
    RoomLeft left{told ? static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize) : kNoLimit,
                  told && kernel_tells_quotas()};
    if (left.knows_quotas)
        left.bytes = std::min({left.bytes, left_of_quota(fd, USRQUOTA, ::geteuid()),
                               left_of_quota(fd, GRPQUOTA, ::getegid())});
    return left;
}

bool is_want_of_room(int error) noexcept {
    return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

std::string why_no_room(const std::filesystem::path& folder) {
    const std::filesystem::path path = folder / (".autolaunch-room-" + random_hex(8));
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd)
        return std::strerror(errno);
    std::array<char, 4096> block;
    block.fill('.');
    int error = 0;
    const ssize_t written = ::write(fd.get(), block.data(), block.size());
    if (written != static_cast<ssize_t>(block.size()))
        error = written < 0 ? errno : ENOSPC;
    // A network file system tells it now. Not by fsync: others wait for our answer.
    else if (::close(fd.release()) != 0)
        error = errno;
    ::unlink(path.c_str());
    return error == 0 ? "" : std::strerror(error);
}

bool tells_want_of_room(std::string_view text) {
    constexpr std::string_view kWords[] = {"No space left on device",
                                           "Disk quota exceeded",
                                           "ENOSPC",
                                           "EDQUOT",
                                           "[Errno 28]",
                                           "[Errno 122]",
                                           "File too large",
                                           "os error 28"};
    return std::any_of(std::begin(kWords), std::end(kWords), [&](std::string_view words) {
        return text.find(words) != std::string_view::npos;
    });
}

}  // namespace autolaunch
