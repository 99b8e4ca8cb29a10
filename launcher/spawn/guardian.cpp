#include "spawn/guardian.hpp"

#include "spawn/guardian_image.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace autolaunch::launcher {

namespace {

constexpr char kName[] = "job-guardian";
constexpr int kLock = 3;  // where the lock is, for the program of its own to find it
constexpr long kMillisecond = 1'000'000;
constexpr long kBeforeOwnImage = 50 * kMillisecond;
constexpr long kShortestPause = kMillisecond / 10, kLongestPause = 5 * kMillisecond;
constexpr time_t kEndingSeconds = 10;

void pause_for(long nanoseconds) {
    const timespec time{0, nanoseconds};
    ::nanosleep(&time, nullptr);
}

time_t monotonic_seconds() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

// The whole of a small file, or its first bytes; the length.
std::size_t read_some(const char* path, char* text, std::size_t size) {
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    const ssize_t got = ::read(file, text, size - 1);
    ::close(file);
    text[std::max<ssize_t>(got, 0)] = '\0';
    return static_cast<std::size_t>(std::max<ssize_t>(got, 0));
}

// ---- under another name

// The kernel shows as our command line what is in this part of the stack.
void overwrite_arguments(const char* title) {
    char stat[2048];
    if (read_some("/proc/self/stat", stat, sizeof stat) == 0)
        return;
    const char* field = std::strrchr(stat, ')');
    constexpr int kArgStart = 48, kFirstBehindName = 3;
    for (int number = kFirstBehindName - 1; field != nullptr && number < kArgStart; ++number)
        field = std::strchr(field + 1, ' ');
    if (field == nullptr)
        return;
    char* rest = nullptr;
    const std::size_t begin = std::strtoull(field, &rest, 10);
    const std::size_t end = std::strtoull(rest, nullptr, 10);
    if (begin == 0 || end <= begin)
        return;
    char* const arguments = reinterpret_cast<char*>(begin);
    std::memset(arguments, 0, end - begin);
    std::strncpy(arguments, title, end - begin - 1);
}

// A memory file: it needs no place on disk, and has another inode than autolaunch. Where memory
// files may not be executed (vm.memfd_noexec), we stay who we are.
int open_own_image() {
    constexpr unsigned kExecutable = 0x10;  // MFD_EXEC, of Linux 6.3
    int file = ::memfd_create(kName, MFD_CLOEXEC | kExecutable);
    if (file < 0)
        file = ::memfd_create(kName, MFD_CLOEXEC);
    if (file < 0)
        return -1;
    if (::write(file, kGuardianImage, kGuardianImageBytes) ==
        static_cast<ssize_t>(kGuardianImageBytes))
        return file;
    ::close(file);
    return -1;
}

// Returns where that cannot be.
void become_own_image(const GuardOrder& order) {
    const int image = open_own_image();
    if (image < 0)
        return;
    char name[sizeof kName];
    char of[] = "of";
    char keeper[16];
    char agent[32];
    char folder[256];
    std::strcpy(name, kName);
    std::snprintf(keeper, sizeof keeper, "%d", order.keeper);
    std::snprintf(agent, sizeof agent, "AGENT=%d", order.agent);
    const int length = std::snprintf(folder, sizeof folder, "FOLDER=%s", order.scratch);
    if (length < 0 || length >= static_cast<int>(sizeof folder))
        return;
    char* const arguments[] = {name, of, keeper, nullptr};
    char* const environment[] = {agent, folder, nullptr};
    if (order.lock >= 0)
        ::fcntl(kLock, F_SETFD, 0);
    ::syscall(SYS_execveat, image, "", arguments, environment, 0x1000 /* AT_EMPTY_PATH */);
    ::close(image);
}

// ---- what it holds: stderr and the lock, and nobody's pipe

void keep_lock_alone(int lock) {
    const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    ::dup2(nowhere, STDIN_FILENO);
    ::dup2(nowhere, STDOUT_FILENO);
    if (lock >= 0)
        ::dup2(lock, kLock);
    const int first = lock >= 0 ? kLock + 1 : kLock;
    constexpr int kManyMore = 1024;  // for kernels before 5.9; nothing much is open yet
    if (::syscall(SYS_close_range, first, ~0U, 0) != 0)
        for (int fd = first; fd < kManyMore; ++fd)
            ::close(fd);
}

// ---- the end

bool agent_has_ended(pid_t agent) {
    siginfo_t end{};
    const int result = ::waitid(P_PID, static_cast<id_t>(agent), &end, WEXITED | WNOWAIT | WNOHANG);
    return (result == 0 && end.si_pid == agent) || (result != 0 && errno == ECHILD);
}

void await_end(pid_t agent) {
    siginfo_t end{};
    while (::waitid(P_PID, static_cast<id_t>(agent), &end, WEXITED | WNOWAIT) != 0 &&
           errno == EINTR) {
    }
}

bool was_killed(pid_t agent) {
    siginfo_t end{};
    return ::waitid(P_PID, static_cast<id_t>(agent), &end, WEXITED | WNOWAIT | WNOHANG) == 0 &&
           end.si_code != CLD_EXITED;
}

// Kills and reaps one; it is there still if it could not be reaped yet.
void end_child(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, WNOHANG);
}

