#include "python_start/mount_copies.hpp"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace autolaunch::launcher {

namespace {

constexpr int kMostMapped = 256;
constexpr int kMapsBytes = 64 * 1024;
constexpr int kAnswerMs = 5000;  // of who serves files in pieces

/// Files that this process has mapped, which stay as they are.
struct Mapped {
    dev_t device[kMostMapped];
    ino_t inode[kMostMapped];
    int count = 0;
};

bool fail(MountedCopies& result, const char* doing) {
    ::snprintf(result.why, sizeof result.why, "%s: %s", doing, ::strerror(errno));
    return false;
}

bool write_text(const char* path, const char* text) {
    const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
    const bool done =
        fd >= 0 && ::write(fd, text, ::strlen(text)) == static_cast<ssize_t>(::strlen(text));
    if (fd >= 0)
        ::close(fd);
    return done;
}

bool enter_user_namespace(MountedCopies& result) {
    const unsigned user = ::geteuid(), group = ::getegid();
    char text[40];
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return fail(result, "no user namespace can be made here");
    result.in_user_namespace = true;
    ::snprintf(text, sizeof text, "%u %u 1\n", user, user);
    if (!write_text("/proc/self/setgroups", "deny") || !write_text("/proc/self/uid_map", text))
        return fail(result, "a user namespace gets no user");
    ::snprintf(text, sizeof text, "%u %u 1\n", group, group);
    return write_text("/proc/self/gid_map", text) || fail(result, "a user namespace gets no group");
}

bool enter_namespace(MountedCopies& result) {
    if (::unshare(CLONE_NEWNS) != 0 && !enter_user_namespace(result))
        return false;
    return ::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0 ||
           fail(result, "mounts cannot be kept to this process");
}

/// The lines of /proc/self/maps, in a buffer that has room for some hundred.
void read_mapped(Mapped& mapped) {
    char text[kMapsBytes + 1];
    const int fd = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t bytes = 0;
    for (ssize_t got = 0;
         fd >= 0 && bytes < kMapsBytes && (got = ::read(fd, text + bytes, kMapsBytes - bytes)) > 0;)
        bytes += static_cast<size_t>(got);
    if (fd >= 0)
        ::close(fd);
    text[bytes] = '\0';
    for (char* line = text; line != nullptr && *line != '\0';) {
        char* const end = ::strchr(line, '\n');
        if (end != nullptr)
            *end = '\0';
        struct stat facts;
        const char* path = ::strchr(line, '/');
        if (path != nullptr && mapped.count < kMostMapped && ::stat(path, &facts) == 0) {
            mapped.device[mapped.count] = facts.st_dev;
            mapped.inode[mapped.count++] = facts.st_ino;
        }
        line = end == nullptr ? nullptr : end + 1;
    }
}

bool is_mapped(const Mapped& mapped, const struct stat& file) {
    for (int at = 0; at < mapped.count; ++at)
        if (mapped.device[at] == file.st_dev && mapped.inode[at] == file.st_ino)
            return true;
    return false;
}

/// So that what is mounted out of it is read-only, with one call for all: mounts take that over.
bool make_readonly(MountedCopies& result, const char* folder) {
    struct statvfs facts;
    if (::mount(folder, folder, nullptr, MS_BIND, nullptr) != 0)
        return fail(result, "the folder of the copies cannot be mounted");
    if (::statvfs(folder, &facts) != 0)
        return fail(result, "the folder of the copies cannot be looked at");
    unsigned long flags = MS_BIND | MS_REMOUNT | MS_RDONLY;
    const unsigned long kept[][2] = {{ST_NOSUID, MS_NOSUID},     {ST_NODEV, MS_NODEV},
                                     {ST_NOATIME, MS_NOATIME},   {ST_NODIRATIME, MS_NODIRATIME},
                                     {ST_RELATIME, MS_RELATIME}, {ST_NOEXEC, MS_NOEXEC}};
    for (const auto& flag : kept)
        if ((facts.f_flag & flag[0]) != 0)
            flags |= flag[1];
    return ::mount(nullptr, folder, nullptr, flags, nullptr) == 0 ||
           fail(result, "the folder of the copies cannot be mounted read-only");
}

/// What a process has that made a user namespace; a program that is executed would lose it, too.
bool drop_privileges() {
    __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct none[2]{};
    return ::syscall(SYS_capset, &head, none) == 0;
}

/// Whether it is what the copy was made of; for files in pieces, whose attributes are the
/// original's, too.
bool is_copy_of(const struct stat& copy, const struct stat& original, bool in_pieces) {
    return S_ISREG(copy.st_mode) && S_ISREG(original.st_mode) &&
           (in_pieces || copy.st_uid == ::geteuid()) && copy.st_size == original.st_size &&
           copy.st_mtim.tv_sec == original.st_mtim.tv_sec &&
           copy.st_mtim.tv_nsec == original.st_mtim.tv_nsec;
}

/// The whole copies, or the files in pieces.
void mount_all(MountedCopies& result, const char* pairs, std::size_t bytes, const Mapped& mapped,
               const char* folder, bool in_pieces) {
    const char* const end = pairs + bytes;
    int changed = 0;
    while (pairs < end) {
        const char* copy = pairs;
        const char* original = copy + ::strlen(copy) + 1;
        pairs = original + ::strlen(original) + 1;
        char path[PATH_MAX];
        struct stat of_copy, of_original;
        if ((::strchr(copy, '/') == nullptr) != in_pieces)
            continue;
        ::snprintf(path, sizeof path, "%s%s%s", in_pieces ? folder : "", in_pieces ? "/" : "",
                   copy);
        const bool is_there = ::lstat(path, &of_copy) == 0 && ::stat(original, &of_original) == 0;
        if (is_there && is_mapped(mapped, of_original))
            continue;
        if (!is_there || !is_copy_of(of_copy, of_original, in_pieces)) {
            ++changed;
            continue;
        }
        (in_pieces ? result.pieces_device : result.copies_device) = of_copy.st_dev;
        if (::mount(path, original, nullptr, MS_BIND, nullptr) == 0)
            ++result.mounted;
        else
            fail(result, "not all copies could be mounted");
    }
    if (changed > 0 && result.why[0] == '\0')
        ::snprintf(result.why, sizeof result.why,
                   "%d files have changed since they were copied, or their copies are gone",
                   changed);
}

bool are_there_pieces(const char* pairs, std::size_t bytes) {
    for (const char* at = pairs; at < pairs + bytes;) {
        if (::strchr(at, '/') == nullptr)
            return true;
        at += ::strlen(at) + 1;
        at += ::strlen(at) + 1;
    }
    return false;
}

/// Its /dev/fuse; -1: it is not mounted. It has to be opened in this namespace.
int mount_pieces(MountedCopies& result, const char* folder) {
    char options[120];
    const int device = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (device < 0) {
        fail(result, "/dev/fuse cannot be opened");
        return -1;
    }
    // Who may read what is as with the originals: of all users of the namespace, by modes.
    ::snprintf(options, sizeof options,
               "fd=%d,rootmode=40555,user_id=%u,group_id=%u,default_permissions,allow_other",
               device, ::geteuid(), ::getegid());
    if (::mount("autolaunch", folder, "fuse.autolaunch", MS_NOSUID | MS_NODEV | MS_RDONLY,
                options) == 0)
        return device;
    fail(result, "no FUSE file system can be mounted");
    ::close(device);
    return -1;
}

/// Hands it to whoever serves it, and waits until he does.
bool hand_in(MountedCopies& result, int door, int device) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return fail(result, "no pair of sockets can be made");
    char byte = 0;
    iovec part{&byte, 1};
    alignas(cmsghdr) char space[CMSG_SPACE(2 * sizeof(int))];
    const int fds[2] = {device, ends[1]};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fds);
    ::memcpy(CMSG_DATA(head), fds, sizeof fds);
    const bool sent = ::sendmsg(door, &message, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
    ::close(ends[1]);
    pollfd waited{ends[0], POLLIN, 0};
    const bool served =
        sent && ::poll(&waited, 1, kAnswerMs) > 0 && ::recv(ends[0], &byte, 1, 0) == 1;
    ::close(ends[0]);
    if (!served)
        ::snprintf(result.why, sizeof result.why, "nobody serves the files in pieces");
    return served;
}

