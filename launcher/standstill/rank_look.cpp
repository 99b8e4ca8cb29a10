#include "standstill/rank_look.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/text.hpp"
#include "hang_evidence/node_state.hpp"
#include "spawn/process_condition.hpp"
#include "spawn/process_tree.hpp"

#include <autolaunch/error.hpp>

#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <vector>

namespace autolaunch::launcher {

namespace {

using std::chrono::milliseconds;

std::string read_proc(pid_t pid, const char* file) {
    try {
        return read_file("/proc/" + std::to_string(pid) + "/" + file);
    } catch (const Error&) {
        return {};  // it is gone, or another user's
    }
}

// The fields after the program's name, which may have blanks and brackets.
std::string stat_fields(pid_t pid) {
    const std::string stat = read_proc(pid, "stat");
    const std::size_t end = stat.rfind(") ");
    return end == std::string::npos ? std::string() : stat.substr(end + 2);
}

// CPU time and major faults.
void add_stat(pid_t pid, ActivityLook& look) {
    constexpr int kMajorFaults = 9, kUserTime = 11;  // counted from the state
    std::istringstream fields(stat_fields(pid));
    std::string skipped;
    std::uint64_t faults = 0, of_children = 0;
    for (int field = 0; field < kMajorFaults; ++field)
        fields >> skipped;
    static_assert(kMajorFaults + 2 == kUserTime);
    fields >> faults >> of_children;
    std::int64_t user = 0, kernel = 0;
    fields >> user >> kernel;
    static const std::int64_t ticks = ::sysconf(_SC_CLK_TCK);
    look.cpu_time += std::chrono::milliseconds((user + kernel) * 1000 / ticks);
    look.major_faults += faults;
}

void add_io(pid_t pid, ActivityLook& look) {
    std::istringstream lines(read_proc(pid, "io"));
    std::uint64_t bytes = 0;
    for (std::string name; lines >> name >> bytes;) {
        if (name == "rchar:" || name == "wchar:")
            look.moved_bytes += bytes;
        if (name == "read_bytes:")
            look.disk_bytes += bytes;
    }
}

// Its second number is the time in ns in which it could run, and another one did.
milliseconds waited_of(pid_t pid) {
    std::error_code gone;
    std::uint64_t sum = 0;
    for (const auto& thread : list_folder("/proc/" + std::to_string(pid) + "/task", gone)) {
        std::istringstream fields(
            read_proc(pid, ("task/" + thread.filename().string() + "/schedstat").c_str()));
        std::uint64_t ran = 0, waited = 0;
        if (fields >> ran >> waited)
            sum += waited;
    }
    return milliseconds(sum / 1'000'000);
}

struct CallName {
    long number;
    const char* does;
    bool has_file;  ///< its first argument is a descriptor
};
constexpr CallName kCalls[] = {
    {SYS_read, "reads", true},
    {SYS_pread64, "reads", true},
    {SYS_readv, "reads", true},
    {SYS_write, "writes to", true},
    {SYS_pwrite64, "writes to", true},
    {SYS_writev, "writes to", true},
    {SYS_fsync, "waits until the disk has", true},
    {SYS_fdatasync, "waits until the disk has", true},
    {SYS_flock, "waits for the lock of", true},
    {SYS_recvfrom, "waits for a message on", true},
    {SYS_recvmsg, "waits for a message on", true},
    {SYS_sendto, "sends to", true},
    {SYS_sendmsg, "sends to", true},
    {SYS_accept4, "waits for a connection on", true},
    {SYS_connect, "connects", false},
    {SYS_openat, "opens a file", false},
    {SYS_futex, "waits for a lock or another thread", false},
    {SYS_ppoll, "waits for input", false},
    {SYS_pselect6, "waits for input", false},
    {SYS_epoll_pwait, "waits for input", false},
#ifdef SYS_poll
    {SYS_poll, "waits for input", false},
    {SYS_select, "waits for input", false},
    {SYS_epoll_wait, "waits for input", false},
    {SYS_open, "opens a file", false},
    {SYS_pause, "waits for a signal", false},
#endif
    {SYS_rt_sigsuspend, "waits for a signal", false},
    {SYS_rt_sigtimedwait, "waits for a signal", false},
    {SYS_nanosleep, "sleeps", false},
    {SYS_clock_nanosleep, "sleeps", false},
};

std::string file_of(pid_t pid, const std::string& descriptor) {
    std::uint64_t number = 0;
    const char* const begin = descriptor.data() + (descriptor.starts_with("0x") ? 2 : 0);
    std::from_chars(begin, descriptor.data() + descriptor.size(), number, 16);
    std::error_code error;
    const auto file = std::filesystem::read_symlink(
        "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(number), error);
    return error ? "descriptor " + std::to_string(number) : file.string();
}

std::string describe_child(pid_t pid);

// Of a thread of `pid`; empty: that may not be read ("running" among it), or says nothing.
std::string describe_call(pid_t pid, pid_t thread) {
    std::istringstream call(read_proc(thread, "syscall"));
    long number = -1;
    std::string first;
    if (!(call >> number >> first))
        return {};
    if (number == SYS_wait4 || number == SYS_waitid)
        return describe_child(pid);
    for (const CallName& name : kCalls)
        if (name.number == number)
            return name.has_file ? std::string(name.does) + " " + file_of(pid, first) : name.does;
    return {};
}

std::string what_it_does(pid_t process) {
    const std::string does = process_condition(process);
    return does.empty() ? describe_call(process, process) : does;
}

std::string describe_wait_for(pid_t child, const std::string& does) {
    const std::string text = "waits for its child " + std::string(trim(read_proc(child, "comm"))) +
                             " (pid " + std::to_string(child) + ")";
    return does.empty() ? text : text + ", which " + does;
}

std::string describe_child(pid_t pid) {
    const auto children = list_children(pid);
    if (children.empty())
        return "waits for a child that is not there";
    return describe_wait_for(children.front(), what_it_does(children.front()));
}

}  // namespace

ActivityLook look_at_tree(pid_t pid) {
    ActivityLook look;
    look.at = std::chrono::steady_clock::now();
    for (const pid_t process : list_tree(pid)) {
        add_stat(process, look);
        add_io(process, look);
    }
    look.waited = waited_of(pid);
    look.throttled = std::chrono::duration_cast<milliseconds>(throttled_time(pid));
    return look;
}

char state_of(pid_t pid) {
    const std::string fields = stat_fields(pid);
    return fields.empty() ? '\0' : fields.front();
}

std::string describe_thread(pid_t pid, pid_t thread) {
    const char state = state_of(thread);
    if (state == '\0')
        return {};
    std::string text = "thread " + std::to_string(thread) + " " +
                       std::string(trim(read_proc(thread, "comm"))) + ": " + state;
    if (const std::string does = describe_call(pid, thread); !does.empty())
        text += ", " + does;
    const std::string function(trim(read_proc(thread, "wchan")));
    return function.empty() || function == "0" ? text : text + ", in " + function;
}

std::string describe_busy_child(pid_t pid) {
    for (const pid_t child : list_children(pid)) {
        const std::string does = what_it_does(child);
        if (does.empty() && state_of(child) != 'R')
            continue;
        if (!does.starts_with("waits for input") && !does.starts_with("waits for a lock"))
            return describe_wait_for(child, does.empty() ? "computes" : does);
    }
    return {};
}

std::string describe_standing(pid_t pid) { return describe_call(pid, pid); }

}  // namespace autolaunch::launcher