// For kernels without CONFIG_PROC_CHILDREN.
bool end_some_by_scan(pid_t except) {
    DIR* const processes = ::opendir("/proc");
    bool left = false;
    while (const dirent* entry = processes == nullptr ? nullptr : ::readdir(processes)) {
        const pid_t pid = std::atoi(entry->d_name);
        char path[64], stat[512];
        std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
        if (pid <= 0 || pid == except || read_some(path, stat, sizeof stat) == 0)
            continue;
        const char* const name_end = std::strrchr(stat, ')');
        if (name_end == nullptr || std::strlen(name_end) < 5 ||
            std::atoi(name_end + 4) != ::getpid())
            continue;
        left = true;
        end_child(pid);
    }
    if (processes != nullptr)
        ::closedir(processes);
    return left;
}

// One pass over the children, or over the first of them, as many as fit. False when none is left.
bool end_some_but(pid_t except) {
    char pids[4096];
    constexpr char kChildren[] = "/proc/thread-self/children";
    if (::access(kChildren, R_OK) != 0)
        return end_some_by_scan(except);
    read_some(kChildren, pids, sizeof pids);
    bool left = false;
    char* rest = pids;
    for (const char* at = pids;; at = rest) {
        const auto pid = static_cast<pid_t>(std::strtol(at, &rest, 10));
        const bool cut_off = *rest == '\0' && rest != at;
        if (rest == at || (cut_off && rest == pids + sizeof pids - 1))
            return left;
        if (pid == except)
            continue;
        left = true;
        end_child(pid);
    }
}

// What a child leaves becomes our child in turn, so that it takes a pass for each level of a tree.
bool end_all_but(pid_t agent) {
    const time_t begin = monotonic_seconds();
    for (long pause = kShortestPause; end_some_but(agent);
         pause = std::min(pause * 2, kLongestPause)) {
        if (monotonic_seconds() - begin > kEndingSeconds)
            return false;
        pause_for(pause);
    }
    return true;
}

// The keeper cannot: it is gone. Not where nobody reads, and stderr is full.
void say_that_all_ended(bool all_ended) {
    char line[160];
    const int length = std::snprintf(
        line, sizeof line, "%s: autolaunch's keeper and agent were killed; %s\n", kName,
        all_ended ? "all that they had started was ended" : "some processes do not end");
    pollfd ready{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0) {
        [[maybe_unused]] const auto written =
            ::write(STDERR_FILENO, line, static_cast<std::size_t>(length));
    }
}

int remove_one(const char* path, const struct stat*, int, FTW*) {
    ::remove(path);
    return 0;
}

// In /tmp another user may have put what looks like ours.
void remove_named(const char* parent, const char* name) {
    DIR* const folder = ::opendir(parent);
    while (const dirent* entry = folder == nullptr ? nullptr : ::readdir(folder)) {
        struct stat facts {};
        char path[512];
        const int length = std::snprintf(path, sizeof path, "%s/%s", parent, entry->d_name);
        if (std::strncmp(entry->d_name, name, std::strlen(name)) == 0 &&
            length < static_cast<int>(sizeof path) && ::lstat(path, &facts) == 0 &&
            S_ISDIR(facts.st_mode) && facts.st_uid == ::geteuid())
            ::nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    }
    if (folder != nullptr)
        ::closedir(folder);
}

}  // namespace

void disguise_as_guardian(pid_t of) {
    char title[64];
    std::snprintf(title, sizeof title, "%s of %d", kName, of);
    ::prctl(PR_SET_NAME, kName);
    overwrite_arguments(title);
}

void remove_scratch(const char* path) {
    char parent[256];
    const char* const slash = std::strrchr(path, '/');
    if (slash == nullptr || slash[1] == '\0' || slash - path >= static_cast<long>(sizeof parent))
        return;
    std::snprintf(parent, sizeof parent, "%.*s", static_cast<int>(slash - path), path);
    for (const char* place : {static_cast<const char*>(parent), "/dev/shm", "/tmp"})
        remove_named(place, slash + 1);
}

void guard(const GuardOrder& order) {
    if (order.in_own_image) {
        ::prctl(PR_SET_NAME, kName);
    } else {
        // Away from every group and terminal that somebody may signal as a whole.
        ::setsid();
        disguise_as_guardian(order.keeper);
        keep_lock_alone(order.lock);
        sigset_t child_ends;
        ::sigemptyset(&child_ends);
        ::sigaddset(&child_ends, SIGCHLD);
        const timespec moment{0, kBeforeOwnImage};
        // A job that is over at once is spared the other program.
        if (!agent_has_ended(order.agent) && ::sigtimedwait(&child_ends, nullptr, &moment) < 0)
            become_own_image(order);
    }
    await_end(order.agent);
    const bool all_ended = end_all_but(order.agent);
    if (was_killed(order.agent)) {
        remove_scratch(order.scratch);
        if (::getppid() != order.keeper)
            say_that_all_ended(all_ended);
    }
    ::_exit(all_ended ? 0 : 1);
}

}  // namespace autolaunch::launcher