void show_pieces(MountedCopies& result, const char* pairs, std::size_t bytes, const Mapped& mapped,
                 const char* folder, int door) {
    const int device = mount_pieces(result, folder);
    if (device < 0)
        return;
    const bool served = hand_in(result, door, device);
    ::close(device);  // when the server ends, whoever waits is told
    if (served)
        mount_all(result, pairs, bytes, mapped, folder, true);
    ::umount2(folder, MNT_DETACH);
}

}  // namespace

MountedCopies mount_copies(const char* pairs, std::size_t bytes, const char* folder, int door) {
    MountedCopies result;
    Mapped mapped;
    read_mapped(mapped);
    if (enter_namespace(result) && make_readonly(result, folder)) {
        mount_all(result, pairs, bytes, mapped, folder, false);
        ::umount2(folder, MNT_DETACH);
        if (are_there_pieces(pairs, bytes))
            show_pieces(result, pairs, bytes, mapped, folder, door);
    }
    if (result.in_user_namespace && !drop_privileges())
        ::_exit(125);  // never with more than its user has
    return result;
}

MountedCopies try_mount_pieces(const char* folder) {
    MountedCopies result;
    if (enter_namespace(result)) {
        const int device = mount_pieces(result, folder);
        if (device >= 0)
            ::close(device);
    }
    return result;
}

}  // namespace autolaunch::launcher
