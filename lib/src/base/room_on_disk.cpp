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

// Of bytes and of files; none where there is no quota.
std::vector<QuotaUse> quotas_of(int fd, int type, std::uint32_t id) {
    constexpr std::uint64_t kBlock = 1024;
    if_dqblk quota{};
    if (::syscall(kQuotaOfFile, fd, QCMD(Q_GETQUOTA, type), id, &quota) != 0)
        return {};
    return {{QuotaUse::Of::bytes, quota.dqb_curspace, quota.dqb_bsoftlimit * kBlock,
             quota.dqb_bhardlimit * kBlock},
            {QuotaUse::Of::files, quota.dqb_curinodes, quota.dqb_isoftlimit, quota.dqb_ihardlimit}};
}

// Beyond the soft limit the kernel may refuse at any moment.
std::int64_t bytes_left(const QuotaUse& use) {
    if (use.soft != 0 && use.used >= use.soft)
        return 0;
    return use.hard == 0 ? kNoLimit
                         : static_cast<std::int64_t>(use.hard - std::min(use.hard, use.used));
}

}  // namespace

RoomLeft room_left(int fd) noexcept {
    struct statvfs disk {};
    const bool told = ::fstatvfs(fd, &disk) == 0;
    RoomLeft left{told ? static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize) : kNoLimit,
                  told && kernel_tells_quotas()};
    if (left.knows_quotas)
        for (const QuotaUse& use : own_quotas(fd))
            if (use.of == QuotaUse::Of::bytes)
                left.bytes = std::min(left.bytes, bytes_left(use));
    return left;
}

std::vector<QuotaUse> own_quotas(int fd) {
    if (!kernel_tells_quotas())
        return {};
    std::vector<QuotaUse> uses = quotas_of(fd, USRQUOTA, ::geteuid());
    const std::vector<QuotaUse> group = quotas_of(fd, GRPQUOTA, ::getegid());
    uses.insert(uses.end(), group.begin(), group.end());
    return uses;
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
